//! The store's settings on this node: what a new map brings holds at once, without a restart.

use crate::store::Store;
use cluster::{Map, STORE_SETTINGS, Settings, StoreSetting, setting_value};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const MB: u64 = 1_000_000;

/// What was set for the store when this node last looked. CONFIG SET on the node holds until that changes.
#[derive(Default)]
pub(crate) struct Applied(Mutex<BTreeMap<&'static str, Option<String>>>);

impl Store {
    /// Applies what the map sets for the whole store.
    pub(crate) fn apply_settings(&self, map: &Map) {
        self.resources.set_purge_rate(Settings::of(map).purge_rate_mb * MB);
        let mut applied = self.applied.0.lock().unwrap_or_else(PoisonError::into_inner);
        for setting in STORE_SETTINGS.iter().filter(|setting| setting.above.is_some()) {
            let value = setting_value(map, setting);
            let before = applied.insert(setting.name, value.clone());
            // At first nothing is set: then what the node was started with holds already.
            if before.unwrap_or_default() != value {
                self.apply_setting(setting, value.as_deref());
            }
        }
    }

    fn apply_setting(&self, setting: &StoreSetting, value: Option<&str>) {
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
                if let Some(snapshots) = self.snapshots.get() {
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
