//! The parts of a handshake as bytes: u8 kind, u16 length, body. docs/FORMATS.md, "Between nodes".

use super::identity::{Identity, LEAST_VERSION};
use vocab::limits::HELLO_BYTES_MAX;
use vocab::{NodeId, StoreId};

/// First bytes of a connection between nodes: what does not begin so is not a node.
const MAGIC: &[u8; 8] = b"BASALTPP";
/// The versions of the protocol that this code speaks: its own, and those before where nothing else has changed. Version 2
/// has plans: reports, orders and maps that version 1 cannot read. Version 3 sends long messages in pieces and reads entries
/// of format 2. Version 4 has changes of the map, in messages and in entries. Version 5 tells what clients have
/// subscribed to, and brings them messages. Version 6 evaluates scripts by the rules of their second engine, reads maps with
/// users, and knows as whom scripts run. Version 7 tells the keys of cluster databases apart. Version 8 evaluates scripts by
/// the rules of their third engine, and pops members of large sets together. Version 9 judges how many keys databases have.
/// Version 10 goes on with those members in the next entry. Version 11 reads reports with problems.
/// Version 12 judges how many keys what nodes make of clients' commands leaves a database with. Version 13 evaluates scripts by the rules of
/// their fourth engine. Version 14 keeps long strings in pieces, and evaluates scripts by the rules of
/// their fifth engine. Version 15 notes consumers that get nothing, and evaluates scripts by the rules of their sixth engine.
/// Version 16 knows the fourth rules of entries (`node::Rules`), and evaluates scripts by the rules of their seventh engine.
pub(super) const VERSIONS: (u16, u16) = (LEAST_VERSION, 16);
/// The first version whose speakers evaluate scripts by the rules of the second engine.
pub(crate) const SCRIPTS_SINCE: u16 = 6;
/// The first version whose speakers evaluate scripts by the rules of the third engine.
pub(crate) const THIRD_ENGINE_SINCE: u16 = 8;
/// The first version whose speakers evaluate scripts by the rules of the fourth engine.
pub(crate) const FOURTH_ENGINE_SINCE: u16 = 13;
/// The first version whose speakers evaluate scripts by the rules of the fifth engine.
pub(crate) const FIFTH_ENGINE_SINCE: u16 = 14;
/// The first version whose speakers evaluate scripts by the rules of the sixth engine.
pub(crate) const SIXTH_ENGINE_SINCE: u16 = 15;
/// The first version whose speakers evaluate scripts by the rules of the seventh engine.
pub(crate) const SEVENTH_ENGINE_SINCE: u16 = 16;
/// The first version whose speakers tell the keys of cluster databases apart.
pub(crate) const CLUSTER_DATABASES_SINCE: u16 = 7;
/// The first version that puts pieces of a message together.
pub(super) const PIECES_SINCE: u16 = 3;
const HEAD_BYTES: usize = 3;
/// What later versions may add to a greeting.
const ROOM_BYTES: usize = 1024;
const PART_BYTES_MAX: usize = HELLO_BYTES_MAX + ROOM_BYTES;

const GREETING: u8 = 0xB1;
const PROOF: u8 = 0xB2;
const WELCOME: u8 = 0xB3;
const REFUSED: u8 = 0xB4;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Messages between the two nodes.
    Link,
    /// One snapshot.
    Snapshot,
    /// Requests of a client, as over a connection of its own.
    Client,
}

/// What a node says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) versions: (u16, u16),
    /// What the dialer wants; `None` if it is of a later version.
    pub(super) purpose: Option<Purpose>,
    pub(super) store: Option<StoreId>,
    pub(super) node: NodeId,
    pub(super) instance: u64,
    pub(super) nonce: [u8; 32],
    pub(super) hello: Vec<u8>,
    /// Its port for clients with TLS; 0: none, or a node of an earlier version.
    pub(super) tls_port: u16,
}

