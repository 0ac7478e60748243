//! Cassandra, from its Maven artefact: a node on each of 127.0.0.1, 127.0.0.2, …, with small heaps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::build::{done, make, tool};
use super::folder;
use super::ports::Ports;
use super::site::{Site, Up, listens};

/// A node on two cores with others starting beside it.
const UP_WITHIN: Duration = Duration::from_secs(180);
/// What the JVM must open for Cassandra 5 on Java 17, as its own start script has it.
const OPENED: [&str; 22] = [
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED",
    "--add-exports=java.sql/java.sql=ALL-UNNAMED",
    "--add-exports=java.base/java.lang.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.reflect=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.math=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.util.jar=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
];

pub(super) fn up(site: &mut Site<'_>) -> io::Result<Up> {
    let (count, port) = (site.options.nodes(), site.options.port);
    Ports { hosts: count, first: port, count: 2 }.require_free()?;
    let library = library()?;
    for number in 0..count {
        let folder = site.node_dir(usize::from(number))?;
        let file = folder.join("cassandra.yaml");
        fs::write(&file, configuration(site, number, &folder))?;
        let address = format!("127.0.0.{}:{port}", number + 1);
        site.start(address, command(site, &library, &folder, &file)?)?;
        if number == 0 {
            // The first makes the system's tables, which the others then find.
            site.await_all(UP_WITHIN, listens)?;
        }
    }
    site.await_all(UP_WITHIN, listens)?;
    let commit_log = if site.syncs() {
        "commitlog_sync batch: fsync on a replica before it answers"
    } else {
        "commitlog_sync periodic, 100 ms"
    };
    let places: Vec<&str> = site.nodes.iter().map(|node| node.address.as_str()).collect();
    let settings = format!("{count} nodes of one token each, heaps of {} MiB; {commit_log}", site.options.memory_mib);
    Ok(Up { target: format!("cassandra://{}", places.join(",")), settings })
}

/// The server's jars, fetched once.
fn library() -> io::Result<PathBuf> {
    let (sources, library) = (folder::peers()?.join("cassandra"), folder::built()?.join("cassandra"));
    make(&library.join("fetched"), &sources, "Cassandra's server", || {
        let mut maven = tool("mvn", "maven")?;
        maven.current_dir(&sources).args(["-q", "-B", "dependency:copy-dependencies"]);
        maven.arg(format!("-DoutputDirectory={}", library.display()));
        done(&mut maven)?;
        fs::write(library.join("fetched"), "")
    })?;
    Ok(library)
}

/// The agent by which Cassandra measures its memory.
fn agent(library: &Path) -> io::Result<PathBuf> {
    let names = fs::read_dir(library)?.flatten().map(|entry| entry.path());
    let is_agent = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("jamm-"));
    names.into_iter().find(is_agent).ok_or_else(|| io::Error::other("Cassandra's artefact came without jamm"))
}

fn command(site: &Site<'_>, library: &Path, folder: &Path, file: &Path) -> io::Result<Command> {
    let mut java = tool("java", "default-jre-headless")?;
    let heap = site.options.memory_mib;
    java.args([format!("-Xms{heap}m"), format!("-Xmx{heap}m"), "-XX:+UseG1GC".to_owned()]).args(OPENED);
    // A node without memory is to die rather than to limp.
    java.arg("-XX:+ExitOnOutOfMemoryError");
    java.arg(format!("-javaagent:{}", agent(library)?.display()));
    java.arg(format!("-Dcassandra.config=file://{}", file.display()));
    java.arg(format!("-Dcassandra.storagedir={}", folder.display()));
    java.arg(format!("-Dlogback.configurationFile={}", folder::peers()?.join("cassandra/logback.xml").display()));
    // All nodes are new and have their tokens: nothing is to be waited for.
    java.args(["-Dcassandra.ring_delay_ms=1000", "-Dcassandra.skip_wait_for_gossip_to_settle=0"]);
    java.args(["-Dcassandra-foreground=yes", "-Djdk.attach.allowAttachSelf=true", "-Djava.awt.headless=true"]);
    java.args(["-Dcassandra.superuser_setup_delay_ms=0", "-Xss512k", "-cp"]).arg(library.join("*"));
    java.arg("org.apache.cassandra.service.CassandraDaemon");
    Ok(java)
}

/// The settings that a store of a few nodes on one machine needs; all others are Cassandra's own.
fn configuration(site: &Site<'_>, number: u16, folder: &Path) -> String {
    let (count, port) = (site.options.nodes(), site.options.port);
    // Evenly over the whole ring.
    let token = i64::MIN as i128 + (1_i128 << 64) / i128::from(count) * i128::from(number);
    let sync = if site.syncs() {
        "commitlog_sync: batch\n"
    } else {
        "commitlog_sync: periodic\ncommitlog_sync_period: 100ms\n"
    };
    let storage = port + 1;
    let dir = |name: &str| folder.join(name).display().to_string();
    format!(
        "cluster_name: basalt-peer\n\
         num_tokens: 1\n\
         initial_token: {token}\n\
         auto_bootstrap: false\n\
         partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n\
         endpoint_snitch: SimpleSnitch\n\
         listen_address: 127.0.0.{host}\n\
         rpc_address: 127.0.0.{host}\n\
         storage_port: {storage}\n\
         native_transport_port: {port}\n\
         start_native_transport: true\n\
         {sync}\
         data_file_directories:\n- {data}\n\
         commitlog_directory: {log}\n\
         saved_caches_directory: {caches}\n\
         hints_directory: {hints}\n\
         cdc_raw_directory: {cdc}\n\
         seed_provider:\n- class_name: org.apache.cassandra.locator.SimpleSeedProvider\n  \
           parameters:\n  - seeds: \"127.0.0.1:{storage}\"\n",
        host = number + 1,
        data = dir("data"),
        log = dir("commitlog"),
        caches = dir("caches"),
        hints = dir("hints"),
        cdc = dir("cdc"),
    )
}
