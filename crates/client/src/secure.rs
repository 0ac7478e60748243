//! How a client with TLS trusts and shows who it is: `rediss://host:port`, and files.

use std::io;
use std::path::{Path, PathBuf};

use tls::{Authorities, ClientSide, Credentials, Protocols, Trust};

/// Where systems keep the certificates of the authorities that they trust.
const OF_SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What a client with TLS goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secure {
    /// The certificates of the authorities that are trusted, in PEM; none: those of the system.
    pub authorities: Option<PathBuf>,
    /// The client's certificate, in PEM.
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    pub key: Option<PathBuf>,
    /// Whether any server is trusted: a program in between can read what is sent.
    pub insecure: bool,
}

impl Secure {
    /// Reads the files.
    pub(crate) fn load(&self) -> io::Result<ClientSide> {
        self.side().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("TLS: {why}")))
    }

    fn side(&self) -> Result<ClientSide, String> {
        let trust = match (&self.authorities, self.insecure) {
            (_, true) => Trust::Any,
            (Some(file), false) => Trust::Authorities(Authorities::load(Some(file), None)?),
            (None, false) => {
                let of_system = OF_SYSTEM.iter().map(Path::new).find(|file| file.is_file());
                let file = of_system.ok_or("this system has no list of authorities: name one (--tls-ca)")?;
                Trust::Authorities(Authorities::load(Some(file), None)?)
            }
        };
        let credentials = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(Credentials::load(certificate, key, b"")?),
            (None, None) => None,
            _ => return Err("a certificate and its key go together (--tls-cert, --tls-key)".to_owned()),
        };
        ClientSide::new(&trust, credentials.as_ref(), Protocols::default())
    }
}
