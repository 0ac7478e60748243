//! A client of the Redis Cluster protocol: a pool of pipelined connections for load, a blocking one for tools.

mod address;
mod client;
mod connection;
mod failure;
#[cfg(test)]
mod fake_cluster;
mod nodes;
mod pool;
mod request;
mod secure;
mod slots;
mod stream;
mod survey;
mod timer;
mod url;

pub use address::{Address, BadAddress};
pub use client::Client;
pub use connection::Greeting;
pub use failure::{Access, Answer, Failure, ReadFrom};
pub use pool::{Ask, Pool, PoolOptions};
pub use request::Request;
pub use resp::{Elements, Frame, Nesting, Value};
pub use secure::Secure;
pub use slots::SlotMap;
pub use stream::SharedStream;
pub use url::{Login, StoreUrl};
