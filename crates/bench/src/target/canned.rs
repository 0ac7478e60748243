//! The answers of the no-op server.

use std::net::SocketAddr;
use std::ops::Range;

use resp::Reply;
use vocab::SLOT_COUNT;

use super::packed;
use crate::workload::{Cell, ValueForm, key_hash};

/// What the canned answers look like.
#[derive(Clone, Copy, Debug)]
pub struct NoopShape {
    /// Fields of a record.
    pub fields: u32,
    /// Bytes of a field.
    pub field_bytes: usize,
    /// Bytes of a string.
    pub value_bytes: usize,
    /// GET and HGETALL answer with records that a client's verification accepts, made for each request.
    pub verifiable: bool,
}

/// Ready-made answers.
pub(super) struct Canned {
    /// HGETALL's.
    record: Vec<u8>,
    /// One field's value.
    field: Vec<u8>,
    /// GET's.
    value: Vec<u8>,
    /// CLUSTER SLOTS's.
    slots: Vec<u8>,
    /// CLUSTER SHARDS's.
    shards: Vec<u8>,
    shape: NoopShape,
    names: Vec<String>,
    scratch: Vec<u8>,
}

impl Canned {
    /// Answers of one of `nodes`.
    pub(super) fn new(shape: NoopShape, nodes: &[SocketAddr]) -> Self {
        let bulk = |length: usize| {
            let mut reply = Reply::default();
            reply.bulk(&vec![b'x'; length]);
            reply.buf
        };
        let mut record = Reply::default();
        record.array(2 * shape.fields as usize);
        for field in 0..shape.fields {
            record.bulk(format!("field{field}").as_bytes());
            record.bulk(&vec![b'x'; shape.field_bytes]);
        }
        let (slots, shards) = topology(nodes);
        Self {
            record: record.buf,
            field: bulk(shape.field_bytes),
            value: bulk(shape.value_bytes),
            slots,
            shards,
            shape,
            names: (0..shape.fields).map(|field| format!("field{field}")).collect(),
            scratch: Vec::new(),
        }
    }

    /// Appends the answer to the request whose arguments lie at `args` in `bytes`.
    pub(super) fn answer(&mut self, bytes: &[u8], args: &[Range<usize>], out: &mut Reply) {
        let mut name = [0u8; 16];
        let given = &bytes[args[0].clone()];
        let length = given.len().min(name.len());
        name[..length].copy_from_slice(&given[..length]);
        name.make_ascii_uppercase();
        match &name[..length] {
            b"GET" | b"HGETALL" if self.shape.verifiable && args.len() > 1 => {
                self.made(&bytes[args[1].clone()], &name[..length] == b"GET", out);
            }
            b"CLUSTER" => match args.get(1).map(|what| bytes[what.clone()].to_ascii_uppercase()).as_deref() {
                Some(b"SLOTS") => out.buf.extend_from_slice(&self.slots),
                Some(b"SHARDS") => out.buf.extend_from_slice(&self.shards),
                _ => out.error("ERR the no-op server has no answer to this"),
            },
            b"READONLY" | b"AUTH" | b"KV.DURABILITY" | b"KV.CONSISTENCY" => out.ok(),
            b"GET" | b"LPOP" | b"RPOP" | b"SPOP" | b"GETSET" => out.buf.extend_from_slice(&self.value),
            b"SET" | b"MSET" | b"HMSET" | b"SELECT" | b"CLIENT" | b"FLUSHALL" => out.ok(),
            b"HGETALL" => out.buf.extend_from_slice(&self.record),
            b"HMGET" => self.fields(args.len() - 2.min(args.len()), out),
            b"HSET" => out.int(((args.len() as i64 - 2) / 2).max(0)),
            b"KV.GET" => {
                out.array(2);
                out.buf.extend_from_slice(&self.value);
                out.int(1);
            }
            b"KV.RANGE" => self.rows(bytes, args, out),
            b"DEL" | b"KV.DEL" | b"KV.PUT" | b"INCR" | b"LPUSH" | b"RPUSH" | b"SADD" | b"ZADD" => out.int(1),
            b"PING" => out.simple("PONG"),
            b"CONFIG" => {
                out.array(2);
                out.bulk(args.get(2).map_or(b"", |name| &bytes[name.clone()]));
                out.bulk(b"");
            }
            b"LRANGE" => self.fields(limit(bytes, args, 3) + 1, out),
            b"INFO" => {
                let text = format!("# Server\r\nredis_version:0.0.0\r\nprocess_id:{}\r\n", std::process::id());
                out.bulk(text.as_bytes());
            }
            b"COMMAND" | b"ZPOPMIN" => out.array(0),
            _ => out.error("ERR the no-op server has no answer to this"),
        }
    }

