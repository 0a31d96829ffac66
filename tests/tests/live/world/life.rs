//! One simulated run of a registry: callers, operators and servers that act at random.

mod calls;
mod end;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolgate::gate::{CallOptions, CloseMode, Gate, GateView};
use toolgate::record::Recorder;
use toolgate::registry::{Link, Registry, RegistryOptions};
use toolgate::transport::Connect;

use super::chance::{Chance, Temper};
use super::ledger::{Ledger, Story};
use super::plan::Plan;
use super::rules::{self, Asked, Broken, FORBIDDEN, ensure};
use super::server::Server;
use super::states::Moves;
use crate::fixtures::component;
use calls::{Ended, Patience, limit};

pub use calls::tool_call;

/// One life of a registry.
pub struct Life {
    rng: Rng,
    plan: Plan,
    ledger: Arc<Ledger>,
    moves: Moves,
    servers: BTreeMap<&'static str, Arc<Server>>,
    /// None once it was dropped.
    registry: Option<Arc<Registry>>,
    gates: Vec<Arc<Gate>>,
    calls: JoinSet<Ended>,
    next: u32,
    /// When each server came or went.
    changes: Vec<(Duration, &'static str)>,
    /// Servers that were configured anew at some time: there may have been two of them.
    renewed: Vec<&'static str>,
    ended: Vec<Ended>,
}

impl Life {
    /// A world that chance has made.
    pub fn begin(seed: u64, story: &Story, moves: Moves, records: PathBuf) -> Self {
        let mut rng = Rng::with_seed(seed);
        let ledger = Ledger::new(story);
        let plan = Plan::draw(&mut rng);
        let mut servers = BTreeMap::new();
        let mut transports = std::collections::HashMap::new();
        for entry in &plan.servers {
            let temper = temper(&mut rng);
            let modern = !entry.era_said && rng.bool();
            let server = Server::new(entry.id, &ledger);
            server.minds(Chance::new(rng.u64(..), temper, modern));
            transports.insert(entry.id.to_owned(), Arc::clone(&server) as Arc<dyn Connect>);
            servers.insert(entry.id, server);
            ledger.tell(format!("{temper:?}, modern: {modern}: {entry:?}"));
        }
        let options = RegistryOptions { transports, record: Some(records), ..RegistryOptions::default() };
        let registry = Registry::new(&component(), plan.config(), options).expect("the component starts");
        let mut life = Life {
            rng,
            plan,
            ledger,
            moves,
            servers,
            registry: Some(registry),
            gates: Vec::new(),
            calls: JoinSet::new(),
            next: 0,
            changes: Vec::new(),
            renewed: Vec::new(),
            ended: Vec::new(),
        };
        (0..life.rng.usize(1..=3)).for_each(|_| life.open_gate());
        life
    }

    /// Who records its calls.
    pub fn recorder(&self) -> Arc<Recorder> {
        self.registry().recorder().expect("calls are recorded")
    }

    /// Lives it to its end; an error is a rule that was broken.
    pub async fn live(mut self) -> Result<BTreeMap<&'static str, usize>, Broken> {
        for _ in 0..self.rng.u32(10..=40) {
            self.act().await?;
            self.gather()?;
            let pause = self.pause();
            sleep(pause).await;
        }
        self.calm().await?;
        self.end().await?;
        self.look_back()
    }