impl Greeting {
    pub(super) fn new(identity: &Identity, purpose: Purpose, nonce: [u8; 32]) -> Self {
        Self {
            versions: (identity.least_version, VERSIONS.1),
            purpose: Some(purpose),
            store: identity.store,
            node: identity.node,
            instance: identity.instance,
            nonce,
            hello: identity.hello.clone(),
            tls_port: identity.tls_port,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.versions.0.to_le_bytes());
        bytes.extend_from_slice(&self.versions.1.to_le_bytes());
        bytes.push(match self.purpose {
            None => 0,
            Some(Purpose::Link) => 1,
            Some(Purpose::Snapshot) => 2,
            Some(Purpose::Client) => 3,
        });
        bytes.push(u8::from(self.store.is_some()));
        bytes.extend_from_slice(&self.store.map_or(0, |store| store.0).to_le_bytes());
        bytes.extend_from_slice(&self.node.0.to_le_bytes());
        bytes.extend_from_slice(&self.instance.to_le_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&(self.hello.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.hello);
        bytes.extend_from_slice(&self.tls_port.to_le_bytes());
        bytes
    }

    /// `None` if it is none. What follows the hello is of a later version, and passed over.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let versions = (u16::from_le_bytes(take(&mut rest)?), u16::from_le_bytes(take(&mut rest)?));
        let [purpose, has_store] = take(&mut rest)?;
        let store = u64::from_le_bytes(take(&mut rest)?);
        let greeting = Self {
            versions,
            purpose: match purpose {
                1 => Some(Purpose::Link),
                2 => Some(Purpose::Snapshot),
                3 => Some(Purpose::Client),
                _ => None,
            },
            store: (has_store == 1).then_some(StoreId(store)),
            node: NodeId(u64::from_le_bytes(take(&mut rest)?)),
            instance: u64::from_le_bytes(take(&mut rest)?),
            nonce: take(&mut rest)?,
            hello: {
                let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
                let (hello, after) = rest.split_at_checked(length).filter(|_| length <= HELLO_BYTES_MAX)?;
                rest = after;
                hello.to_vec()
            },
            tls_port: take(&mut rest).map_or(0, u16::from_le_bytes),
        };
        Some(greeting)
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

/// One part of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Greeting(&'a [u8]),
    Proof([u8; 32]),
    Welcome,
    Refused(&'a [u8]),
}

impl Part<'_> {
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let (kind, body): (u8, &[u8]) = match self {
            Self::Greeting(body) => (GREETING, body),
            Self::Proof(proof) => (PROOF, proof),
            Self::Welcome => (WELCOME, &[]),
            Self::Refused(body) => (REFUSED, body),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&(body.len() as u16).to_le_bytes());
        bytes.extend_from_slice(body);
    }
}

/// How many bytes are missing until `bytes` are a whole part, as far as that can be told; at least one.
pub(super) fn missing(bytes: &[u8]) -> usize {
    match bytes.first_chunk::<HEAD_BYTES>() {
        None => HEAD_BYTES - bytes.len(),
        Some(head) => {
            (HEAD_BYTES + usize::from(u16::from_le_bytes([head[1], head[2]]))).saturating_sub(bytes.len()).max(1)
        }
    }
}

/// The part that `bytes` begin with and its length, or `None` if more bytes are needed; an error if no node says that.
pub(super) fn first_part(bytes: &[u8]) -> Result<Option<(Part<'_>, usize)>, ()> {
    let Some((&kind, _)) = bytes.split_first() else { return Ok(None) };
    if !(GREETING..=REFUSED).contains(&kind) {
        return Err(());
    }
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes([head[1], head[2]]));
    if length > PART_BYTES_MAX {
        return Err(());
    }
    // Do not wait for a caller that is no node.
    let magic = rest.len().min(MAGIC.len());
    if kind == GREETING && rest[..magic] != MAGIC[..magic] {
        return Err(());
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let part = match kind {
        GREETING => Part::Greeting(body),
        PROOF => Part::Proof(body.try_into().map_err(|_| ())?),
        WELCOME => Part::Welcome,
        _ => Part::Refused(body),
    };
    Ok(Some((part, HEAD_BYTES + length)))
}
