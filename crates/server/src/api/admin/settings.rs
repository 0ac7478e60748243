//! The settings of the store, for operators.

use super::changes::{change, newest_map};
use super::error::AdminError;
use crate::api::exchange;
use crate::api::format_gate::FormatGate;
use crate::shared::NodeShared;
use cluster::{Change, DATABASES_SETTING, Map, STORE_SETTINGS, StoreSetting, setting_value, store_setting};
use node::ShardHandle;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn list(handle: &ShardHandle) -> Result<Value, AdminError> {
    let map = newest_map(handle)?;
    Ok(json!({"settings": STORE_SETTINGS.iter().map(|setting| shown(&map, setting)).collect::<Vec<_>>()}))
}

pub(super) fn get(handle: &ShardHandle, name: &str) -> Result<Value, AdminError> {
    Ok(shown(&newest_map(handle)?, known(name)?))
}

/// What this node knows of it, and as of which epoch of the map.
pub(super) fn known_here(store: &NodeShared, name: &str) -> Result<Value, AdminError> {
    let (setting, known) = (known(name)?, store.known());
    let map = known.map.as_ref().ok_or_else(|| AdminError::Unavailable("this node has no map yet".to_owned()))?;
    if setting.name == DATABASES_SETTING {
        exchange::settle(store);
    }
    Ok(json!({"value": setting_value(map, setting), "epoch": map.epoch.0}))
}

/// Sets it, or with none lets the default hold again; if `expected` is given, only where that is its value.
pub(super) fn set(
    store: &Arc<NodeShared>,
    handle: &ShardHandle,
    name: &str,
    value: Option<&str>,
    expected: Option<&str>,
) -> Result<Value, AdminError> {
    let setting = known(name)?;
    let now = value.map(|value| setting.parse(value).map_err(AdminError::Usage)).transpose()?;
    let was = change(store, handle, |map| {
        let (name, was) = (setting.name.to_owned(), map.settings.get(setting.name).cloned());
        let before = setting_value(map, setting);
        if expected.is_some_and(|expected| before.as_deref() != Some(expected)) {
            return Err(AdminError::Stale(format!("{name} is {} by now", before.unwrap_or_default())));
        }
        let set = now.as_ref().filter(|_| was != now);
        if let Some(value) = set.filter(|value| !FormatGate::knows(setting.name, value)) {
            return Err(AdminError::Refused(format!("this release knows no {} of {value}", setting.name)));
        }
        if let Some(value) = set {
            let checked = FormatGate::check_setting(setting, value, (map, store.node()), &store.entry_formats);
            checked.map_err(AdminError::Refused)?;
        }
        let change = (was != now).then(|| Change::Setting { name, was, now: now.clone() });
        Ok((change, before))
    })?;
    let map = newest_map(handle)?;
    let mut answer = shown(&map, setting);
    answer["was"] = json!(was);
    answer["epoch"] = json!(map.epoch.0);
    Ok(answer)
}

fn known(name: &str) -> Result<&'static StoreSetting, AdminError> {
    store_setting(&name.to_ascii_lowercase()).ok_or_else(|| {
        let names: Vec<&str> = STORE_SETTINGS.iter().map(|setting| setting.name).collect();
        AdminError::NotFound(format!("a store has no setting {name}; there are {}", names.join(", ")))
    })
}

fn shown(map: &Map, setting: &StoreSetting) -> Value {
    json!({
        "name": setting.name,
        "value": setting_value(map, setting),
        "set": map.settings.contains_key(setting.name),
        "default": setting.default,
        "node_setting": setting.above,
        "values": setting.range(),
        "help": setting.help,
    })
}
