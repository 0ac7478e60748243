//! What a node tells the director of itself: its figures, its replicas, what its leaders know, its transfers.
//!
//! ```text
//! u8 format (2 to 4), the node's figures (varints, a text), varint count of replicas and these, varint count of transfers and
//! these; from format 3 on: varint count of problems, and these (texts)
//! ```
//! docs/FORMATS.md, "Between nodes", has the layout. A node with many replicas tells of them in turns.

use vocab::limits::{EVENT_BYTES_MAX, MEMBERS_MAX, REPORT_REPLICAS_MAX, REPORT_TRANSFERS_MAX};
use vocab::{NodeId, Reader, ReplicaId, SLOT_COUNT, ShardId, Slot, put_varint};

const FORMAT: u8 = 2;
/// The format of a report with problems. A node of an older version cannot read it: it is told of none.
const FORMAT_WITH_PROBLEMS: u8 = 3;
/// The format of a report with problems, which may be none, and with the terms of last entries. A node of an older version cannot read it: it
/// is told of no such term.
const FORMAT_WITH_LAST_TERMS: u8 = 4;
/// The format without the place at which a shard would be divided.
const FORMAT_BEFORE: u8 = 1;
const LEADS: u8 = 1;
const BROKEN: u8 = 2;
const DIVISION: u8 = 4;
const VOTES: u8 = 1;
const ACTIVE: u8 = 2;
/// `is_halved` of the leader itself, in its entry among the members: versions that do not know the flag skip it.
const HALVED: u8 = 4;
const INBOUND: u8 = 1;
/// Longest name of a version, in bytes.
const VERSION_BYTES_MAX: usize = 64;
/// Most problems that a report tells of.
const PROBLEMS_MAX: usize = 8;

/// What a node tells the director, every half second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// The node as a whole.
    pub figures: NodeFigures,
    /// Its replicas, or some of them: the others come in other reports.
    pub replicas: Vec<ReplicaReport>,
    /// Snapshots on their way.
    pub transfers: Vec<TransferReport>,
}

/// Figures of a node as a whole. Counters begin when the process starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFigures {
    /// When the process was started, in ms since the epoch, by its own clock.
    pub started_ms: u64,
    /// Bytes of its trees and its log.
    pub disk_bytes: u64,
    /// Bytes that are free on its device.
    pub disk_free_bytes: u64,
    /// Whether its disk takes writes.
    pub can_write: bool,
    /// How far its wall clock is ahead of that of most nodes, in ms; 0 if it does not know.
    pub clock_skew_ms: i64,
    /// Whether that is so much that the node does not lead.
    pub clock_is_off: bool,
    /// Whether `start --rebuild` has set its replicas aside, to be built again.
    pub wants_rebuild: bool,
    /// Memory of the process, in bytes.
    pub rss_bytes: u64,
    /// Processor time, in µs.
    pub cpu_us: u64,
    /// Commands that ran.
    pub commands: u64,
    /// Commands that were answered by an error.
    pub errors: u64,
    /// Clients that are connected.
    pub clients: u64,
    /// The version of the program.
    pub version: String,
    /// What is wrong with its certificates, or will be soon, in words.
    pub problems: Vec<String>,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Of which shard.
    pub shard: ShardId,
    /// Which.
    pub replica: ReplicaId,
    /// The bytes that it holds.
    pub bytes: u64,
    /// For a leader: whether rows that a split gave away are still to be removed. Until then its bytes are an estimate.
    pub is_halved: bool,
    /// The number of keys that it holds.
    pub keys: u64,
    /// Its last applied entry.
    pub applied: u64,
    /// Its last entry.
    pub last: u64,
    /// The term of its last entry; 0: it has none, or a node of an older version does not tell.
    pub last_term: u64,
    /// Its term.
    pub term: u64,
    /// For a leader: what it knows of its group.
    pub leads: Option<LeaderReport>,
    /// For a leader: where the shard would be divided.
    pub division: Option<DivisionReport>,
    /// Why it cannot be used, if it cannot.
    pub broken: Option<String>,
}

/// Where a shard would be divided, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DivisionReport {
    /// About how many operations it has had since it was opened.
    pub operations: u64,
    /// The slot that halves its keys; none if it has one slot only.
    pub by_keys: Option<Slot>,
    /// The slot that halves its recent operations, and how many of a thousand operations the busier of the two parts had.
    pub by_load: Option<(Slot, u16)>,
}

