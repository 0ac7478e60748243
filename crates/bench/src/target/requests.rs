//! The request of each step of an operation.

use super::collections::{self, CollectionAsked};
use super::lane::{Awaited, Lane};
use super::packed::{self, Unpacked};
use super::replies::reads_by_name;
use super::transport::{About, ArgumentSink, Transport};
use crate::workload::{Fields, OpKind, Operation, RecordForm, Workload, key_hash};

/// Sends the request of the lane's step.
pub(super) fn send<T: Transport>(
    transport: &mut T,
    lane: u32,
    workload: &Workload,
    state: &Lane,
    scratch: &mut Vec<u8>,
) {
    let operation = &state.operation;
    let config = &workload.config;
    let key = operation.key.as_slice();
    let access = state.access(workload);
    let about = |arguments: usize| About { lane, key: Some(key), access, arguments };
    if let RecordForm::Collection(collection) = config.record {
        let is_second = state.step == Awaited::WriteAfter;
        let asked = CollectionAsked { operation, state: &state.collection, is_second };
        collections::send(transport, about(0), (collection, workload), asked, scratch);
        return transport.finish();
    }
    match (state.step, operation.kind) {
        (Awaited::ReadFirst, _) | (Awaited::Only, OpKind::Read) => match config.record {
            RecordForm::Hash | RecordForm::Collection(_) => ask_hash(transport, about(0), workload, operation),
            RecordForm::String => {
                let mut request = transport.request(about(2));
                request.arg(if config.compare_and_set { b"KV.GET" } else { b"GET" });
                request.arg(key);
            }
        },
        (Awaited::Only, OpKind::Scan) => {
            // It is about the order of all keys, which any node knows; the first of them is looked for at its leader.
            let mut request = transport.request(About { key: state.stale.then_some(key), ..about(6) });
            request.arg(b"KV.RANGE");
            request.arg(&state.page.bound);
            request.arg(b"+");
            request.arg(b"LIMIT");
            request.number(operation.scan_length - state.page.rows);
            request.arg(b"VALUES");
        }
        (Awaited::Only, OpKind::Delete) => {
            let mut request = transport.request(about(2));
            request.arg(b"DEL");
            request.arg(key);
        }
        (Awaited::Only | Awaited::WriteAfter, OpKind::Insert | OpKind::Update | OpKind::ReadModifyWrite) => {
            match config.record {
                RecordForm::Hash | RecordForm::Collection(_) => {
                    put_hash(transport, about(0), workload, operation, scratch);
                }
                RecordForm::String => put_string(transport, about(0), workload, state, scratch),
            }
        }
        (Awaited::WriteAfter, OpKind::Read | OpKind::Scan | OpKind::Delete) => {
            unreachable!("only an update has a write after its read")
        }
    }
    transport.finish();
}

fn ask_hash<T: Transport>(transport: &mut T, about: About<'_>, workload: &Workload, operation: &Operation) {
    let key = operation.key.as_slice();
    let names = workload.field_names();
    let asked = match operation.read {
        Fields::All if !reads_by_name(workload) => {
            let mut request = transport.request(About { arguments: 2, ..about });
            request.arg(b"HGETALL");
            return request.arg(key);
        }
        Fields::All => names,
        Fields::One(field) => &names[field as usize..=field as usize],
    };
    let mut request = transport.request(About { arguments: 2 + asked.len(), ..about });
    request.arg(b"HMGET");
    request.arg(key);
    for name in asked {
        request.arg(name);
    }
}

fn put_hash<T: Transport>(
    transport: &mut T,
    about: About<'_>,
    workload: &Workload,
    operation: &Operation,
    value: &mut Vec<u8>,
) {
    let hash = key_hash(&operation.key);
    let fields = match operation.write {
        Fields::All => 0..workload.config.field_count,
        Fields::One(field) => field..field + 1,
    };
    let mut request = transport.request(About { arguments: 2 + 2 * fields.len(), ..about });
    request.arg(b"HSET");
    request.arg(&operation.key);
    for field in fields {
        value.clear();
        workload.write_value(operation, hash, field, value);
        request.arg(&workload.field_names()[field as usize]);
        request.arg(value);
    }
}

fn put_string<T: Transport>(
    transport: &mut T,
    about: About<'_>,
    workload: &Workload,
    state: &Lane,
    packed: &mut Vec<u8>,
) {
    let operation = &state.operation;
    pack(workload, operation, &state.record, packed);
    let compares = workload.config.compare_and_set && state.step == Awaited::WriteAfter;
    let mut request = transport.request(About { arguments: if compares { 5 } else { 3 }, ..about });
    request.arg(if compares { b"KV.PUT" } else { b"SET" });
    request.arg(&operation.key);
    request.arg(packed);
    if compares {
        request.arg(b"IFVERSION");
        request.number(state.version);
    }
}

/// The packed record that `operation` writes: `old` with the changed fields.
fn pack(workload: &Workload, operation: &Operation, old: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let hash = key_hash(&operation.key);
    let fresh = |field: u32, out: &mut Vec<u8>| {
        let name = &workload.field_names()[field as usize];
        packed::push(name, 0, |out| workload.write_value(operation, hash, field, out), out);
    };
    match operation.write {
        Fields::All => (0..workload.config.field_count).for_each(|field| fresh(field, out)),
        Fields::One(changed) => {
            // What was read has been checked, so every field unpacks.
            for (index, (name, value)) in Unpacked::new(old).flatten().enumerate() {
                if workload.field_named(name, index as u32) == Some(changed) {
                    fresh(changed, out);
                } else {
                    packed::push(name, value.len(), |out| out.extend_from_slice(value), out);
                }
            }
        }
    }
}
