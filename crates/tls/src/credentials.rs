//! A certificate and its key, from files.

use crate::{Certificate, encrypted_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Certificates and keys that are larger are refused.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What one side shows the other: a chain of certificates, and the key of the first.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub(crate) key: Arc<CertifiedKey>,
    certificate: Certificate,
}

impl Credentials {
    /// Reads a chain and its key, in PEM; the key's password is empty if it has none. The error names the file and what to do.
    pub fn load(certificates: &Path, key: &Path, password: &[u8]) -> Result<Self, String> {
        let chain = read_certificates(certificates)?;
        let shown = key.display();
        let text = read(key)?;
        let key = match encrypted_key::decrypt(&text, password).map_err(|why| format!("{shown}: {why}"))? {
            Some(key) => key,
            None => PrivateKeyDer::from_pem_slice(&text).map_err(|e| format!("{shown}: no private key in PEM: {e}"))?,
        };
        let provider = rustls::crypto::ring::default_provider();
        let key = CertifiedKey::from_der(chain.clone(), key, &provider)
            .map_err(|e| format!("{} and {shown} do not go together: {e}", certificates.display()))?;
        let first = chain.first().and_then(Certificate::read);
        let certificate = first.ok_or_else(|| format!("{}: the certificate cannot be read", certificates.display()))?;
        Ok(Self { key: Arc::new(key), certificate })
    }

    /// The certificate that the chain begins with.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}

/// The certificates in a file of PEM; at least one.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|e| format!("{}: no certificates in PEM: {e}", path.display()))?;
    if found.is_empty() {
        return Err(format!("{}: there is no certificate in it (PEM is expected)", path.display()));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    if fs::metadata(path).map_err(fail)?.len() > FILE_BYTES_MAX {
        return Err(format!("{}: larger than {FILE_BYTES_MAX} bytes", path.display()));
    }
    fs::read(path).map_err(fail)
}
