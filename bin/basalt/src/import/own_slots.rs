//! The slots of one of several masters of a source.

use super::outcome::shown;
use vocab::slot_of;

/// Which slots a master had when the import began.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSlots<'a> {
    /// Of each slot, the number of its master.
    pub(super) masters: &'a [usize],
    /// Its number.
    pub(super) own: usize,
}

impl OwnSlots<'_> {
    /// Whether it had the slot of a key, by the key's name at the source.
    pub(super) fn has(self, key: &[u8]) -> bool {
        self.masters.get(usize::from(slot_of(key).0)) == Some(&self.own)
    }

    /// Refuses a key whose slot it had not: what two masters tell of it has no order.
    pub(super) fn check(self, key: &[u8]) -> Result<(), String> {
        if self.has(key) {
            return Ok(());
        }
        Err(format!(
            "slots of the source are moved while it is imported: {} has come to another master. Have that end, remove what was imported, \
             and the file of --state if there is one, and begin again",
            shown(key)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::SLOT_COUNT;

    #[test]
    fn a_key_is_of_one_master() {
        let masters: Vec<usize> = (0..SLOT_COUNT).map(|slot| usize::from(slot > 9000)).collect();
        let has = |own, key: &str| OwnSlots { masters: &masters, own }.has(key.as_bytes());
        for key in ["a", "b", "{a}b", "c"] {
            let is_second = slot_of(key.as_bytes()).0 > 9000;
            assert_eq!((has(0, key), has(1, key)), (!is_second, is_second), "{key}");
            assert_eq!(OwnSlots { masters: &masters, own: 0 }.check(key.as_bytes()).is_err(), is_second, "{key}");
        }
    }
}
