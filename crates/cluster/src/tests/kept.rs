//! A map is followed by its changes, and kept by them, to the same map.

use super::{drawn, drawn_change};
use crate::{History, MadeChange, Map, MapFiles, MapUpdate, MapWrite, NotFollowed, Routes, apply, read_changes};
use std::sync::Arc;
use vocab::{Epoch, Prng};

/// The two files of a node, as a shell has them.
#[derive(Default)]
struct Disk {
    files: MapFiles,
    whole: Vec<u8>,
    changes: Vec<u8>,
    written_bytes: usize,
}

impl Disk {
    fn keep(&mut self, update: &MapUpdate) {
        let write = self.files.write(update);
        match &write {
            MapWrite::Whole(bytes) => {
                self.whole.clone_from(bytes);
                self.changes.clear();
                self.written_bytes += bytes.len();
            }
            MapWrite::Append(bytes) => {
                self.changes.extend_from_slice(bytes);
                self.written_bytes += bytes.len();
            }
        }
        self.files.written(&write, true);
    }
}

/// Draws a change until one changes something.
fn next(map: &mut Map, prng: &mut Prng) -> MadeChange {
    loop {
        let change = drawn_change(map, prng);
        if apply(map, &change).is_ok_and(|outcome| outcome.changed) {
            return MadeChange { epoch: map.epoch, bytes: change.encode().into() };
        }
    }
}

#[test]
fn changes_lead_to_the_same_map_on_every_node_and_disk() {
    let mut prng = Prng::new(11);
    for _ in 0..20 {
        let mut map = drawn(&mut prng);
        let first = Arc::new(map.clone());
        let (mut disk, mut follower, mut history) = (Disk::default(), first.clone(), History::default());
        let mut routes = Routes::from(&map);
        disk.keep(&MapUpdate::whole(first));
        for _ in 0..60 {
            let changes: Vec<MadeChange> = (0..=prng.below(3)).map(|_| next(&mut map, &mut prng)).collect();
            changes.iter().for_each(|change| history.push(change.clone()));
            let sent = history.since(follower.epoch).unwrap();
            let update = MapUpdate::following(&follower, &sent).unwrap().unwrap();
            assert_eq!(*update.map, map);
            assert!(MapUpdate::following(&map, &sent).unwrap().is_none(), "what comes twice changes nothing");
            routes = routes.following(&map);
            let anew = Routes::from(&map);
            for slot in (0..vocab::SLOT_COUNT).map(vocab::Slot) {
                assert_eq!(routes.shard_of(slot), anew.shard_of(slot));
            }
            disk.keep(&update);
            follower = update.map;
            assert_eq!(MapFiles::read(&disk.whole, &disk.changes).as_ref(), Ok(&map));
        }
        assert!(!disk.changes.is_empty());
        // A crash leaves a part of the last change: the map before it holds.
        let cut = disk.changes.len() - 1 - prng.below(8) as usize;
        let read = MapFiles::read(&disk.whole, &disk.changes[..cut]).unwrap();
        assert!(read.epoch < map.epoch);
        let (all, damaged_at) = read_changes(&disk.changes);
        assert_eq!((all.last().map(|change| change.epoch), damaged_at), (Some(map.epoch), None));
        let (some, damaged_at) = read_changes(&disk.changes[..cut]);
        assert_eq!((some.len() + 1, damaged_at), (all.len(), None), "what a crash leaves is no damage");
        // Damage before whole changes is told.
        let mut damaged = disk.changes.clone();
        damaged[20] ^= 1;
        assert_eq!(read_changes(&damaged), (Vec::new(), (all.len() > 1).then_some(0)));
        // Changes that the whole map has already are passed over.
        let whole = map.encode();
        assert_eq!(MapFiles::read(&whole, &disk.changes).as_ref(), Ok(&map));
    }
}

#[test]
fn what_does_not_follow_is_refused() {
    let mut prng = Prng::new(3);
    let mut map = drawn(&mut prng);
    let first = map.clone();
    let changes: Vec<MadeChange> = (0..3).map(|_| next(&mut map, &mut prng)).collect();
    let of = |changes: &[MadeChange]| MapUpdate::following(&first, changes).map(|update| update.map(|it| it.map.epoch));
    assert_eq!(of(&changes), Ok(Some(map.epoch)));
    assert_eq!(of(&changes[1..]), Err(NotFollowed::Gap(first.epoch)));
    assert_eq!(of(&[changes[0].clone(), changes[2].clone()]), Err(NotFollowed::Gap(changes[0].epoch)));
    let wrong = MadeChange { bytes: vec![1, 99].into(), ..changes[0].clone() };
    assert!(matches!(of(&[wrong]), Err(NotFollowed::Refused(_))));
    let again = MadeChange { epoch: changes[1].epoch, ..changes[0].clone() };
    assert!(matches!(of(&[changes[0].clone(), again]), Err(NotFollowed::Refused(_))));
}

#[test]
fn an_update_is_cut_to_what_is_new() {
    let change = |epoch| MadeChange { epoch: Epoch(epoch), bytes: vec![1].into() };
    let update = MapUpdate { map: Arc::default(), changes: vec![change(4), change(5)] };
    for (known, left) in [(2, 0), (3, 2), (4, 1), (5, 0)] {
        assert_eq!(update.clone().since(Epoch(known)).changes.len(), left, "{known}");
    }
    let one = |epoch| MapUpdate { map: Arc::default(), changes: vec![change(epoch)] };
    assert_eq!(update.clone().then(one(6)).then(one(7)).changes.len(), 4);
    assert_eq!(update.clone().then(one(7)).changes.len(), 0, "there is a gap");
    assert_eq!(update.then(MapUpdate::whole(Arc::default())).then(one(6)).changes.len(), 0, "the map came whole");
}

#[test]
fn what_was_not_written_is_written_whole() {
    let mut prng = Prng::new(5);
    let mut map = drawn(&mut prng);
    let mut disk = Disk::default();
    disk.keep(&MapUpdate::whole(Arc::new(map.clone())));
    let mut update = || {
        let change = next(&mut map, &mut prng);
        MapUpdate { map: Arc::new(map.clone()), changes: vec![change] }
    };
    let first = update();
    let write = disk.files.write(&first);
    assert!(matches!(write, MapWrite::Append(_)));
    disk.files.written(&write, false);
    assert!(matches!(disk.files.write(&update()), MapWrite::Whole(_)));
    // An update without changes is a map that came whole.
    let (mut files, whole) = (MapFiles::default(), MapUpdate::whole(first.map));
    files.written(&files.write(&whole), true);
    assert!(matches!(files.write(&whole), MapWrite::Whole(_)));
}
