//! Why a run of a script is ended early.

/// Why a run ends whether or not the script catches errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has run too many instructions.
    Instructions,
    /// Its state would hold too much.
    Memory,
    /// SCRIPT KILL or FUNCTION KILL has ended it.
    Killed,
    /// Its turn is over, and others wait: it may begin anew.
    GivesWay,
    /// A command met a fault, or the run cannot go on for another reason: the caller knows.
    Given,
}
