//! How a server takes connections.

use crate::{Authorities, Connection, Credentials, Protocols};
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use std::sync::Arc;

/// Whether clients show a certificate.
#[derive(Clone, Debug)]
pub enum ClientCertificates {
    /// They are not asked for one.
    No,
    /// They may; what they show must be of one of these authorities.
    Optional(Authorities),
    /// They must.
    Required(Authorities),
}

/// How a server takes connections.
#[derive(Clone, Debug)]
pub struct ServerSide(Arc<ServerConfig>);

impl ServerSide {
    /// A server with these credentials. `sessions`: how many of them can be resumed; 0: none.
    pub fn new(
        credentials: &Credentials,
        clients: &ClientCertificates,
        protocols: Protocols,
        sessions: usize,
    ) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&protocols.versions())
            .map_err(|e| e.to_string())?;
        let verifier = |authorities: &Authorities| {
            WebPkiClientVerifier::builder_with_provider(authorities.roots.clone(), provider.clone())
        };
        let builder = match clients {
            ClientCertificates::No => builder.with_no_client_auth(),
            ClientCertificates::Optional(authorities) => {
                let verifier = verifier(authorities).allow_unauthenticated().build();
                builder.with_client_cert_verifier(verifier.map_err(|e| e.to_string())?)
            }
            ClientCertificates::Required(authorities) => {
                builder.with_client_cert_verifier(verifier(authorities).build().map_err(|e| e.to_string())?)
            }
        };
        let key = SingleCertAndKey::from(credentials.key.clone());
        let mut config = builder.with_cert_resolver(Arc::new(key));
        if sessions == 0 {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            config.session_storage = ServerSessionMemoryCache::new(sessions);
            // Each takes a place of the sessions, and most clients use one at most.
            config.send_tls13_tickets = 1;
        }
        Ok(Self(Arc::new(config)))
    }

    /// The server's side of a new connection.
    pub fn accept(&self) -> Result<Connection, String> {
        let session = rustls::ServerConnection::new(self.0.clone()).map_err(|e| e.to_string())?;
        Ok(Connection::new(session.into()))
    }
}
