//! What a certificate says of its owner: names, and until when it holds.
//!
//! rustls decides whether a certificate is to be trusted. This reads the fields that operators and the mapping to users want.

use crate::der::{Elements, GENERALIZED_TIME, INTEGER, OCTETS, OID, SEQUENCE, SET, UTC_TIME};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use std::net::IpAddr;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// The fields of a certificate that have a tag of their own: its version, and its extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// Names and text that are longer are passed over.
const NAME_BYTES_MAX: usize = 1024;
/// Alternative names that are read.
const NAMES_MAX: usize = 256;

/// An alternative name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A host.
    Dns(String),
    /// An e-mail address.
    Email(String),
    /// A URI, such as a SPIFFE id.
    Uri(String),
    /// An address.
    Ip(IpAddr),
}

impl Name {
    /// The name as text.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Dns(text) | Self::Email(text) | Self::Uri(text) => text.clone(),
            Self::Ip(address) => address.to_string(),
        }
    }
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    der: CertificateDer<'static>,
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// The common name of its subject.
    pub common_name: Option<String>,
    /// The subject's alternative names.
    pub names: Vec<Name>,
    /// From when on it holds, in s since the epoch.
    pub not_before_s: i64,
    /// Until when it holds, in s since the epoch.
    pub not_after_s: i64,
}

impl Certificate {
    /// Reads a certificate; `None` if it is none.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Option<Self> {
        let mut fields = Elements::new(Elements::new(Elements::new(der).field(SEQUENCE)?).field(SEQUENCE)?);
        fields.field(VERSION);
        let serial = fields.field(INTEGER)?;
        let (_algorithm, _issuer) = (fields.field(SEQUENCE)?, fields.field(SEQUENCE)?);
        let mut validity = Elements::new(fields.field(SEQUENCE)?);
        let (not_before_s, not_after_s) = (time(&mut validity)?, time(&mut validity)?);
        let subject = fields.field(SEQUENCE)?;
        let extensions = fields.find(|element| element.tag == EXTENSIONS).map_or(&[][..], |element| element.body);
        Some(Self {
            der: der.clone().into_owned(),
            serial: serial.iter().take(NAME_BYTES_MAX).map(|byte| format!("{byte:02X}")).collect(),
            common_name: common_name(subject),
            names: alternative_names(extensions).unwrap_or_default(),
            not_before_s,
            not_after_s,
        })
    }

    /// Whether it stands for a host: a name, or an address. The common name does not count, as with any TLS client of today.
    #[must_use]
    pub fn is_for(&self, host: &str) -> bool {
        let Ok(name) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&self.der).is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    }

    /// All names, for an operator.
    #[must_use]
    pub fn shown_names(&self) -> String {
        let common = self.common_name.iter().map(|name| format!("CN={name}"));
        let all: Vec<String> = common.chain(self.names.iter().map(Name::text)).collect();
        if all.is_empty() { "no name".to_owned() } else { all.join(", ") }
    }

    /// For how many more seconds it holds; negative: it has expired.
    #[must_use]
    pub fn left_s(&self, now_s: i64) -> i64 {
        self.not_after_s.saturating_sub(now_s)
    }
}

/// The last common name of a subject, which is the most specific.
fn common_name(subject: &[u8]) -> Option<String> {
    let sets = Elements::new(subject).filter(|set| set.tag == SET);
    let attributes = sets.flat_map(|set| Elements::new(set.body)).filter(|attribute| attribute.tag == SEQUENCE);
    let value = |body: &[u8]| {
        let mut parts = Elements::new(body);
        if parts.field(OID)? != COMMON_NAME {
            return None;
        }
        text(parts.next()?.body)
    };
    attributes.filter_map(|attribute| value(attribute.body)).last()
}

fn alternative_names(extensions: &[u8]) -> Option<Vec<Name>> {
    let all = Elements::new(Elements::new(extensions).field(SEQUENCE)?);
    let value = |body| {
        let mut parts = Elements::new(body);
        if parts.field(OID)? != ALTERNATIVE_NAMES {
            return None;
        }
        parts.find(|part| part.tag == OCTETS).map(|part| part.body)
    };
    let value = all.filter_map(|extension| value(extension.body)).next()?;
    let names = Elements::new(Elements::new(value).field(SEQUENCE)?);
    let name = |element: crate::der::Element<'_>| match element.tag {
        0x81 => text(element.body).map(Name::Email),
        0x82 => text(element.body).map(Name::Dns),
        0x86 => text(element.body).map(Name::Uri),
        0x87 => address(element.body).map(Name::Ip),
        _ => None,
    };
    Some(names.filter_map(name).take(NAMES_MAX).collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    four.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// Text that may stand in a log and a reply.
fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= NAME_BYTES_MAX)?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// A time, in s since the epoch: `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
fn time(fields: &mut Elements<'_>) -> Option<i64> {
    let element = fields.next()?;
    let digits = std::str::from_utf8(element.body).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (element.tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    Some(days(year, part(0)?, part(2)?) * 86_400 + seconds)
}

/// Days from the epoch to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the day of a leap year comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era_days = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    era_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    fn certificate() -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["db.example".to_owned(), "*.nodes.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "Basalt");
        params.distinguished_name.push(DnType::CommonName, "alice");
        params.subject_alt_names.push(SanType::IpAddress([10, 0, 0, 7].into()));
        params.subject_alt_names.push(SanType::URI("spiffe://example/alice".try_into().unwrap()));
        params.subject_alt_names.push(SanType::Rfc822Name("alice@example.org".try_into().unwrap()));
        params.not_before = date_time_ymd(2024, 2, 29);
        params.not_after = date_time_ymd(2051, 3, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn names_and_times_are_read() {
        let found = Certificate::read(&certificate()).unwrap();
        assert_eq!(found.common_name.as_deref(), Some("alice"));
        let names: Vec<String> = found.names.iter().map(Name::text).collect();
        let expected = ["db.example", "*.nodes.example", "10.0.0.7", "spiffe://example/alice", "alice@example.org"];
        assert_eq!(names, expected);
        // One time of each kind.
        assert_eq!((found.not_before_s, found.not_after_s), (1_709_164_800, 2_561_241_600));
        assert_eq!(found.left_s(2_561_241_599), 1);
        for (host, is_for) in [
            ("db.example", true),
            ("DB.example", true),
            ("n1.nodes.example", true),
            ("10.0.0.7", true),
            ("10.0.0.8", false),
            ("alice", false),
            ("nodes.example", false),
            ("", false),
            ("not a name", false),
        ] {
            assert_eq!(found.is_for(host), is_for, "{host}");
        }
        assert!(found.shown_names().starts_with("CN=alice, db.example"));
    }

    #[test]
    fn dates_are_days_since_the_epoch() {
        for (date, expected) in
            [((1970, 1, 1), 0), ((2000, 2, 29), 11_016), ((2026, 11, 26), 20_783), ((1969, 12, 31), -1)]
        {
            assert_eq!(days(date.0, date.1, date.2), expected, "{date:?}");
        }
    }

    #[test]
    fn fuzz_certificates_no_bytes_make_them_panic() {
        let base = certificate().to_vec();
        vocab::fuzz::rounds(1, |prng| {
            let mut bytes = base.clone();
            vocab::fuzz::mutate(&mut bytes, 8, prng);
            let der = CertificateDer::from(bytes);
            if let Some(found) = Certificate::read(&der) {
                assert!(found.names.len() <= NAMES_MAX && found.shown_names().len() < 300_000);
            }
        });
    }
}
