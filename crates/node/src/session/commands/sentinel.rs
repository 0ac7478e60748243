//! SENTINEL, as clients of databases ask it: every node answers for every database, so the master is the node that is asked.
//! Whatever a client calls it, it is one; a list shows it under one name.

use super::ask::{Ask, Outcome, Row};
use crate::session::cluster_facts::node_name;
use crate::session::{ClusterNode, Effect};
use resp::Reply;

pub(super) const ROWS: &[Row] = &[
    ("SENTINEL|CKQUORUM", |ask| of_database(ask, check_quorum)),
    ("SENTINEL|GET-MASTER-ADDR-BY-NAME", |ask| of_database(ask, address)),
    ("SENTINEL|MASTER", |ask| of_database(ask, master)),
    ("SENTINEL|MASTERS", |ask| of_database(ask, masters)),
    ("SENTINEL|MYID", |ask| of_database(ask, my_id)),
    ("SENTINEL|REPLICAS", |ask| of_database(ask, none)),
    ("SENTINEL|SENTINELS", |ask| of_database(ask, sentinels)),
    ("SENTINEL|SLAVES", |ask| of_database(ask, none)),
];

fn of_database(ask: &mut Ask<'_>, answer: fn(&mut Ask<'_>)) -> Outcome {
    if ask.session.keyspace().database().is_none() {
        return Err("ERR SENTINEL is for clients of databases (database-listen)".into());
    }
    answer(ask);
    Ok(Effect::None)
}

/// The address and port that the client is told.
fn address_of(ask: &Ask<'_>) -> (String, String) {
    let announced = ask.host.config().text("announce-database").unwrap_or_default();
    told(&announced, &ask.session.entry().laddr, ask.session.is_encrypted())
}

/// Those that are announced, or else those that the client has connected to. What is announced is a port without TLS.
fn told(announced: &str, connected_to: &str, is_encrypted: bool) -> (String, String) {
    let (host, port) = vocab::host_and_port(connected_to).unwrap_or((connected_to, "0"));
    let (host, port) = match vocab::host_and_port(announced) {
        Some((announced, _)) if is_encrypted => (announced, port),
        announced => announced.unwrap_or((host, port)),
    };
    (host.to_owned(), port.to_owned())
}

fn address(ask: &mut Ask<'_>) {
    ask.host.asked_for_master(ask.args[2]);
    let (host, port) = address_of(ask);
    ask.reply.array(2);
    ask.reply.bulk(host.as_bytes());
    ask.reply.bulk(port.as_bytes());
}

fn master(ask: &mut Ask<'_>) {
    let name = ask.args[2];
    ask.host.asked_for_master(name);
    write_master(ask, name);
}

fn masters(ask: &mut Ask<'_>) {
    let name = ask.host.config().text("sentinel-master-name").unwrap_or_default();
    ask.reply.array(1);
    write_master(ask, name.as_bytes());
}

fn write_master(ask: &mut Ask<'_>, name: &[u8]) {
    let (host, port) = address_of(ask);
    let run_id = ask.host.node_facts().run_id;
    let others = ask.host.other_listeners().len().to_string();
    let fields: [(&str, &[u8]); 14] = [
        ("name", name),
        ("ip", host.as_bytes()),
        ("port", port.as_bytes()),
        ("runid", run_id.as_bytes()),
        ("flags", b"master"),
        ("link-pending-commands", b"0"),
        ("link-refcount", b"1"),
        ("last-ok-ping-reply", b"0"),
        ("role-reported", b"master"),
        ("config-epoch", b"0"),
        ("num-slaves", b"0"),
        ("num-other-sentinels", others.as_bytes()),
        ("quorum", b"1"),
        ("parallel-syncs", b"1"),
    ];
    let reply: &mut Reply = ask.reply;
    reply.map(fields.len());
    for (field, value) in fields {
        reply.bulk(field.as_bytes());
        reply.bulk(value);
    }
}

/// The other nodes: each answers as this one does.
fn sentinels(ask: &mut Ask<'_>) {
    ask.host.asked_for_master(ask.args[2]);
    let others = ask.host.other_listeners();
    ask.reply.array(others.len());
    for (node, host, port) in others {
        let (name, id) = (format!("{host}:{port}"), node_name(node));
        let fields: [(&str, &str); 7] = [
            ("name", &name),
            ("ip", &host),
            ("port", &port),
            ("runid", &id),
            ("flags", "sentinel"),
            ("last-ok-ping-reply", "0"),
            ("voted-leader-epoch", "0"),
        ];
        ask.reply.map(fields.len());
        for (field, value) in fields {
            ask.reply.bulk(field.as_bytes());
            ask.reply.bulk(value.as_bytes());
        }
    }
}

fn my_id(ask: &mut Ask<'_>) {
    // The one by which the others name it.
    let own = ask.host.cluster_facts().myself().map(ClusterNode::name);
    ask.reply.bulk(own.unwrap_or_else(|| ask.host.node_facts().run_id).as_bytes());
}

fn none(ask: &mut Ask<'_>) {
    ask.reply.array(0);
}

fn check_quorum(ask: &mut Ask<'_>) {
    let usable = ask.host.other_listeners().len() + 1;
    let facts = ask.host.cluster_facts();
    let alive = facts.nodes.iter().filter(|node| node.alive || node.myself).count();
    if alive * 2 > facts.nodes.len() || facts.nodes.is_empty() {
        ask.reply.simple(&format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached"));
    } else {
        ask.reply.error(&format!(
            "NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the majority and authorize a failover"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn clients_are_told_what_is_announced() {
        for (announced, connected_to, is_encrypted, expected) in [
            ("", "10.0.0.7:6379", false, ("10.0.0.7", "6379")),
            ("", "[::1]:6380", true, ("::1", "6380")),
            ("kv.example:7001", "10.0.0.7:6379", false, ("kv.example", "7001")),
            ("kv.example:7001", "10.0.0.7:6380", true, ("kv.example", "6380")),
            ("[2001:db8::7]:7001", "10.0.0.7:6379", false, ("2001:db8::7", "7001")),
        ] {
            let (host, port) = told(announced, connected_to, is_encrypted);
            assert_eq!((&*host, &*port), expected, "{announced} {connected_to}");
        }
    }
}
