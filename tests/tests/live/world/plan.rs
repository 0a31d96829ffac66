//! The configuration of a simulated registry, and how it changes.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use toolgate::config;
use toolgate::config::model::Config;
use toolgate::registry::ConfigChanges;

/// A configuration.
#[derive(Clone, Debug)]
pub struct Plan {
    pub servers: Vec<Entry>,
    /// Only one server may start at a time.
    pub one_start: bool,
    /// Nothing is ever tried again.
    pub never_again: bool,
}

/// What is said of one server.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: &'static str,
    /// All gates share one connection.
    pub shared: bool,
    /// Its calls wait for their turn.
    pub queued: bool,
    /// How long an answer may take.
    pub call: Duration,
    /// Its era is said, so each attempt is one connection.
    pub era_said: bool,
    /// Whatever else is said.
    rest: String,
    /// Changes when the entry is to.
    edition: u32,
    pub present: bool,
}

impl Plan {
    /// Servers of all kinds.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut servers: Vec<_> = ["a", "b", "c", "own", "kept"].into_iter().map(|id| Entry::draw(id, rng)).collect();
        servers[2].present = rng.bool();
        Plan { servers, one_start: rng.u32(0..10) == 0, never_again: rng.u32(0..10) == 0 }
    }

    /// The configuration as the host reads it.
    pub fn config(&self) -> Config {
        let yaml = self.yaml();
        let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the world's configuration is right");
        assert!(config.notices.is_empty() && config.servers.iter().all(|server| server.problem.is_none()), "{yaml}");
        config
    }

    fn yaml(&self) -> String {
        let mut yaml = "queues: {narrow: {slots: 2, waiting: 3, timeout: 5s}}\n".to_owned();
        if self.one_start {
            yaml.push_str("start_concurrency: 1\n");
        }
        if self.never_again {
            yaml.push_str("retry: never\n");
        }
        yaml.push_str("servers:\n");
        self.present().for_each(|entry| entry.write(&mut yaml));
        yaml
    }

    /// The servers that there are.
    pub fn present(&self) -> impl Iterator<Item = &Entry> {
        self.servers.iter().filter(|entry| entry.present)
    }

    /// What is said of this server, whether it is there or not.
    pub fn entry(&self, id: &str) -> &Entry {
        self.servers.iter().find(|entry| entry.id == id).expect("the world knows its servers")
    }

    /// Another configuration, and what the host should find to be different.
    pub fn change(&self, rng: &mut Rng) -> (Plan, ConfigChanges) {
        let mut plan = self.clone();
        rng.shuffle(&mut plan.servers);
        let mut changes = ConfigChanges::default();
        for entry in &mut plan.servers {
            let was_present = entry.present;
            match rng.u32(0..10) {
                0 | 1 => entry.edition += 1,
                2 => entry.present = !entry.present,
                _ => {}
            }
            let updated = entry.edition != self.entry(entry.id).edition;
            let list = match (was_present, entry.present) {
                (true, true) if updated => &mut changes.updated,
                (true, true) => &mut changes.unchanged,
                (true, false) => &mut changes.removed,
                (false, true) => &mut changes.added,
                (false, false) => continue,
            };
            list.push(entry.id.to_owned());
        }
        // Those that are gone are told in the order in which they stood.
        changes.removed.sort_by_key(|id| self.servers.iter().position(|entry| entry.id == id));
        (plan, changes)
    }
}

impl Entry {
    fn draw(id: &'static str, rng: &mut Rng) -> Self {
        let mut rest = String::new();
        let mut say = |percent: u32, what: &str, rng: &mut Rng| {
            let said = rng.u32(0..100) < percent;
            if said {
                let _ = write!(rest, ", {what}");
            }
            said
        };
        say(15, "eager: true", rng);
        let queued = say(25, "queue: narrow", rng) | say(15, "max_concurrent: 2", rng);
        say(15, "health_probe: list-tools", rng);
        let era_said = say(40, "protocol: legacy", rng);
        let idle = ["5m", "5m", "5m", "20s", "2s", "0s"][rng.usize(0..6)];
        let health = ["15s", "15s", "3s", "0s"][rng.usize(0..4)];
        let call = [2, 5, 20, 60][rng.usize(0..4)];
        let _ = write!(rest, ", idle_timeout: {idle}, health_interval: {health}, timeouts: {{call: {call}s}}");
        match id {
            "own" => rest.push_str(", shared: false"),
            // Gates share a connection with those of the same session.
            "kept" => rest.push_str(r#", env: {SESSION: "{{.SESSION_ID}}"}"#),
            _ => {}
        }
        let shared = !matches!(id, "own" | "kept");
        Entry { id, shared, queued, call: Duration::from_secs(call), era_said, rest, edition: 0, present: true }
    }

    fn write(&self, yaml: &mut String) {
        let Entry { id, rest, edition, .. } = self;
        let _ = writeln!(yaml, "  {id}: {{command: none, args: [\"{edition}\"], deny: [forbidden]{rest}}}");
    }
}
