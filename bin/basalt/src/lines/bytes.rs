//! Bytes in JSON: a string where they are UTF-8, else `{"base64": "…"}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

const BASE64: &str = "base64";

/// Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => to.serialize_str(text),
            Err(_) => {
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry(BASE64, &STANDARD.encode(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or {\"base64\": \"…\"}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes(text.as_bytes().to_vec()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Bytes, E> {
        Ok(Bytes(text.into_bytes()))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Bytes, M::Error> {
        let entry = map.next_entry::<String, String>()?;
        let text = entry.filter(|(name, _)| name == BASE64).map(|(_, text)| text);
        let bytes = text.and_then(|text| STANDARD.decode(text).ok());
        let more = map.next_entry::<String, String>()?;
        bytes
            .filter(|_| more.is_none())
            .map(Bytes)
            .ok_or_else(|| Error::custom("bytes that are not {\"base64\": \"…\"}"))
    }
}
