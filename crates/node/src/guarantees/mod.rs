//! What a client is promised: of a write, what it has behind it when it is answered (`Durability`); of a read, how old
//! its answer may be (`Consistency`).

mod consistency;
mod durability;

pub use consistency::{Consistency, consistency_of};
pub use durability::{Acks, Durability};
pub(crate) use durability::{ChosenDurability, durability_of};
