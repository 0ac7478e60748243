//! Which keys go when a store that is a cache has reached its bound, and what becomes of writes meanwhile.
//!
//! The node that leads a shard decides, and has the keys removed by entries like those of clients: all replicas remove the
//! same. It goes by what it knows of the use of keys (`KeyUsage`).

mod choice;
mod pace;
mod room;
mod weighing;

pub use choice::{MayGo, Victim, Victims};
pub use pace::{DataBytes, Pace};
pub use room::{Admitted, Room};
pub use weighing::Weighing;
