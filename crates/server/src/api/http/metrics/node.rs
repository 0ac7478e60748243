//! Figures of the process, its clients, its disk and its background work.

use super::table as m;
use super::text::Exposition;
use crate::api::http::ready::obstacles;
use crate::shared::NodeShared;
use node::session::{Host, MemoryFigures, NodeFacts, TlsFigures};
use replica::DiskState;
use std::sync::Arc;

const US: f64 = 1e6;

pub(super) fn write(store: &Arc<NodeShared>, out: &mut Exposition) {
    let facts = store.node_facts();
    info(store, out);
    process(&facts, out);
    memory(store, out);
    clients(store, out);
    disk(store, out);
    certificates(&facts.tls, out);
}

fn certificates(tls: &TlsFigures, out: &mut Exposition) {
    out.begin(&m::CERTIFICATE_LEFT);
    for (of, certificate) in [("node", &tls.certificate), ("authority", &tls.authority)] {
        if let Some(certificate) = certificate {
            out.sample(&[("of", of)], certificate.expires_in_s as f64);
        }
    }
    out.one(&m::CERTIFICATE_TROUBLE, f64::from(u8::from(!tls.trouble.is_empty())));
}

fn info(store: &NodeShared, out: &mut Exposition) {
    out.begin(&m::BUILD_INFO);
    out.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let (me, known) = (store.node_info(), store.known());
    let of_store = known.map.as_ref().map(|map| map.store.to_string()).unwrap_or_default();
    let (id, address) = (me.id.to_string(), format!("{}:{}", me.client_host, me.client_port));
    out.begin(&m::NODE_INFO);
    let labels = [
        ("store", of_store.as_str()),
        ("node", &id),
        ("zone", &me.zone),
        ("address", &address),
        ("peer_address", &me.peer_address),
    ];
    out.sample(&labels, 1.0);
    out.one(&m::NEIGHBOURS, store.peers.nodes().len() as f64);
    out.one(&m::LINKS_ENCRYPTED, store.peers.counts().1 as f64);
    out.one(&m::READY, f64::from(u8::from(obstacles(store).is_empty())));
}

fn process(facts: &NodeFacts, out: &mut Exposition) {
    out.known(&m::RSS, facts.rss_bytes.map(|bytes| bytes as f64));
    let cpu = facts.cpu_user_us.zip(facts.cpu_system_us).map(|(user, system)| (user + system) as f64 / US);
    out.known(&m::CPU, cpu);
    out.one(&m::STARTED, facts.started_ms as f64 / 1000.0);
    let files = std::fs::read_dir("/proc/self/fd").map(|entries| entries.count() as f64).ok();
    out.known(&m::OPEN_FILES, files);
    out.one(&m::LOG_BYTES, facts.log_bytes as f64);
    out.one(&m::CACHE_HITS, facts.cache_hits as f64);
    out.one(&m::CACHE_MISSES, facts.cache_misses as f64);
    out.one(&m::FLUSHES, facts.flushes as f64);
    out.one(&m::COMPACTIONS, facts.compactions as f64);
    out.known(&m::EXPIRED, facts.expired_keys.map(|keys| keys as f64));
}

fn memory(store: &NodeShared, out: &mut Exposition) {
    let figures = MemoryFigures::of(store);
    out.one(&m::MEMORY_BUDGET, figures.budget_bytes as f64);
    out.one(&m::CACHE_BYTES, figures.cache_bytes as f64);
    out.one(&m::MEMTABLE_BYTES, figures.memtable_bytes as f64);
    out.one(&m::CLIENT_BUFFER_BYTES, figures.client_bytes as f64);
}

fn clients(store: &NodeShared, out: &mut Exposition) {
    let totals = store.stats.totals();
    out.one(&m::CLIENTS, store.clients.count() as f64);
    out.one(&m::CONNECTIONS, totals.connections as f64);
    out.one(&m::CONNECTIONS_REFUSED, totals.rejected_connections as f64);
    out.one(&m::AUDIT_LOST, store.audit_log.lost() as f64);
    out.one(&m::RECEIVED, totals.input_bytes as f64);
    out.one(&m::SENT, totals.output_bytes as f64);
}

fn disk(store: &NodeShared, out: &mut Exposition) {
    let free = store.free_bytes().map(|bytes| bytes as f64);
    out.known(&m::DISK_FREE, free);
    let writable = store.health.state() == DiskState::Healthy;
    out.one(&m::DISK_WRITABLE, f64::from(u8::from(writable)));
    out.one(&m::CLOCK_SKEW, store.clock.skew_ms() as f64 / 1000.0);
    out.one(&m::CLOCK_OFF, f64::from(u8::from(store.clock.is_off())));
}
