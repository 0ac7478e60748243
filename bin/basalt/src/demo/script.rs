//! What happens to the store meanwhile: a node dies, and comes back.

use crate::cluster::{Lifetime, LocalStore, Watch};
use bench::driver::EventLog;
use std::time::Duration;

/// What has happened by now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scene {
    /// All nodes run.
    Before,
    /// This one is dead.
    Dead(usize),
    /// It was started again and is on its way.
    Returning(usize),
    /// It takes part again.
    Returned(usize),
    /// It leads shards again.
    Leads(usize),
    /// It cannot go on.
    Broken,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    /// The node that died.
    pub node: Option<usize>,
    /// When it was killed, from the phase's beginning.
    pub killed_s: Option<f64>,
    /// When it was started again.
    pub started_s: Option<f64>,
    /// When it knew the leaders of all shards again.
    pub returned_s: Option<f64>,
    /// When it led shards again.
    pub leads_s: Option<f64>,
    /// What went wrong.
    pub trouble: Option<String>,
}

/// The script, and how far it is.
pub struct Script<'a> {
    store: &'a mut LocalStore,
    events: &'a EventLog,
    watch: Watch,
    kill_at: Duration,
    start_at: Duration,
    scene: Scene,
    played: Played,
}

impl<'a> Script<'a> {
    /// For a phase of so many seconds.
    pub fn new(store: &'a mut LocalStore, events: &'a EventLog, seconds: u64) -> Self {
        let third = Duration::from_secs(seconds) / 3;
        let (watch, played) = (Watch::default(), Played::default());
        Self { store, events, watch, kill_at: third, start_at: third * 2, scene: Scene::Before, played }
    }

    /// Does what is due after so long.
    pub fn play(&mut self, elapsed: Duration) {
        let next = match self.scene {
            Scene::Before if elapsed >= self.kill_at => self.kill(elapsed),
            Scene::Dead(node) if elapsed >= self.start_at => self.start(node, elapsed),
            Scene::Returning(node) | Scene::Returned(node) => Ok(self.look(node, elapsed)),
            scene => Ok(scene),
        };
        self.scene = next.unwrap_or_else(|e| {
            self.played.trouble = Some(e);
            Scene::Broken
        });
    }

    /// The node that leads most dies: it is missed most.
    fn kill(&mut self, elapsed: Duration) -> Result<Scene, String> {
        let sight = self.watch.look(self.store);
        let leading = |told: &Option<crate::cluster::NodeStatus>| told.as_ref().map_or(0, |told| told.leading);
        let node = sight.nodes.iter().max_by_key(|node| leading(&node.told)).ok_or("there are no nodes")?;
        let (number, leads) = (node.number, leading(&node.told));
        self.store.kill(number)?;
        self.events.note(&format!("node {number} killed, which led {leads} of {} shards", sight.shards));
        self.played.node = Some(number);
        self.played.killed_s = Some(elapsed.as_secs_f64());
        Ok(Scene::Dead(number))
    }

    fn start(&mut self, number: usize, elapsed: Duration) -> Result<Scene, String> {
        self.store.start(number, Lifetime::Ours)?;
        self.events.note(&format!("node {number} started again"));
        self.played.started_s = Some(elapsed.as_secs_f64());
        Ok(Scene::Returning(number))
    }

    fn look(&mut self, number: usize, elapsed: Duration) -> Scene {
        let Some(node) = self.store.roster().node(number).cloned() else { return Scene::Broken };
        let sight = self.watch.look_at(self.store, &node);
        if sight.process.is_none() {
            let words = self.store.last_words(number);
            self.played.trouble = Some(format!("node {number} has ended instead of starting; it said last:{words}"));
            return Scene::Broken;
        }
        match (self.scene, sight.told) {
            (Scene::Returning(_), Some(told)) if told.serves() => {
                self.events.note(&format!("node {number} takes part again"));
                self.played.returned_s = Some(elapsed.as_secs_f64());
                Scene::Returned(number)
            }
            (Scene::Returned(_), Some(told)) if told.leading > 0 => {
                self.events.note(&format!("node {number} leads shards again"));
                self.played.leads_s = Some(elapsed.as_secs_f64());
                Scene::Leads(number)
            }
            (scene, _) => scene,
        }
    }

    /// What came of it.
    pub fn end(self) -> Played {
        self.played
    }
}