/// What the leader of a group knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderReport {
    /// The index of the entry as of which these are the members.
    pub index: u64,
    /// Whether the group is between two sets of voters.
    pub joint: bool,
    /// All members, this one among them, by rising id.
    pub members: Vec<MemberReport>,
}

/// A member of a group, as its leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Which.
    pub id: ReplicaId,
    /// Whether it votes.
    pub votes: bool,
    /// Whether it was heard of lately.
    pub active: bool,
    /// The index up to which it holds entries.
    pub matched: u64,
}

/// A snapshot on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferReport {
    /// Of which shard.
    pub shard: ShardId,
    /// The other node.
    pub peer: NodeId,
    /// Whether it is received rather than sent.
    pub inbound: bool,
    /// The bytes that have arrived.
    pub bytes: u64,
    /// About how many bytes there will be; 0: unknown.
    pub bytes_approx: u64,
    /// The present rate, in bytes a second.
    pub rate: u64,
}

impl NodeReport {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.replicas.len() * 48);
        let problems = &self.figures.problems[..self.figures.problems.len().min(PROBLEMS_MAX)];
        let format = match self.replicas.iter().any(|replica| replica.last_term > 0) {
            true => FORMAT_WITH_LAST_TERMS,
            false if problems.is_empty() => FORMAT,
            false => FORMAT_WITH_PROBLEMS,
        };
        bytes.push(format);
        self.figures.encode(&mut bytes);
        put_varint(&mut bytes, self.replicas.len() as u64);
        self.replicas.iter().for_each(|replica| replica.encode(format, &mut bytes));
        put_varint(&mut bytes, self.transfers.len() as u64);
        self.transfers.iter().for_each(|transfer| transfer.encode(&mut bytes));
        if format >= FORMAT_WITH_PROBLEMS {
            put_varint(&mut bytes, problems.len() as u64);
            problems.iter().for_each(|problem| put_text(&mut bytes, problem, EVENT_BYTES_MAX));
        }
        bytes
    }

    /// Reads what [`NodeReport::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut reader = Reader::new(bytes);
        let from = &mut reader;
        let format = from.u8()?;
        if !(FORMAT_BEFORE..=FORMAT_WITH_LAST_TERMS).contains(&format) {
            return Err("a report of an unknown format");
        }
        let mut figures = NodeFigures::read(from)?;
        let count = from.count_at_most(REPORT_REPLICAS_MAX, 8)?;
        let replicas = (0..count).map(|_| ReplicaReport::read(format, from)).collect::<Result<_, _>>()?;
        let count = from.count_at_most(REPORT_TRANSFERS_MAX, 6)?;
        let transfers = (0..count).map(|_| TransferReport::read(from)).collect::<Result<_, _>>()?;
        if format >= FORMAT_WITH_PROBLEMS {
            let count = from.count_at_most(PROBLEMS_MAX, 1)?;
            figures.problems = (0..count).map(|_| text(from, EVENT_BYTES_MAX)).collect::<Result<_, _>>()?;
        }
        reader.end()?;
        Ok(Self { figures, replicas, transfers })
    }
}

impl NodeFigures {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let numbers = [
            self.started_ms,
            self.disk_bytes,
            self.disk_free_bytes,
            self.disk_and_clock(),
            u64::from(self.wants_rebuild),
            self.rss_bytes,
            self.cpu_us,
            self.commands,
            self.errors,
            self.clients,
        ];
        numbers.into_iter().for_each(|number| put_varint(bytes, number));
        put_text(bytes, &self.version, VERSION_BYTES_MAX);
    }

    /// One number, of which a version that knows no clocks reads no more than whether there is one: bit 0, the disk takes
    /// writes; bit 1, the clock is off; above, the skew (zigzag).
    fn disk_and_clock(&self) -> u64 {
        let skew = (self.clock_skew_ms << 1) ^ (self.clock_skew_ms >> 63);
        u64::from(self.can_write) | u64::from(self.clock_is_off) << 1 | skew.cast_unsigned() << 2
    }

    fn read(from: &mut Reader) -> Result<Self, &'static str> {
        let (started_ms, disk_bytes, disk_free_bytes) = (from.varint()?, from.varint()?, from.varint()?);
        let disk_and_clock = from.varint()?;
        let skew = disk_and_clock >> 2;
        Ok(Self {
            started_ms,
            disk_bytes,
            disk_free_bytes,
            can_write: disk_and_clock & 1 != 0,
            clock_is_off: disk_and_clock & 2 != 0,
            clock_skew_ms: (skew >> 1).cast_signed() ^ -(skew & 1).cast_signed(),
            wants_rebuild: from.varint()? != 0,
            rss_bytes: from.varint()?,
            cpu_us: from.varint()?,
            commands: from.varint()?,
            errors: from.varint()?,
            clients: from.varint()?,
            version: text(from, VERSION_BYTES_MAX)?,
            problems: Vec::new(),
        })
    }
}

