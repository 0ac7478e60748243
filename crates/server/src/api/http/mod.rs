//! The HTTP listener for operators: metrics, health, the admin API, its OpenAPI document and the console.
//!
//! A thread a connection, and few of them: a request may wait for other nodes, and never runs on an event loop.
//! hyper speaks HTTP; there is no runtime beneath it, only a wait for the socket. See docs/adr/0015.

mod answer;
mod asker;
mod body;
mod drive;
mod given;
mod listener;
mod login;
pub(crate) mod metrics;
mod openapi;
mod origin;
mod ready;
mod routes;
mod schemas;
mod seats;

pub(crate) use listener::{HttpListener, bind};
pub use openapi::document as openapi_document;
