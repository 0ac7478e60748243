//! `basalt ctl status`: how a store is, as one of its nodes sees it.

use super::ask;
use super::picture::{NodePicture, Picture, ReplicaPicture, ShardPicture};
use client::Client;

/// More shards than this are counted, not listed, unless they are asked for.
const SHARDS_LISTED: usize = 32;

/// Shows it. True if all is as it should be.
pub fn run(client: &mut Client, all_shards: bool, json: bool) -> Result<bool, String> {
    let text = |client: &mut Client, what: &[u8]| -> Result<String, String> {
        let answer = ask(client, &[b"CLUSTER", what])?;
        answer
            .as_bytes()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .ok_or_else(|| "not a text".to_owned())
    };
    let nodes = text(client, b"NODES")?;
    let info = text(client, b"INFO")?;
    let shards = ask(client, &[b"CLUSTER", b"SHARDS"])?;
    let picture = Picture::read(&nodes, &shards, &info)?;
    if json {
        println!("{}", serde_json::to_string_pretty(&picture).map_err(|e| e.to_string())?);
    } else {
        print!("{}", picture.table(all_shards));
    }
    Ok(picture.healthy)
}

impl Picture {
    fn table(&self, all_shards: bool) -> String {
        let up = self.nodes.iter().filter(|node| node.up).count();
        let mut text = format!("{up} of {} nodes up; ", self.nodes.len());
        if self.slots == 0 {
            return text + "there is no store yet: `basalt ctl init` makes it\n";
        }
        text += &format!(
            "{} shards, {} of {} slots have leaders; epoch {}\n\n",
            self.shards.len(),
            self.slots_led,
            vocab::SLOT_COUNT,
            self.epoch
        );
        let wide = self.nodes.iter().map(|node| node.address.len()).max().unwrap_or(0).max("leader".len());
        text += &format!("{:<wide$}  peer port  state  leads  replicas  id\n", "node");
        for NodePicture { id, address, peer_port, up, leads, replicas } in &self.nodes {
            let state = if *up { "up" } else { "down" };
            text += &format!("{address:<wide$}  {peer_port:>9}  {state:<5}  {leads:>5}  {replicas:>8}  {id}\n");
        }
        if self.shards.len() > SHARDS_LISTED && !all_shards {
            return text + "\n--shards lists the shards\n";
        }
        let slots: Vec<String> = self.shards.iter().map(ShardPicture::ranges).collect();
        let slots_wide = slots.iter().map(String::len).max().unwrap_or(0).max("slots".len());
        text += &format!("\n{:<slots_wide$}  {:<wide$}  followers\n", "slots", "leader");
        for (slots, shard) in slots.iter().zip(&self.shards) {
            let (leader, followers) = shard.servers();
            text += &format!("{slots:<slots_wide$}  {leader:<wide$}  {followers}\n");
        }
        text
    }
}

impl ShardPicture {
    fn ranges(&self) -> String {
        let ranges: Vec<String> = self.slots.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        ranges.join(",")
    }

    /// The leader, and the followers.
    fn servers(&self) -> (String, String) {
        let named = |replica: &ReplicaPicture| match replica.health.as_str() {
            "online" => replica.node.clone(),
            health => format!("{} ({health})", replica.node),
        };
        let of = |leads: bool| {
            let some: Vec<String> = self.replicas.iter().filter(|replica| replica.leads == leads).map(named).collect();
            some.join(", ")
        };
        (of(true), of(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_as_a_table() {
        let node = |port: u16, up, leads| NodePicture {
            id: "ab".to_owned(),
            address: format!("h:{port}"),
            peer_port: port + 1,
            up,
            leads,
            replicas: 1,
        };
        let replica =
            |port: u16, leads, health: &str| ReplicaPicture { node: format!("h:{port}"), leads, health: health.into() };
        let shard = ShardPicture {
            slots: vec![(0, 99), (200, 16383)],
            replicas: vec![replica(1, true, "online"), replica(2, false, "fail")],
        };
        let mut picture = Picture {
            epoch: 7,
            slots: 16284,
            slots_led: 16284,
            nodes: vec![node(1, true, 1), node(2, false, 0)],
            shards: vec![shard],
            healthy: false,
        };
        let expected = "\
1 of 2 nodes up; 1 shards, 16284 of 16384 slots have leaders; epoch 7

node    peer port  state  leads  replicas  id
h:1             2  up         1         1  ab
h:2             3  down       0         1  ab

slots           leader  followers
0-99,200-16383  h:1     h:2 (fail)
";
        assert_eq!(picture.table(false), expected);
        picture.slots = 0;
        assert!(picture.table(false).contains("there is no store yet"));
    }
}