impl ReplicaReport {
    /// The report of a replica that could not be opened, with the reason.
    #[must_use]
    pub fn broken(shard: ShardId, replica: ReplicaId, why: String) -> Self {
        Self {
            shard,
            replica,
            bytes: 0,
            is_halved: false,
            keys: 0,
            applied: 0,
            last: 0,
            last_term: 0,
            term: 0,
            leads: None,
            division: None,
            broken: Some(why),
        }
    }

    fn encode(&self, format: u8, bytes: &mut Vec<u8>) {
        let flag = |is: bool, flag: u8| u8::from(is) * flag;
        let divides = flag(self.division.is_some(), DIVISION);
        bytes.push(flag(self.leads.is_some(), LEADS) + flag(self.broken.is_some(), BROKEN) + divides);
        put_varint(bytes, u64::from(self.shard.0));
        for number in [self.replica.0, self.bytes, self.keys, self.applied, self.last, self.term] {
            put_varint(bytes, number);
        }
        if format >= FORMAT_WITH_LAST_TERMS {
            put_varint(bytes, self.last_term);
        }
        if let Some(leads) = &self.leads {
            put_varint(bytes, leads.index);
            bytes.push(u8::from(leads.joint));
            put_varint(bytes, leads.members.len() as u64);
            for member in &leads.members {
                let is_halved = self.is_halved && member.id == self.replica;
                bytes.push(flag(member.votes, VOTES) + flag(member.active, ACTIVE) + flag(is_halved, HALVED));
                put_varint(bytes, member.id.0);
                put_varint(bytes, member.matched);
            }
        }
        if let Some(division) = &self.division {
            division.encode(bytes);
        }
        if let Some(broken) = &self.broken {
            put_text(bytes, broken, EVENT_BYTES_MAX);
        }
    }

    fn read(format: u8, from: &mut Reader) -> Result<Self, &'static str> {
        let flags = from.u8()?;
        if flags & !(LEADS | BROKEN | DIVISION) != 0 {
            return Err("a replica with unknown flags in a report");
        }
        let (shard, replica) = (ShardId(from.number()?), ReplicaId(from.varint()?));
        let (bytes, keys, applied) = (from.varint()?, from.varint()?, from.varint()?);
        let (last, term) = (from.varint()?, from.varint()?);
        let last_term = if format >= FORMAT_WITH_LAST_TERMS { from.varint()? } else { 0 };
        let leads = if flags & LEADS != 0 { Some(LeaderReport::read(from, replica)?) } else { None };
        let (leads, is_halved) = leads.map_or((None, false), |(leads, is_halved)| (Some(leads), is_halved));
        Ok(Self {
            shard,
            replica,
            bytes,
            is_halved,
            keys,
            applied,
            last,
            last_term,
            term,
            leads,
            division: if flags & DIVISION != 0 { Some(DivisionReport::read(from)?) } else { None },
            broken: if flags & BROKEN != 0 { Some(text(from, EVENT_BYTES_MAX)?) } else { None },
        })
    }
}

impl DivisionReport {
    fn encode(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.operations);
        // 0 means none: no part begins at the first slot.
        put_varint(bytes, self.by_keys.map_or(0, |slot| u64::from(slot.0)));
        put_varint(bytes, self.by_load.map_or(0, |(slot, _)| u64::from(slot.0)));
        if let Some((_, of_thousand)) = self.by_load {
            put_varint(bytes, u64::from(of_thousand));
        }
    }

    fn read(from: &mut Reader) -> Result<Self, &'static str> {
        let slot = |from: &mut Reader| match from.varint()? {
            0 => Ok(None),
            slot if slot < u64::from(SLOT_COUNT) => Ok(Some(Slot(slot as u16))),
            _ => Err("a slot that is none in a report"),
        };
        let (operations, by_keys) = (from.varint()?, slot(from)?);
        let by_load = match slot(from)? {
            None => None,
            Some(slot) => match from.varint()? {
                of_thousand @ 0..=1000 => Some((slot, of_thousand as u16)),
                _ => return Err("more than all in a report"),
            },
        };
        Ok(Self { operations, by_keys, by_load })
    }
}

