//! TLS towards a store, as the command line gives it.

use std::path::PathBuf;

use clap::Args;
use client::{Secure, StoreUrl};
use serde::{Deserialize, Serialize};

/// How a store is reached with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Speak TLS, as rediss:// in an address does
    #[arg(long, global = true, help_heading = "TLS")]
    pub tls: bool,
    /// Certificates of the authorities that servers must be of, in PEM; those of the system if not given. Implies --tls
    #[arg(long, global = true, help_heading = "TLS", value_name = "FILE", alias = "cacert")]
    pub tls_ca: Option<PathBuf>,
    /// A certificate to show, in PEM. Implies --tls
    #[arg(long, global = true, help_heading = "TLS", value_name = "FILE", alias = "cert")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, global = true, help_heading = "TLS", value_name = "FILE", alias = "key")]
    pub tls_key: Option<PathBuf>,
    /// Trust any server: a program in between can read and change everything. Implies --tls
    #[arg(long, global = true, help_heading = "TLS")]
    pub tls_insecure: bool,
}

impl TlsOptions {
    /// The store, reached as the options say.
    #[must_use]
    pub fn towards(&self, store: &StoreUrl) -> StoreUrl {
        let mut store = store.clone();
        let is_on = self.tls || self.tls_insecure || self.tls_ca.is_some() || self.tls_cert.is_some();
        if is_on || store.secure.is_some() {
            store.secure = Some(Secure {
                authorities: self.tls_ca.clone(),
                certificate: self.tls_cert.clone(),
                key: self.tls_key.clone(),
                insecure: self.tls_insecure,
            });
        }
        store
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn any_option_but_the_key_switches_it_on() {
        let none = TlsOptions::default();
        let ca = TlsOptions { tls_ca: Some("ca.crt".into()), ..none.clone() };
        let insecure = TlsOptions { tls_insecure: true, ..none.clone() };
        for (options, url, expected) in [
            (&none, "redis://a:1", None),
            (&none, "rediss://a:1", Some(Secure::default())),
            (&TlsOptions { tls: true, ..none.clone() }, "a:1", Some(Secure::default())),
            (&ca, "a:1", Some(Secure { authorities: Some("ca.crt".into()), ..Secure::default() })),
            (&insecure, "rediss://a:1", Some(Secure { insecure: true, ..Secure::default() })),
        ] {
            assert_eq!(options.towards(&url.parse().unwrap()).secure, expected, "{options:?} {url}");
        }
    }
}
