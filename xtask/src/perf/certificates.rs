//! Certificates for what is measured, made by openssl.

use super::program;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const OPENSSL_BOUND: Duration = Duration::from_secs(30);

/// A command that makes a key and a certificate for 30 days, signed by itself unless it is told by whom.
fn request() -> Result<Command, String> {
    let mut command = Command::new(program::installed("openssl", "openssl")?);
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]);
    Ok(command)
}

/// A certificate for this machine, signed by itself.
pub struct Certificate {
    /// Its file.
    pub certificate: PathBuf,
    /// The file of its key.
    pub key: PathBuf,
}

impl Certificate {
    /// Makes it in a folder.
    pub fn make(folder: &Path) -> Result<Self, String> {
        let made = Self { certificate: folder.join("node.crt"), key: folder.join("node.key") };
        let mut command = request()?;
        command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"]);
        command.arg(&made.key).arg("-out").arg(&made.certificate);
        program::output(&mut command, OPENSSL_BOUND).map(|_| made)
    }
}

/// An authority, and what it has signed for this machine: nodes do not take each other's certificate if it is an authority's own.
pub struct Certificates {
    /// That of the authority.
    pub authority: PathBuf,
    /// That of all nodes.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Certificates {
    /// Makes all of it in a folder.
    pub fn make(folder: &Path) -> Result<Self, String> {
        let of = Certificate::make(folder)?;
        let made = Self { authority: of.certificate, certificate: folder.join("all.crt"), key: folder.join("all.key") };
        let mut command = request()?;
        command.arg("-CA").arg(&made.authority).arg("-CAkey").arg(of.key);
        command.args(["-subj", "/CN=nodes", "-addext", "subjectAltName=IP:127.0.0.1"]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]).arg(&made.key);
        command.arg("-out").arg(&made.certificate);
        program::output(&mut command, OPENSSL_BOUND).map(|_| made)
    }
}
