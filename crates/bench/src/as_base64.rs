//! Bytes in JSON, as base 64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer, de, ser::SerializeSeq as _};

/// Writes a list of byte strings.
pub(crate) fn serialize<S: Serializer>(list: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(list.len()))?;
    for bytes in list {
        sequence.serialize_element(&STANDARD.encode(bytes))?;
    }
    sequence.end()
}

/// Reads as many byte strings as there must be.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<[Vec<u8>; N], D::Error> {
    let list = Vec::<String>::deserialize(deserializer)?;
    let bytes: Result<Vec<Vec<u8>>, _> = list.iter().map(|text| STANDARD.decode(text)).collect();
    let bytes = bytes.map_err(de::Error::custom)?;
    bytes.try_into().map_err(|_| de::Error::custom(format!("expected {N} byte strings")))
}
