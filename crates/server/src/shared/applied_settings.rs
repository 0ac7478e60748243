//! The store's settings on this node: a new map's settings hold at once, without a restart.

use crate::snapshots::Snapshots;
use cluster::{Map, STORE_SETTINGS, Settings, StoreSetting, setting_value};
use node::Config;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use storage::SharedResources;

const MB: u64 = 1_000_000;

/// The store-wide values that this node has applied last. CONFIG SET on the node holds until such a value changes.
#[derive(Default)]
pub(crate) struct AppliedSettings(Mutex<BTreeMap<&'static str, Option<String>>>);

/// What a setting acts on.
pub(crate) struct SettingTargets<'a> {
    pub(crate) config: &'a Config,
    pub(crate) resources: &'a SharedResources,
    pub(crate) snapshots: Option<&'a Snapshots>,
}

impl AppliedSettings {
    /// Applies what the map sets for the whole store.
    pub(crate) fn apply(&self, map: &Map, targets: &SettingTargets<'_>) {
        targets.resources.set_purge_rate(Settings::of(map).purge_rate_mb * MB);
        let mut applied = self.0.lock();
        for setting in STORE_SETTINGS.iter().filter(|setting| setting.above.is_some()) {
            let value = setting_value(map, setting);
            let before = applied.insert(setting.name, value.clone());
            // A node that has applied nothing yet runs with what it was started with.
            if before.unwrap_or_default() != value {
                targets.apply(setting, value.as_deref());
            }
        }
    }
}

impl SettingTargets<'_> {
    fn apply(&self, setting: &StoreSetting, value: Option<&str>) {
        let own = setting.above.unwrap_or_default();
        let as_own = value.map(|value| match setting.name {
            "move-rate-mb" => value.parse::<u64>().unwrap_or(0).saturating_mul(MB).to_string(),
            _ => value.to_owned(),
        });
        if let Err(e) = self.config.set_for_store(own, as_own.as_deref()) {
            log::error!("{}: {e}", setting.name);
            return;
        }
        let number = self.config.number(own).unwrap_or_default().unsigned_abs();
        match own {
            "transfer-rate" => {
                if let Some(snapshots) = self.snapshots {
                    snapshots.set_send_rate(number);
                    snapshots.set_receive_rate(number);
                }
            }
            "rate-limit" => self.resources.set_rate_limit(number),
            _ => {}
        }
        log::info!("{own} is {} now, as the store's {} says", self.config.text(own).unwrap_or_default(), setting.name);
    }
}
