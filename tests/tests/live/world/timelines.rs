//! Simulated runs that are scripted second by second.

mod acquire;
mod busy;
mod close;
mod health;
mod listing;
mod reload;
mod restart;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use toolgate::config;
use toolgate::config::model::Config;
use toolgate::gate::{CallOptions, Gate, GateView};
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;
use toolgate::registry::{Registry, RegistryOptions};
use toolgate::transport::Connect;

use super::ledger::{Ledger, Story};
use super::life::tool_call;
use super::server::{Fate, Mind, Nature, Server, What};
use crate::fixtures::component;

/// A world of the servers `a` and `b`.
struct World {
    ledger: Arc<Ledger>,
    a: Arc<Server>,
    registry: Arc<Registry>,
    gate: Arc<Gate>,
}

/// How a call ended, and when.
#[derive(Debug, PartialEq)]
struct Ended {
    code: Code,
    at: Duration,
    text: String,
}

impl World {
    /// Servers of which this is said.
    fn new(servers: &str) -> Self {
        let ledger = Ledger::new(&Story::default());
        let (a, b) = (Server::new("a", &ledger), Server::new("b", &ledger));
        let connect = |server: &Arc<Server>| (server.id.clone(), Arc::clone(server) as Arc<dyn Connect>);
        let options = RegistryOptions { transports: [connect(&a), connect(&b)].into(), ..RegistryOptions::default() };
        let registry = Registry::new(&component(), read(servers), options).unwrap();
        let gate = open(&registry);
        World { ledger, a, registry, gate }
    }

    /// Waits until the world is so old.
    async fn at(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds).saturating_sub(self.ledger.now())).await;
    }

    /// Calls a tool and waits for what it comes to.
    async fn call(&self, name: &str) -> Ended {
        self.begin(name, CallOptions::default()).await.unwrap()
    }

    /// Calls a tool; its name is also what tells the call from others.
    fn begin(&self, name: &str, options: CallOptions) -> JoinHandle<Ended> {
        begin(&self.gate, &self.ledger, name, options)
    }

    /// Where the server `a` stands.
    fn state(&self) -> State {
        self.registry.link("a").unwrap().status().state
    }

    /// How often the server `a` was connected, or was to be.
    fn attempts(&self) -> usize {
        self.ledger.attempts("a").len()
    }
}

fn begin(gate: &Arc<Gate>, ledger: &Arc<Ledger>, name: &str, options: CallOptions) -> JoinHandle<Ended> {
    let (gate, ledger, name) = (Arc::clone(gate), Arc::clone(ledger), name.to_owned());
    tokio::spawn(async move {
        let called = gate.call(tool_call(&name, &name), &options).await.expect("the component answers");
        Ended { code: called.result.code, at: ledger.now(), text: called.result.text }
    })
}

fn open(registry: &Arc<Registry>) -> Arc<Gate> {
    Arc::new(Gate::open(registry, GateView::default()).unwrap())
}

/// A configuration of these servers; each is given a program that is never run.
fn read(servers: &str) -> Config {
    let servers: Vec<_> = servers.lines().map(|line| line.replacen('{', "{command: none, ", 1)).collect();
    let yaml = format!("servers:\n{}\n", servers.join("\n"));
    config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right")
}

fn within(deadline: u64) -> CallOptions {
    CallOptions { deadline: Some(seconds(deadline)), ..CallOptions::default() }
}

fn patient(timeout: u64) -> CallOptions {
    CallOptions { timeout: Some(seconds(timeout)), ..CallOptions::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A mind for which only this method is special.
fn only(special: &'static str, fate: Fate) -> impl Mind {
    move |method: &str| if method == special { fate.clone() } else { Fate::WELL }
}

/// Does all well, and takes this long to end in good manners.
struct SlowToGo(Duration);

impl Mind for SlowToGo {
    fn nature(&mut self) -> Nature {
        Nature { ends_in: self.0, ..Nature::default() }
    }

    fn meet(&mut self, _what: &What<'_>) -> Fate {
        Fate::WELL
    }
}

/// Checks a time to the hundredth of a second: timers have a grain.
#[track_caller]
fn assert_near(time: Duration, expected: f64) {
    assert!((time.as_secs_f64() - expected).abs() < 0.011, "{time:?}, and not {expected}");
}
