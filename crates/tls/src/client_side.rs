//! How a client makes connections.

use crate::{Authorities, Connection, Credentials, Protocols};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// Which servers a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those with a certificate of one of these authorities, for the host that was called.
    Authorities(Authorities),
    /// Any: what is sent is encrypted, and a program in between can read it.
    Any,
}

/// How a client makes connections.
#[derive(Clone, Debug)]
pub struct ClientSide(Arc<ClientConfig>);

impl ClientSide {
    /// A client that shows these credentials, if it is asked for some.
    pub fn new(trust: &Trust, credentials: Option<&Credentials>, protocols: Protocols) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&protocols.versions())
            .map_err(|e| e.to_string())?;
        let builder = match trust {
            Trust::Authorities(authorities) => builder.with_root_certificates(authorities.roots.clone()),
            Trust::Any => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
        };
        let config = match credentials {
            Some(credentials) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(credentials.key.clone())))
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }

    /// The client's side of a new connection to a host: a name or an address.
    pub fn connect(&self, host: &str) -> Result<Connection, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("`{host}` is no name of a host"))?;
        let session = rustls::ClientConnection::new(self.0.clone(), name).map_err(|e| e.to_string())?;
        Ok(Connection::new(session.into()))
    }
}

/// Trusts any server. The server still has to prove that it has the key of its certificate.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
