//! What the map knows of a node.

use crate::bytes::Result;
use crate::error::MapError;
use vocab::limits::{ADDRESS_BYTES_MAX, ZONE_BYTES_MAX};
use vocab::{NodeId, Reader, put_bytes, put_varint};

/// What the map knows of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Which node.
    pub id: NodeId,
    /// Where other nodes reach it, as host:port.
    pub peer_address: String,
    /// Where clients reach it: the host.
    pub client_host: String,
    /// Where clients reach it: the port.
    pub client_port: u16,
    /// Its zone; nodes without one share the zone "".
    pub zone: String,
    /// How much it takes, against other nodes; 0 if it is to hold nothing.
    pub capacity: u64,
}

impl NodeInfo {
    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.id.0.to_le_bytes());
        put_bytes(bytes, self.peer_address.as_bytes());
        put_bytes(bytes, self.client_host.as_bytes());
        put_varint(bytes, u64::from(self.client_port));
        put_bytes(bytes, self.zone.as_bytes());
        put_varint(bytes, self.capacity);
    }

    /// Reads what [`NodeInfo::encode`] wrote, and nothing after it; checks that it is one that a map may hold.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, MapError> {
        let mut reader = Reader::new(bytes);
        let node = Self::read(&mut reader).map_err(MapError::Bytes)?;
        reader.end().map_err(|why| MapError::Bytes(why.text()))?;
        node.fault().map_or(Ok(node), |fault| Err(MapError::Invalid(fault)))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            id: NodeId(reader.u64_le()?),
            peer_address: reader.text(ADDRESS_BYTES_MAX)?.to_owned(),
            client_host: reader.text(ADDRESS_BYTES_MAX)?.to_owned(),
            client_port: reader.at_most(u64::from(u16::MAX))? as u16,
            zone: reader.text(ZONE_BYTES_MAX)?.to_owned(),
            capacity: reader.varint()?,
        })
    }

    /// What is wrong with it, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        let texts = [
            ("peer address", &self.peer_address, ADDRESS_BYTES_MAX),
            ("client host", &self.client_host, ADDRESS_BYTES_MAX),
            ("zone", &self.zone, ZONE_BYTES_MAX),
        ];
        for (what, text, bytes_max) in texts {
            if text.len() > bytes_max {
                return Some(format!("node {}: the {what} is longer than {bytes_max} bytes", self.id));
            }
            // They stand in replies whose fields are separated by these.
            if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == ',') {
                return Some(format!("node {}: the {what} contains a space, comma or control character", self.id));
            }
        }
        if self.peer_address.is_empty() || self.client_host.is_empty() || self.client_port == 0 {
            return Some(format!("node {}: it has no peer address, client host or client port", self.id));
        }
        None
    }
}
