//! A throw-away authority for a store on this machine, and certificates of it. Not for anything that matters: its key lies
//! beside the certificates.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The names of this machine that the nodes' certificate is for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The files of a store's certificates.
pub struct Authority {
    folder: PathBuf,
}

impl Authority {
    /// The authority of the store in that directory: made if it is not there.
    pub fn of(store: &Path) -> Result<Self, String> {
        let folder = store.join("tls");
        // The nodes run elsewhere than this program may.
        let made = fs::create_dir_all(&folder).and_then(|()| fs::canonicalize(&folder));
        let folder = made.map_err(|e| format!("{}: {e}", folder.display()))?;
        let authority = Self { folder };
        if !authority.path("client.key").exists() {
            authority.make().map_err(|e| format!("{}: {e}", authority.folder.display()))?;
        }
        Ok(authority)
    }

    /// One of its files.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The settings of nodes that use it.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let file = |setting: &str, name: &str| (setting.to_owned(), self.path(name).display().to_string());
        let word = |setting: &str, value: &str| (setting.to_owned(), value.to_owned());
        vec![
            file("tls-cert-file", "node.crt"),
            file("tls-key-file", "node.key"),
            file("tls-ca-cert-file", "ca.crt"),
            word("tls-auth-clients", "optional"),
            word("tls-auth-clients-user", "CN"),
            word("tls-cluster", "yes"),
        ]
    }

    fn make(&self) -> Result<(), Box<dyn std::error::Error>> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Basalt throw-away authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        self.write("ca.crt", &authority.pem())?;
        for (file, name, hosts) in [("node", "basalt", &NAMES[..]), ("client", "default", &[])] {
            let key = KeyPair::generate()?;
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let mut params = CertificateParams::new(hosts)?;
            params.distinguished_name.push(DnType::CommonName, name);
            let certificate = params.signed_by(&key, &*authority)?;
            self.write(&format!("{file}.crt"), &certificate.pem())?;
            self.write(&format!("{file}.key"), &key.serialize_pem())?;
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let mode = if name.ends_with(".key") { 0o600 } else { 0o644 };
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(self.path(name))?;
        file.write_all(text.as_bytes())
    }
}
