//! Which snapshot a tree was filled from, as the tree itself tells: for a crash between the tree and the log.
//!
//! ```text
//! u64 index, u64 term, then voters, outgoing voters, learners and next learners: each u32 count and u64 ids; u8 auto-leave
//! ```
//! All little-endian.

use replica::{ConfState, SnapshotPoint};

pub(crate) fn encode(point: &SnapshotPoint) -> Vec<u8> {
    let mut bytes = [point.index.to_le_bytes(), point.term.to_le_bytes()].concat();
    let members = &point.conf_state;
    for ids in [&members.voters, &members.voters_outgoing, &members.learners, &members.learners_next] {
        bytes.extend_from_slice(&(ids.len() as u32).to_le_bytes());
        ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    }
    bytes.push(u8::from(members.auto_leave));
    bytes
}

pub(crate) fn decode(mut bytes: &[u8]) -> Option<SnapshotPoint> {
    fn word(bytes: &mut &[u8]) -> Option<u64> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        *bytes = rest;
        Some(u64::from_le_bytes(*head))
    }
    fn ids(bytes: &mut &[u8]) -> Option<Vec<u64>> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        let count = u32::from_le_bytes(*head) as usize;
        if count > bytes.len() / 8 {
            return None;
        }
        (0..count).map(|_| word(bytes)).collect()
    }
    let (index, term) = (word(&mut bytes)?, word(&mut bytes)?);
    let mut conf_state = ConfState { voters: ids(&mut bytes)?, ..ConfState::default() };
    conf_state.voters_outgoing = ids(&mut bytes)?;
    conf_state.learners = ids(&mut bytes)?;
    conf_state.learners_next = ids(&mut bytes)?;
    conf_state.auto_leave = bytes == [1];
    (bytes.len() == 1).then_some(SnapshotPoint { index, term, conf_state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let conf_state = ConfState {
            voters: vec![1, 2, 9],
            voters_outgoing: vec![3],
            learners: vec![4, 5],
            learners_next: vec![],
            auto_leave: true,
            ..ConfState::default()
        };
        let point = SnapshotPoint { index: 7, term: 3, conf_state };
        let bytes = encode(&point);
        assert_eq!(decode(&bytes), Some(point));
        assert!((0..bytes.len()).all(|cut| decode(&bytes[..cut]).is_none()));
    }
}
