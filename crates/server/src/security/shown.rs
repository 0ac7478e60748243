//! What a connection's certificate says of the other side.

use crate::net::Stream;
use node::session::ShownCertificate;

/// The names in the certificate that the other side of a connection has shown.
pub(crate) fn shown_certificate(stream: &Stream) -> Option<ShownCertificate> {
    let shown = stream.peer_certificate()?;
    let names = shown.names.iter().map(tls::Name::text).collect();
    Some(ShownCertificate { common_name: shown.common_name, names })
}
