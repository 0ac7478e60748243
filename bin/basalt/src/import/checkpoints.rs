//! Checkpoints in the store: of each slot, up to which place the commands of a file are made.
//!
//! A command and its checkpoint are one script, so both are made, or none. A command before its slot's checkpoint is not made
//! again: an import that was interrupted may repeat the whole file.

use std::collections::BTreeSet;
use vocab::{Slot, slot_of, slot_tag};

const SCRIPT: &str = "if tonumber(redis.call('GET',KEYS[1]) or -1)>=tonumber(ARGV[1]) then return redis.status_reply('OK') end \
                      local reply=redis.pcall(unpack(ARGV,2)) redis.call('SET',KEYS[1],ARGV[1]) return reply";
/// More arguments Lua does not pass on at once.
const ARGUMENTS_MAX: usize = 4000;
/// Arguments of EVAL before the command: script, number of keys, checkpoint, key, place.
pub(super) const BEFORE: usize = 6;
/// Which of them is the key.
pub(super) const KEY: usize = 4;

/// The checkpoints of an import.
pub(super) struct Checkpoints {
    /// In the names of all of them.
    id: u64,
    /// Slots that have one.
    slots: BTreeSet<Slot>,
}

impl Checkpoints {
    pub(super) fn new(id: u64) -> Self {
        Self { id, slots: BTreeSet::new() }
    }

    fn name(&self, slot: Slot) -> Vec<u8> {
        format!("basalt-import:{:016x}:{{{}}}", self.id, slot_tag(slot)).into_bytes()
    }

    /// Whether a command of so many arguments can have one.
    pub(super) fn fits(arguments: usize) -> bool {
        arguments <= ARGUMENTS_MAX
    }

    /// The request that makes a command once; its key is `args[key]`. Places of a slot rise.
    pub(super) fn checked(&mut self, args: Vec<Vec<u8>>, key: usize, place: u64) -> Vec<Vec<u8>> {
        let slot = slot_of(&args[key]);
        self.slots.insert(slot);
        let head: [Vec<u8>; BEFORE] = [
            b"EVAL".to_vec(),
            SCRIPT.as_bytes().to_vec(),
            b"2".to_vec(),
            self.name(slot),
            args[key].clone(),
            place.to_string().into_bytes(),
        ];
        head.into_iter().chain(args).collect()
    }

    /// The name of the checkpoint of a key's slot, which has one from now on.
    pub(super) fn beside(&mut self, key: &[u8]) -> Vec<u8> {
        let slot = slot_of(key);
        self.slots.insert(slot);
        self.name(slot)
    }

    /// The requests that remove all of them.
    pub(super) fn removals(&self) -> impl Iterator<Item = Vec<Vec<u8>>> {
        self.slots.iter().map(|slot| vec![b"DEL".to_vec(), self.name(*slot)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_in_the_slot_of_its_command() {
        let mut checkpoints = Checkpoints::new(7);
        for key in [&b"a"[..], b"{tag}b", b"\xff"] {
            let request = checkpoints.checked(vec![b"INCR".to_vec(), key.to_vec()], 1, 12);
            assert_eq!(slot_of(&request[3]), slot_of(key));
            assert_eq!(request[BEFORE..], [b"INCR".to_vec(), key.to_vec()]);
        }
        assert_eq!(
            checkpoints.beside(b"{tag}c"),
            checkpoints.checked(vec![b"INCR".to_vec(), b"{tag}b".to_vec()], 1, 12)[3]
        );
        assert_eq!(checkpoints.removals().count(), 3);
    }
}
