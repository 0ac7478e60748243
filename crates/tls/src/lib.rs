//! TLS as servers, clients and nodes of a store use it: certificates from files, settings of either side, and one side of a
//! connection without its socket. rustls does the protocol (docs/adr/0024).

mod authorities;
mod certificate;
mod client_side;
mod connection;
mod credentials;
mod der;
mod encrypted_key;
mod protocols;
mod refused_certificate;
mod server_side;

pub use authorities::Authorities;
pub use certificate::{Certificate, Name};
pub use client_side::{ClientSide, Trust};
pub use connection::{Connection, Received};
pub use credentials::Credentials;
pub use protocols::Protocols;
pub use refused_certificate::refused_certificate;
pub use server_side::{ClientCertificates, ServerSide};
