//! All agents of a run: connected, their clocks compared.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::agent_link::{AgentLink, Heard};
use super::clock::{Clock, Reading};
use crate::agent::{FromAgent, ToAgent};

/// Pings of one comparison of clocks.
const PINGS: u64 = 16;
/// A ping that takes longer is lost.
const PING_WITHIN: Duration = Duration::from_secs(2);

/// The agents.
pub(super) struct Agents {
    pub(super) links: Vec<AgentLink>,
    pub(super) heard: Receiver<Heard>,
    /// The next ping's token.
    token: u64,
}

impl Agents {
    /// Connects to all of them and compares their clocks.
    ///
    /// # Errors
    /// One cannot be reached, or refuses.
    pub(super) fn gather(names: &[String], secret: &[u8], version: &str) -> io::Result<Self> {
        let (say, heard) = mpsc::channel();
        let links: io::Result<Vec<AgentLink>> = names
            .iter()
            .enumerate()
            .map(|(index, name)| AgentLink::join(index, name, secret, version, say.clone()))
            .collect();
        let mut agents = Self { links: links?, heard, token: 0 };
        for index in 0..agents.links.len() {
            let clock = agents.compare_clock(index);
            let agent_link = &mut agents.links[index];
            agent_link.clock = clock;
            if let Some(why) = &agent_link.gone {
                return Err(io::Error::other(format!("agent {}: {why}", agent_link.name)));
            }
            if agent_link.clock.is_none() {
                return Err(io::Error::other(format!("agent {} does not tell its time", agent_link.name)));
            }
        }
        Ok(agents)
    }

    /// Asks one agent for its time, again and again. Nothing else may be under way.
    pub(super) fn compare_clock(&mut self, index: usize) -> Option<Clock> {
        let mut readings = Vec::new();
        for _ in 0..PINGS {
            readings.extend(self.ping(index));
        }
        Clock::of(&readings)
    }

    fn ping(&mut self, index: usize) -> Option<Reading> {
        self.token += 1;
        let (sent, day) = (Instant::now(), SystemTime::now());
        self.links[index].say(&ToAgent::Ping(self.token));
        if self.links[index].gone.is_some() {
            return None;
        }
        while let Ok(heard) = self.heard.recv_timeout(PING_WITHIN.saturating_sub(sent.elapsed())) {
            let agent_link = &mut self.links[heard.from];
            agent_link.heard_at = heard.at;
            match heard.what {
                Ok(FromAgent::Pong { token, at_ns, unix_ns }) if token == self.token && heard.from == index => {
                    let middle = day + (heard.at - sent) / 2;
                    let ours = middle.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as f64;
                    let day_offset_us = (unix_ns as f64 - ours) / 1e3;
                    return Some(Reading { sent, back: heard.at, agent_ns: at_ns, day_offset_us });
                }
                Ok(FromAgent::Refused(why)) => agent_link.gone = Some(format!("it refuses: {why}")),
                Err(why) => agent_link.gone = Some(why),
                // An answer to an earlier ping, or what an earlier phase left behind.
                Ok(_) => {}
            }
            if self.links[index].gone.is_some() {
                return None;
            }
        }
        None
    }

    /// What an agent says, if one says something within `patience`.
    pub(super) fn listen(&mut self, patience: Duration) -> Option<Heard> {
        match self.heard.recv_timeout(patience) {
            Ok(heard) => {
                self.links[heard.from].heard_at = heard.at;
                Some(heard)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Pings all, without waiting for their answers.
    pub(super) fn knock(&mut self) {
        for agent_link in &mut self.links {
            agent_link.say(&ToAgent::Ping(0));
        }
    }

    /// Says the same to all that are there.
    pub(super) fn say(&mut self, message: &ToAgent) {
        self.links.iter_mut().for_each(|agent_link| agent_link.say(message));
    }

    /// The longest round trip of all.
    pub(super) fn round_trip(&self) -> Duration {
        self.links
            .iter()
            .filter_map(|agent_link| agent_link.clock)
            .map(|clock| clock.round_trip)
            .max()
            .unwrap_or_default()
    }
}
