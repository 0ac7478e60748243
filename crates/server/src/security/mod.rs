//! TLS of the node's connections: certificates, and what they show.

mod node_tls;
mod shown;
mod tls_ports;

pub use node_tls::NodeTls;
pub(crate) use node_tls::PeerMode;
pub(crate) use shown::shown_certificate;
pub(crate) use tls_ports::TlsPorts;