    fn pause(&mut self) -> Duration {
        match self.rng.u32(0..100) {
            0..30 => Duration::ZERO,
            30..60 => self.millis(100),
            60..85 => self.millis(4_000),
            85..97 => self.millis(30_000),
            _ => self.millis(900_000),
        }
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(0..=most))
    }

    async fn act(&mut self) -> Result<(), Broken> {
        match self.rng.u32(0..100) {
            0..55 => self.call(),
            55..62 => (0..self.rng.u32(2..20)).for_each(|_| self.call()),
            62..70 => self.operate(),
            70..76 => self.reconfigure()?,
            76..80 => self.replace_gate(),
            80..84 => {
                let server = self.any_server();
                self.ledger.tell(format!("{} dies", server.id));
                server.kill();
            }
            84..88 => {
                let server = self.any_server();
                server.change_tools();
                self.ledger.tell(format!("{} has {}", server.id, server.extra()));
            }
            88..90 => self.change_mind(),
            90..93 => self.refresh(),
            _ => self.look()?,
        }
        Ok(())
    }

    fn registry(&self) -> &Arc<Registry> {
        self.registry.as_ref().expect("it was not dropped yet")
    }

    fn any_server(&mut self) -> Arc<Server> {
        let at = self.rng.usize(0..self.servers.len());
        Arc::clone(self.servers.values().nth(at).expect("there is one"))
    }

    fn any_gate(&mut self) -> Arc<Gate> {
        let at = self.rng.usize(0..self.gates.len());
        Arc::clone(&self.gates[at])
    }

    fn open_gate(&mut self) {
        let session = [None, Some("one"), Some("two")][self.rng.usize(0..3)].map(str::to_owned);
        let gate = Gate::open(self.registry(), GateView { session, ..GateView::default() }).expect("the gate opens");
        self.gates.push(Arc::new(gate));
    }

    fn call(&mut self) {
        // Sometimes one that is not there.
        let any: Vec<_> = match self.rng.u32(0..20) {
            0 => self.plan.servers.iter().map(|entry| entry.id).collect(),
            _ => self.plan.present().map(|entry| entry.id).collect(),
        };
        let Some(server) = self.rng.choice(any) else { return };
        let tool = match self.rng.u32(0..40) {
            0..12 => "read".to_owned(),
            12..20 => "set".to_owned(),
            20..36 => "act".to_owned(),
            36 => FORBIDDEN.to_owned(),
            _ => self.servers[server].extra(),
        };
        let seconds = |rng: &mut Rng| Duration::from_millis(rng.u64(1..30_000));
        let timeout = (self.rng.u32(0..4) == 0).then(|| seconds(&mut self.rng));
        let deadline = (self.rng.u32(0..4) == 0).then(|| seconds(&mut self.rng));
        let patience = match self.rng.u32(0..20) {
            0 => Patience::Drops(seconds(&mut self.rng)),
            1 => Patience::Cancels(seconds(&mut self.rng)),
            _ => Patience::Waits,
        };
        let gate = self.any_gate();
        self.ask(gate, server, tool, CallOptions { timeout, deadline, ..CallOptions::default() }, patience);
    }

    fn ask(&mut self, gate: Arc<Gate>, server: &'static str, tool: String, options: CallOptions, patience: Patience) {
        let marker = format!("m{}", self.next);
        self.next += 1;
        let entry = self.plan.entry(server);
        let asked = Asked {
            marker,
            server,
            tool,
            at: self.ledger.now(),
            limit: limit(entry, &options),
            queued: entry.queued,
            cancelled: matches!(patience, Patience::Cancels(_)),
        };
        let CallOptions { timeout, deadline, .. } = &options;
        let said = format!("{} calls {server}.{}: {timeout:?} {deadline:?} {patience:?}", asked.marker, asked.tool);
        self.ledger.tell(said);
        let ledger = Arc::clone(&self.ledger);
        self.calls.spawn(async move {
            let ended = calls::make(&gate, asked, &options, patience, &ledger).await;
            ledger.tell(format_args!("{ended:?}"));
            ended
        });
    }

    /// A server gets better or worse.
    fn change_mind(&mut self) {
        let (server, temper) = (self.any_server(), temper(&mut self.rng));
        self.ledger.tell(format_args!("{} is {temper:?}", server.id));
        let modern = !self.plan.entry(&server.id).era_said && self.rng.bool();
        server.minds(Chance::new(self.rng.u64(..), temper, modern));
    }

    /// An operator does something to a server.
    fn operate(&mut self) {
        let (server, deed) = (self.any_server(), self.rng.u32(0..4));
        self.ledger.tell(format!("{}: {}", server.id, ["enable", "enable", "disable", "reconnect"][deed as usize]));
        let registry = self.registry();
        match deed {
            0 | 1 => registry.enable(&server.id),
            2 => registry.disable(&server.id),
            _ => registry.reconnect(&server.id),
        };
    }

    /// All servers of an id that gates use: one for all, for each, or for those of one session.
    fn links(&self, id: &str) -> Vec<Arc<Link>> {
        let mut links: Vec<Arc<Link>> = Vec::new();
        for link in self.gates.iter().filter_map(|gate| gate.link(id)) {
            if !links.iter().any(|known| Arc::ptr_eq(known, &link)) {
                links.push(link);
            }
        }
        links
    }

    fn reconfigure(&mut self) -> Result<(), Broken> {
        let (plan, expected) = self.plan.change(&mut self.rng);
        let changes = self.registry().set_servers(plan.config()).expect("the component answers");
        self.ledger.tell(format!("configured anew: {changes:?}"));
        ensure(changes == expected, || format!("{expected:?} was changed, and the host found {changes:?}"))?;
        for entry in &plan.servers {
            if entry.present != self.plan.entry(entry.id).present {
                self.changes.push((self.ledger.now(), entry.id));
            }
            if !changes.unchanged.iter().any(|id| id == entry.id) {
                self.renewed.push(entry.id);
            }
        }
        self.plan = plan;
        Ok(())
    }

    fn replace_gate(&mut self) {
        let at = self.rng.usize(0..self.gates.len());
        let gate = self.gates.swap_remove(at);
        self.open_gate();
        let how = match self.rng.u32(0..3) {
            0 => CloseMode::Cancel,
            1 => CloseMode::Wait(self.millis(20_000)),
            // It goes with its last call.
            _ => return self.ledger.tell("a gate is dropped"),
        };
        self.ledger.tell(format!("a gate is closed: {how:?}"));
        self.let_all_be_cancelled();
        let most = if let CloseMode::Wait(most) = how { most } else { Duration::ZERO } + CLOSES;
        self.calls.spawn(async move {
            let closed = timeout(most, gate.close(how)).await;
            let closed = closed.map_err(|_| format!("a gate did not close within {most:?}"));
            let ensured = closed.and_then(|()| ensure(gate.running() == 0, || "a closed gate has calls".to_owned()));
            Ended::Deed(ensured)
        });
    }

    /// Whoever closes a gate cancels its calls; which these are is not kept.
    fn let_all_be_cancelled(&mut self) {
        self.changes.push((self.ledger.now(), ALL));
    }

    fn refresh(&mut self) {
        let gate = self.any_gate();
        let most = if self.plan.one_start { 6 * REFRESHES } else { REFRESHES };
        self.calls.spawn(async move {
            let refreshed = timeout(most, gate.refresh()).await;
            Ended::Deed(refreshed.map(drop).map_err(|_| "a gate was not refreshed in time".to_owned()))
        });
    }

    fn look(&mut self) -> Result<(), Broken> {
        self.registry().readiness();
        self.registry().statuses().iter().try_for_each(rules::status)?;
        let apart = ["own", "kept"].into_iter().flat_map(|id| self.links(id));
        apart.map(|link| link.status()).try_for_each(|status| rules::status(&status))
    }

    /// Takes in the calls that are over.
    fn gather(&mut self) -> Result<(), Broken> {
        while let Some(ended) = self.calls.try_join_next() {
            self.take(ended)?;
        }
        Ok(())
    }

    fn take(&mut self, ended: Result<Ended, tokio::task::JoinError>) -> Result<(), Broken> {
        let ended = ended.map_err(|panicked| format!("a call broke off: {panicked}"))?;
        self.ended.push(ended);
        Ok(())
    }
}

fn temper(rng: &mut Rng) -> Temper {
    [Temper::Steady, Temper::Steady, Temper::Shaky, Temper::Shaky, Temper::Down][rng.usize(0..5)]
}

/// Stands for all servers.
const ALL: &str = "*";
/// How long closing may take: as long as the slowest connection takes to end.
const CLOSES: Duration = Duration::from_secs(10);
/// How long all servers together may take to come up and to list their tools.
const REFRESHES: Duration = Duration::from_secs(61 + 30);
