//! Clients of collections: what they ask, and a plain model of what the store must answer.

mod any_type;
mod clients;
mod draw;
mod keyspace;
mod lists;
mod model;
mod request;
mod sets;
mod sorted_sets;

pub use clients::CollectionClients;
pub use keyspace::Keyspace;
pub use model::after;
pub use request::{CollectionRequest, Told, Words, tag_of};
pub use sets::STATES_MAX;
