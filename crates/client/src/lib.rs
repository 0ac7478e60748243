//! A client of the Redis Cluster protocol: a pool of pipelined connections for load, a blocking one for tools.

mod address;
mod client;
mod connection;
mod pool;
mod request;
mod slots;
mod timer;

pub use address::{Address, BadAddress};
pub use client::Client;
pub use connection::{Answer, Failure};
pub use pool::{Pool, PoolOptions};
pub use request::Request;
pub use resp::{Elements, Frame, Nesting, Value};
pub use slots::SlotMap;
