//! The authorities whose certificates are trusted.

use crate::Certificate;
use crate::credentials::read_certificates;
use rustls::RootCertStore;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Certificates of authorities.
#[derive(Clone, Debug)]
pub struct Authorities {
    pub(crate) roots: Arc<RootCertStore>,
    /// The certificate that expires first.
    first_to_expire: Certificate,
}

impl Authorities {
    /// Reads a file of certificates and all files of a folder; at least one certificate. The error names the file.
    pub fn load(file: Option<&Path>, folder: Option<&Path>) -> Result<Self, String> {
        let mut found = Vec::new();
        if let Some(file) = file {
            found = read_certificates(file)?;
        }
        if let Some(folder) = folder {
            let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
            let mut files = Vec::new();
            for entry in fs::read_dir(folder).map_err(fail)? {
                let path = entry.map_err(fail)?.path();
                if path.is_file() {
                    files.push(path);
                }
            }
            files.sort();
            for file in &files {
                // A folder of authorities holds other files too, such as lists of what was revoked.
                found.extend(read_certificates(file).unwrap_or_default());
            }
        }
        let mut roots = RootCertStore::empty();
        let known = found.iter().filter_map(Certificate::read);
        let first_to_expire = known.min_by_key(|certificate| certificate.not_after_s);
        let (usable, _) = roots.add_parsable_certificates(found);
        let first_to_expire = first_to_expire.filter(|_| usable > 0);
        let first_to_expire = first_to_expire.ok_or("there is no certificate of an authority")?;
        Ok(Self { roots: Arc::new(roots), first_to_expire })
    }

    /// The certificate that expires first.
    #[must_use]
    pub fn first_to_expire(&self) -> &Certificate {
        &self.first_to_expire
    }
}
