//! The sections about the process and its clients.

use super::section::{Facts, Lines, human};
use crate::pubsub::SubscriptionKind;
use crate::session::{Buffers, REDIS_VERSION};

fn uptime_s(facts: &Facts<'_>) -> u64 {
    (facts.host.now_us() / 1000).saturating_sub(facts.node.started_ms) / 1000
}

pub(super) fn server(facts: &Facts<'_>, lines: &mut Lines) {
    let (node, config) = (&facts.node, facts.host.config());
    lines.add("redis_version", REDIS_VERSION);
    lines.add("basalt_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_mode", if facts.is_standalone() { "standalone" } else { "cluster" });
    lines.add("os", &node.os);
    lines.add("arch_bits", usize::BITS);
    lines.add("process_id", node.process_id);
    lines.add("run_id", &node.run_id);
    let of_databases = config.text("database-listen").and_then(|address| address.rsplit_once(':')?.1.parse().ok());
    lines.add_known("tcp_port", of_databases.filter(|_| facts.is_standalone()).or(config.number("port")));
    for (what, certificate) in [("server", &node.tls.certificate), ("ca", &node.tls.authority)] {
        if let Some(certificate) = certificate {
            lines.add(&format!("tls_{what}_cert_serial"), &certificate.serial);
            lines.add(&format!("tls_{what}_cert_expires_in_seconds"), certificate.expires_in_s);
        }
    }
    if !node.tls.trouble.is_empty() {
        lines.add("tls_reload_error", &node.tls.trouble);
    }
    lines.add("server_time_usec", facts.host.now_us());
    lines.add("uptime_in_seconds", uptime_s(facts));
    lines.add("uptime_in_days", uptime_s(facts) / 86_400);
    lines.add("executable", &node.executable);
    lines.add("config_file", "");
    lines.add("io_threads_active", u8::from(node.workers > 1));
}

pub(super) fn clients(facts: &Facts<'_>, lines: &mut Lines) {
    let clients = facts.host.clients();
    let buffers: Vec<Buffers> = clients.all().iter().map(|client| client.buffers()).collect();
    lines.add("connected_clients", clients.count());
    lines.add("cluster_connections", 0);
    lines.add("maxclients", facts.host.config().clients_max());
    lines.add("client_recent_max_input_buffer", buffers.iter().map(|of| of.query_bytes).max().unwrap_or(0));
    lines.add("client_recent_max_output_buffer", buffers.iter().map(|of| of.output_bytes).max().unwrap_or(0));
    lines.add("blocked_clients", clients.blocked());
    lines.add("tracking_clients", facts.host.tracking().clients());
    lines.add("pubsub_clients", clients.all().iter().filter(|client| client.is_subscriber()).count());
}

pub(super) fn memory(facts: &Facts<'_>, lines: &mut Lines) {
    let memory = &facts.memory;
    let sizes = [
        ("used_memory", memory.rss_bytes),
        ("used_memory_rss", memory.rss_bytes),
        ("used_memory_peak", memory.rss_bytes_peak),
    ];
    for (name, bytes) in sizes {
        lines.add(name, bytes);
        lines.add(&format!("{name}_human"), human(bytes));
    }
    let percent = |part: u64, whole: u64| format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64);
    lines.add("used_memory_peak_perc", percent(memory.rss_bytes, memory.rss_bytes_peak));
    lines.add("used_memory_dataset", memory.dataset_bytes());
    lines.add("used_memory_dataset_perc", percent(memory.dataset_bytes(), memory.rss_bytes));
    // Used memory is what is resident.
    lines.add("mem_fragmentation_ratio", "1.00");
    let programs = &facts.node.programs;
    lines.add("used_memory_scripts_eval", programs.script_bytes);
    lines.add("number_of_cached_scripts", programs.scripts);
    lines.add("number_of_functions", programs.functions);
    lines.add("number_of_libraries", programs.libraries);
    lines.add("used_memory_functions", programs.library_bytes);
    lines.add("used_memory_scripts", programs.script_bytes + programs.library_bytes);
    if let Some(bytes) = facts.node.system_memory_bytes {
        lines.add("total_system_memory", bytes);
        lines.add("total_system_memory_human", human(bytes));
    }
    let config = facts.host.config();
    let maxmemory = config.number("maxmemory").map_or(0, |bytes| bytes as u64);
    lines.add("maxmemory", maxmemory);
    lines.add("maxmemory_human", human(maxmemory));
    if facts.host.config().data_bound().is_some() {
        lines.add("basalt_data_bytes", facts.host.room().data_bytes());
    }
    lines.add_known("maxmemory_policy", config.text("maxmemory-policy"));
    lines.add("mem_clients_normal", memory.client_bytes);
    lines.add("basalt_memory_budget", memory.budget_bytes);
    lines.add("basalt_memory_budget_human", human(memory.budget_bytes));
    lines.add("basalt_cache_bytes", memory.cache_bytes);
    lines.add("basalt_memtable_bytes", memory.memtable_bytes);
}

pub(super) fn stats(facts: &Facts<'_>, lines: &mut Lines) {
    let stats = facts.host.stats();
    let (totals, rates) = (stats.totals(), stats.rates());
    lines.add("total_connections_received", totals.connections);
    lines.add("total_commands_processed", totals.commands);
    lines.add("instantaneous_ops_per_sec", rates.commands.round() as u64);
    lines.add("total_net_input_bytes", totals.input_bytes);
    lines.add("total_net_output_bytes", totals.output_bytes);
    lines.add("instantaneous_input_kbps", format_args!("{:.2}", rates.input_bytes / 1024.0));
    lines.add("instantaneous_output_kbps", format_args!("{:.2}", rates.output_bytes / 1024.0));
    lines.add("rejected_connections", totals.rejected_connections);
    lines.add("client_output_buffer_limit_disconnections", totals.output_limit_disconnections);
    lines.add_known("expired_keys", facts.node.expired_keys);
    lines.add("evicted_keys", facts.host.usage().evicted());
    lines.add("evicted_clients", totals.evicted_clients);
    lines.add("keyspace_hits", totals.keyspace_hits);
    lines.add("keyspace_misses", totals.keyspace_misses);
    let broker = facts.host.broker();
    lines.add("pubsub_channels", broker.count_of(SubscriptionKind::Channel));
    lines.add("pubsub_patterns", broker.count_of(SubscriptionKind::Pattern));
    let of_slots = [SubscriptionKind::ShardChannel, SubscriptionKind::PlainShardChannel];
    lines.add("pubsubshard_channels", of_slots.map(|kind| broker.count_of(kind)).iter().sum::<usize>());
    // MIGRATE makes a connection of its own each time.
    lines.add("migrate_cached_sockets", 0);
    lines.add("latest_fork_usec", 0);
    lines.add("total_forks", 0);
    let tracking = facts.host.tracking();
    lines.add("tracking_total_keys", tracking.keys());
    lines.add("tracking_total_items", tracking.items());
    lines.add("tracking_total_prefixes", tracking.prefixes());
    lines.add("total_error_replies", stats.errors().values().sum::<u64>());
    lines.add("total_reads_processed", totals.reads);
    lines.add("total_writes_processed", totals.writes);
}

pub(super) fn cpu(facts: &Facts<'_>, lines: &mut Lines) {
    let seconds = |us: Option<u64>| us.map(|us| format!("{}.{:06}", us / 1_000_000, us % 1_000_000));
    lines.add_known("used_cpu_sys", seconds(facts.node.cpu_system_us));
    lines.add_known("used_cpu_user", seconds(facts.node.cpu_user_us));
}
