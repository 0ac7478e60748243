//! Why a handshake fails, where it is the other side's certificate.

use rustls::Error;
use std::io;

/// How webpki calls a certificate of another version of X.509 than 3.
const OLD_VERSION: &str = "UnsupportedCertVersion";
/// What is said of it: no option of OpenSSL is so often left out.
const OLD_VERSION_TEXT: &str = "its certificate is of version 1 of X.509, and not of version 3, as `openssl x509 -req` makes them without -extfile or \
    -copy_extensions";

/// Why the other side's certificate is not taken, if that is what an error of `Connection::handshake` says.
#[must_use]
pub fn refused_certificate(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::InvalidCertificate(why) if why.to_string().contains(OLD_VERSION) => Some(OLD_VERSION_TEXT.to_owned()),
        refused @ (Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Some(refused.to_string()),
        _ => None,
    }
}
