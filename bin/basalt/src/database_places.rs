//! In the slot of which database the keys of each are, as SWAPDB has left them: who reads keys as they are stored asks for it.

use crate::moment::{connect, number_of_setting, said};
use client::StoreUrl;
use cluster::{DATABASES_SETTING, Databases};

/// How many databases clients of a store may choose from.
pub(crate) fn databases_of(node: &StoreUrl) -> Result<u64, String> {
    let answer = said(&mut connect(node)?, &[b"CONFIG", b"GET", b"databases"])?;
    number_of_setting(&answer).ok_or_else(|| "the store does not say how many databases it has".to_owned())
}

/// What the store has set for its databases.
pub(crate) fn database_places(node: &StoreUrl) -> Result<Databases, String> {
    let asked: [&[u8]; 4] = [b"KV.ADMIN", b"SETTINGS", b"GET", DATABASES_SETTING.as_bytes()];
    let answer = said(&mut connect(node)?, &asked)?;
    let setting: Option<serde_json::Value> = answer.as_bytes().and_then(|text| serde_json::from_slice(text).ok());
    let setting = setting.ok_or_else(|| format!("what is set for databases cannot be read ({DATABASES_SETTING})"))?;
    setting["value"].as_str().unwrap_or_default().parse()
}
