//! What clients of collections (`collection_clients`) ask, and a plain model of what the store must answer.

mod any_type;
mod arguments;
mod draw;
mod keyspace;
mod lists;
mod model;
mod request;
mod sets;
mod sorted_sets;
mod stream;
mod streams;
mod strings;
mod text;
mod way;

pub use draw::{Draw, KEYS};
pub use keyspace::{Keyspace, WRONG_TYPE};
pub use model::after;
pub use request::{CollectionRequest, Told, tag_of};
pub use sets::STATES_MAX;
pub use way::{CHANNEL, Way, Words};
