//! The most keys of a database (`keys-max`). An entry carries it, so that all replicas refuse the same.

use vocab::Slot;

/// How many keys the database of a slot may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBound {
    /// Its slot.
    pub slot: Slot,
    /// Its most keys.
    pub keys_max: u64,
}
