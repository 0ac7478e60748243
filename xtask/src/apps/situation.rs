//! What becomes of the store while an application works.

/// What becomes of the store while the application works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// One node.
    Single,
    /// Three nodes.
    Three,
    /// Three nodes, of which the leader is killed half-way.
    Killed,
}

/// All of them, in the order of the page's columns.
pub const SITUATIONS: [Situation; 3] = [Situation::Single, Situation::Three, Situation::Killed];

impl Situation {
    /// As options, logs and the page's head call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Three => "three",
            Self::Killed => "killed",
        }
    }

    /// How many nodes the store has.
    pub fn nodes(self) -> usize {
        if self == Self::Single { 1 } else { 3 }
    }
}
