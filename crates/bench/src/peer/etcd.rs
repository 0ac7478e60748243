//! etcd: every member holds everything, and a write is on the disks of a majority before it is answered.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::build::tool;
use super::ports::Ports;
use super::roster::PeerNode;
use super::site::{Site, Up};

const UP_WITHIN: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The bound of each member's file: etcd advises 8 GiB at most.
const QUOTA_BYTES: u64 = 8 << 30;

pub(super) fn up(site: &mut Site<'_>) -> io::Result<Up> {
    let (count, port) = (site.options.nodes(), site.options.port);
    Ports { hosts: 1, first: port, count: 2 * count }.require_free()?;
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let peer_port = |number: u16| port + count + number;
    let members: Vec<String> = (0..count).map(|number| format!("m{number}={}", url(peer_port(number)))).collect();
    for number in 0..count {
        let (client, peer) = (url(port + number), url(peer_port(number)));
        let mut command = tool("etcd", "etcd-server")?;
        command.args(["--name", &format!("m{number}"), "--initial-cluster", &members.join(",")]);
        command.args(["--initial-cluster-state", "new", "--quota-backend-bytes", &QUOTA_BYTES.to_string()]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        // Without it the history of every key is kept until the quota is used up.
        command.args(["--auto-compaction-mode", "revision", "--auto-compaction-retention", "10000"]);
        command.arg("--data-dir").arg(site.node_dir(usize::from(number))?.join("data"));
        site.start(format!("127.0.0.1:{}", port + number), command)?;
    }
    site.await_all(UP_WITHIN, is_healthy)?;
    let places: Vec<&str> = site.nodes.iter().map(|node| node.address.as_str()).collect();
    let settings = match (site.syncs(), count) {
        (true, 1) => "one member; fsync before every answer".to_owned(),
        (true, _) => format!("{count} members, each with everything; fsync on a majority before every answer"),
        (false, _) => {
            let text = "fsync on a majority before every answer: this etcd cannot do without, though nosync was asked";
            format!("{count} members, each with everything; {text}")
        }
    };
    Ok(Up { target: format!("etcd://{}", places.join(",")), settings })
}

/// What the member itself answers: it has a leader and can write.
fn is_healthy(node: &PeerNode) -> bool {
    let port = node.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let ask = || -> io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.unwrap_or_default()))?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(4096).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}
