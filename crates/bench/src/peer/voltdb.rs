//! VoltDB's community edition, from its Maven artefact: a node on each of 127.0.0.1, 127.0.0.2, …, in memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::build::{done, make, tool};
use super::folder;
use super::ports::Ports;
use super::site::{Site, Up, listens};

/// Nodes on two cores that wait for each other.
const UP_WITHIN: Duration = Duration::from_secs(180);
/// Packages of the base module that it reaches into, on Java 17.
const OPENED: [&str; 9] = [
    "java.lang",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.util",
    "sun.nio.ch",
    "jdk.internal.ref",
    "jdk.internal.misc",
    "jdk.internal.reflect",
];

pub(super) fn up(site: &mut Site<'_>) -> io::Result<Up> {
    let (count, port) = (site.options.nodes(), site.options.port);
    let copies = site.options.replication_factor.min(count);
    Ports { hosts: count, first: port, count: 5 }.require_free()?;
    let library = library()?;
    let deployment = site.dir.join("node-0").join("deployment.xml");
    site.node_dir(0)?;
    fs::write(&deployment, configuration(count, copies))?;
    let mesh: Vec<String> = (0..count).map(|number| format!("{}:{}", host(number), port + 1)).collect();
    for number in 0..count {
        let folder = site.node_dir(usize::from(number))?;
        let mut initialize = java(site, &library, &folder)?;
        initialize.arg("initialize").arg("deployment").arg(&deployment).arg("voltdbroot").arg(&folder);
        done(initialize.current_dir(&folder))?;
        let mut command = java(site, &library, &folder)?;
        command.current_dir(&folder);
        command.args(["probe", "mesh", &mesh.join(","), "hostcount", &count.to_string()]);
        command.args(["internalinterface", &host(number), "externalinterface", &host(number)]);
        for (name, port) in [("port", port), ("internalport", port + 1), ("adminport", port + 2)] {
            command.args([name, &port.to_string()]);
        }
        command.args(["zkport", &format!("{}:{}", host(number), port + 3)]);
        command.args(["replicationport", &(port + 4).to_string()]).arg("voltdbroot").arg(&folder);
        site.start(format!("{}:{port}", host(number)), command)?;
    }
    site.await_all(UP_WITHIN, listens)?;
    let places: Vec<&str> = site.nodes.iter().map(|node| node.address.as_str()).collect();
    let settings = format!(
        "{count} {}, {copies} {} of each record in memory, {} partitions a node, heaps of {} MiB; no command log: the \
         community edition has none{}",
        if count == 1 { "node" } else { "nodes" },
        if copies == 1 { "copy" } else { "copies" },
        partitions(copies),
        site.options.memory_mib,
        if site.syncs() { ", though sync was asked" } else { "" },
    );
    Ok(Up { target: format!("voltdb://{}", places.join(",")), settings })
}

fn host(number: u16) -> String {
    format!("127.0.0.{}", number + 1)
}

/// The partitions of a node: the sum over all nodes must be a multiple of the number of copies.
fn partitions(copies: u16) -> u16 {
    copies.max(2)
}

/// The server's jars, fetched once.
fn library() -> io::Result<PathBuf> {
    let (sources, library) = (folder::peers()?.join("voltdb"), folder::built()?.join("voltdb"));
    make(&library.join("fetched"), &sources, "VoltDB's server", || {
        let mut maven = tool("mvn", "maven")?;
        maven.current_dir(&sources).args(["-q", "-B", "package", &format!("-Dbuilt={}", library.display())]);
        done(&mut maven)?;
        fs::write(library.join("fetched"), "")
    })?;
    Ok(library)
}

fn java(site: &Site<'_>, library: &Path, folder: &Path) -> io::Result<Command> {
    let mut java = tool("java", "default-jre-headless")?;
    for package in OPENED {
        java.arg(format!("--add-opens=java.base/{package}=ALL-UNNAMED"));
    }
    java.arg(format!("-Xmx{}m", site.options.memory_mib))
        .args(["-Djava.awt.headless=true", "-XX:+ExitOnOutOfMemoryError"]);
    // It unpacks its native library there.
    java.arg(format!("-Djava.io.tmpdir={}", folder.display()));
    java.arg(format!("-Dlog4j.configuration=file://{}", folder::peers()?.join("voltdb/log4j.properties").display()));
    java.arg("-cp").arg(library.join("*")).arg("org.voltdb.VoltDB");
    Ok(java)
}

fn configuration(count: u16, copies: u16) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n\
         <deployment>\n\
         <cluster hostcount=\"{count}\" sitesperhost=\"{}\" kfactor=\"{}\"/>\n\
         <httpd enabled=\"false\"/>\n\
         <snapshot enabled=\"false\"/>\n\
         </deployment>\n",
        partitions(copies),
        copies - 1,
    )
}
