//! Private keys with a password: PKCS #8, as `openssl pkey` and `openssl genpkey` write them.

use pkcs8::EncryptedPrivateKeyInfo;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The label of such a key in PEM.
const LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// In keys that OpenSSL wrote by its own earlier method, which derives the key from the password by one round of MD5.
const EARLIER: &str = "Proc-Type: 4,ENCRYPTED";

/// The key in a text of PEM, if it is encrypted. The error does not name the file.
pub(crate) fn decrypt(text: &[u8], password: &[u8]) -> Result<Option<PrivateKeyDer<'static>>, String> {
    let text = String::from_utf8_lossy(text);
    if text.contains(EARLIER) {
        return Err(
            "the key is encrypted by a method that is no longer safe; `openssl pkcs8 -topk8 -in OLD -out NEW` \
                    writes it by one that is"
                .to_owned(),
        );
    }
    let (begin, end) = (format!("-----BEGIN {LABEL}-----"), format!("-----END {LABEL}-----"));
    let Some(from) = text.find(&begin) else { return Ok(None) };
    let until = text[from..].find(&end).ok_or("the encrypted key has no end")?;
    if password.is_empty() {
        return Err("the key is encrypted, and its password is not given (of a node: `tls-key-file-pass`); `openssl \
                    pkey -in KEY -out PLAIN` writes it without, to be kept where only its user can read it"
            .to_owned());
    }
    let section = format!("{}\n", &text[from..from + until + end.len()]);
    let (_, encrypted) =
        pkcs8::SecretDocument::from_pem(&section).map_err(|e| format!("the encrypted key cannot be read: {e}"))?;
    let encrypted = EncryptedPrivateKeyInfo::try_from(encrypted.as_bytes())
        .map_err(|e| format!("the encrypted key cannot be read: {e}"))?;
    let key = encrypted.decrypt(password).map_err(|e| {
        format!("the password is not the key's, or the key is encrypted by another method than AES with PBKDF2 or scrypt: {e}")
    })?;
    Ok(Some(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()))))
}