impl LeaderReport {
    /// Encodes the replica `me`, with whether its bytes are an estimate.
    fn read(from: &mut Reader, me: ReplicaId) -> Result<(Self, bool), &'static str> {
        let index = from.varint()?;
        let joint = from.u8()? != 0;
        let count = from.count_at_most(MEMBERS_MAX, 3)?;
        let mut is_halved = false;
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            let flags = from.u8()?;
            let (id, matched) = (ReplicaId(from.varint()?), from.varint()?);
            is_halved |= id == me && flags & HALVED != 0;
            members.push(MemberReport { id, votes: flags & VOTES != 0, active: flags & ACTIVE != 0, matched });
        }
        Ok((Self { index, joint, members }, is_halved))
    }
}

impl TransferReport {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.inbound) * INBOUND);
        for number in [u64::from(self.shard.0), self.peer.0, self.bytes, self.bytes_approx, self.rate] {
            put_varint(bytes, number);
        }
    }

    fn read(from: &mut Reader) -> Result<Self, &'static str> {
        let inbound = from.u8()? & INBOUND != 0;
        Ok(Self {
            shard: ShardId(from.number()?),
            peer: NodeId(from.varint()?),
            inbound,
            bytes: from.varint()?,
            bytes_approx: from.varint()?,
            rate: from.varint()?,
        })
    }
}

/// A text, cut where it is too long.
fn put_text(bytes: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let end = (0..=text.len().min(bytes_max)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    put_varint(bytes, end as u64);
    bytes.extend_from_slice(&text.as_bytes()[..end]);
}

fn text(from: &mut Reader, bytes_max: usize) -> Result<String, &'static str> {
    Ok(from.text(bytes_max)?.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vocab::fuzz;

    #[test]
    fn fuzz_reports_no_bytes_make_them_panic_or_run_away() {
        let leads = LeaderReport {
            index: 7,
            joint: true,
            members: vec![MemberReport { id: ReplicaId(3), votes: true, active: false, matched: 300 }],
        };
        let replica = ReplicaReport {
            shard: ShardId(5),
            replica: ReplicaId(3),
            bytes: 1 << 40,
            is_halved: true,
            keys: 1,
            applied: 2,
            last: 3,
            last_term: 0,
            term: 4,
            leads: Some(leads),
            division: Some(DivisionReport { operations: 300, by_keys: None, by_load: Some((Slot(7), 999)) }),
            broken: Some("an error — in words".to_owned()),
        };
        let transfer = TransferReport {
            shard: ShardId(5),
            peer: NodeId(u64::MAX),
            inbound: true,
            bytes: 1,
            bytes_approx: 2,
            rate: 3,
        };
        let figures = NodeFigures { version: "1.2.3".to_owned(), can_write: true, ..NodeFigures::default() };
        let mut report = NodeReport { figures, replicas: vec![replica], transfers: vec![transfer] };
        let problem = || vec!["its certificate has expired".to_owned()];
        for (problems, last_term, format) in [
            (vec![], 0, FORMAT),
            (problem(), 0, FORMAT_WITH_PROBLEMS),
            (vec![], 3, FORMAT_WITH_LAST_TERMS),
            (problem(), 4, FORMAT_WITH_LAST_TERMS),
        ] {
            (report.figures.problems, report.replicas[0].last_term) = (problems, last_term);
            let bytes = report.encode();
            assert_eq!((NodeReport::decode(&bytes).unwrap(), bytes[0]), (report.clone(), format));
            fuzz::rounds(1, |prng| {
                let mut bytes = bytes.clone();
                fuzz::mutate(&mut bytes, 4, prng);
                if let Ok(read) = NodeReport::decode(&bytes) {
                    assert_eq!(NodeReport::decode(&read.encode()).unwrap(), read);
                }
            });
        }
    }
}