    /// The record of `key`, packed or as a hash, as the workload would have written it.
    fn made(&mut self, key: &[u8], packs: bool, out: &mut Reply) {
        let (hash, length) = (key_hash(key), self.shape.field_bytes);
        self.scratch.clear();
        if !packs {
            out.array(2 * self.names.len());
        }
        for (field, name) in (0..).zip(&self.names) {
            let cell = Cell { key, key_hash: hash, field, name: name.as_bytes() };
            let write = |out: &mut Vec<u8>| ValueForm::Ycsb.write(cell, hash, length, out);
            if packs {
                packed::push(name.as_bytes(), length, write, &mut self.scratch);
            } else {
                self.scratch.clear();
                write(&mut self.scratch);
                out.bulk(name.as_bytes());
                out.bulk(&self.scratch);
            }
        }
        if packs {
            out.bulk(&self.scratch);
        }
    }

    fn fields(&self, count: usize, out: &mut Reply) {
        out.array(count);
        for _ in 0..count {
            out.buf.extend_from_slice(&self.field);
        }
    }

    /// As many rows as were asked for, all with the same key.
    fn rows(&self, bytes: &[u8], args: &[Range<usize>], out: &mut Reply) {
        let rows = limit(bytes, args, 4);
        out.array(2);
        out.null();
        out.array(rows);
        for _ in 0..rows {
            out.array(2);
            out.bulk(b"user0000000000000000000");
            out.buf.extend_from_slice(&self.record);
        }
    }
}

/// The number at an argument, within bounds.
fn limit(bytes: &[u8], args: &[Range<usize>], place: usize) -> usize {
    const ROWS_MAX: i64 = 10_000;
    let number = args.get(place).and_then(|argument| resp::parse_integer(&bytes[argument.clone()]));
    number.unwrap_or(0).clamp(0, ROWS_MAX) as usize
}

/// The answers to CLUSTER SLOTS and CLUSTER SHARDS: each node leads an equal part, and every node holds all.
fn topology(nodes: &[SocketAddr]) -> (Vec<u8>, Vec<u8>) {
    let (mut slots, mut shards) = (Reply::default(), Reply::default());
    slots.array(nodes.len());
    shards.array(nodes.len());
    let bound = |index: usize| index * usize::from(SLOT_COUNT) / nodes.len();
    for index in 0..nodes.len() {
        let (first, last) = (bound(index) as i64, bound(index + 1) as i64 - 1);
        let host = nodes[index].ip().to_string();
        slots.array(3);
        slots.int(first);
        slots.int(last);
        slots.array(3);
        slots.bulk(host.as_bytes());
        slots.int(i64::from(nodes[index].port()));
        slots.bulk(format!("node{index}").as_bytes());
        shards.array(4);
        shards.bulk(b"slots");
        shards.array(2);
        shards.int(first);
        shards.int(last);
        shards.bulk(b"nodes");
        shards.array(nodes.len());
        for (member, node) in nodes.iter().enumerate() {
            shards.array(8);
            shards.bulk(b"port");
            shards.int(i64::from(node.port()));
            let role = if member == index { "master" } else { "replica" };
            for (name, value) in [("endpoint", node.ip().to_string().as_str()), ("role", role), ("health", "online")] {
                shards.bulk(name.as_bytes());
                shards.bulk(value.as_bytes());
            }
        }
    }
    (slots.buf, shards.buf)
}
