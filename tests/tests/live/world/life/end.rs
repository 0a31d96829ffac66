//! The end of a simulated run: all servers recover, everything is closed, and the rules are checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolgate::gate::{CallOptions, CloseMode, Gate};
use toolgate::logic::types::execution::Code;
use toolgate::logic::types::lifecycle::State;

use super::super::chance::{Chance, Temper};
use super::super::rules::{self, Asked, Broken, ensure};
use super::super::server::Server;
use super::calls::{Ended, name, tool_call};
use super::{ALL, CLOSES, Life};

impl Life {
    /// All servers are well again: who waits is served, and so is who comes.
    pub(super) async fn calm(&mut self) -> Result<(), Broken> {
        self.ledger.tell("all is well");
        self.servers.values().for_each(|server| server.recover());
        sleep(Duration::from_secs(1)).await;
        let present: Vec<_> = self.plan.present().map(|entry| entry.id).collect();
        for link in present.iter().flat_map(|id| self.links(id)) {
            match link.status().state {
                State::Disabled => self.registry().enable(link.id()),
                State::NeedsAuth => self.registry().reconnect(link.id()),
                _ => continue,
            };
        }
        let mut waiting = JoinSet::new();
        for (gate, id) in self.gates.iter().flat_map(|gate| present.iter().map(move |id| (gate, *id))) {
            let factor = if self.plan.one_start { 4 } else { 1 } * if self.plan.entry(id).queued { 4 } else { 1 };
            waiting.spawn(serve(Arc::clone(gate), Arc::clone(&self.servers[id]), factor * RECOVERS));
        }
        while let Some(served) = waiting.join_next().await {
            served.map_err(|panicked| format!("a call broke off: {panicked}"))??;
        }
        self.ledger.tell("all are served");
        Ok(())
    }

    /// All is closed or dropped, sometimes while calls are under way.
    pub(super) async fn end(&mut self) -> Result<(), Broken> {
        if self.rng.bool() {
            self.all_calls().await?;
            self.look()?;
        } else {
            self.fall_ill();
            (0..self.rng.u32(1..8)).for_each(|_| self.call());
            let pause = self.pause();
            sleep(pause).await;
        }
        match self.rng.u32(0..4) {
            0 => {
                self.ledger.tell("the registry is dropped");
                self.all_calls().await?;
                self.gates.clear();
                self.registry = None;
            }
            1 => {
                self.let_all_be_cancelled();
                self.close_gates().await?;
                self.close_registry().await?;
            }
            2 => self.close_registry().await?,
            _ => {
                self.close_registry().await?;
                self.close_gates().await?;
            }
        }
        // What was stopped goes when it is polled next.
        sleep(Duration::from_millis(1)).await;
        let standing = self.ledger.standing();
        ensure(standing.is_empty(), || format!("this is the end, and these stand: {standing:?}"))?;
        // Far away, work may go on.
        sleep(Duration::from_secs(600)).await;
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        ensure(alive == 0, || format!("this is the end, and {alive} tasks are left"))?;
        let standing = self.ledger.standing();
        ensure(standing.is_empty(), || format!("this was the end, and these came to stand: {standing:?}"))
    }

    /// Servers that were well are so no longer.
    fn fall_ill(&mut self) {
        for server in self.servers.values() {
            let temper = if self.rng.bool() { Temper::Steady } else { Temper::Shaky };
            server.fall_ill(Chance::new(self.rng.u64(..), temper, false));
        }
    }

    async fn close_registry(&mut self) -> Result<(), Broken> {
        self.ledger.tell("the registry is closed");
        let closed = timeout(CLOSES, self.registry().close()).await;
        closed.map_err(|_| "the registry did not close in time".to_owned())?;
        self.all_calls().await
    }

    async fn close_gates(&self) -> Result<(), Broken> {
        for gate in &self.gates {
            let closed = timeout(CLOSES, gate.close(CloseMode::Cancel)).await;
            closed.map_err(|_| "a gate did not close in time".to_owned())?;
        }
        Ok(())
    }

    /// Waits until all calls have ended, and nobody uses anything any more.
    async fn all_calls(&mut self) -> Result<(), Broken> {
        while let Some(ended) = self.calls.join_next().await {
            self.take(ended)?;
        }
        for link in self.plan.present().flat_map(|entry| self.links(entry.id)) {
            rules::at_rest(&link.status())?;
        }
        let busy = self.registry().queues().into_iter().find(|queue| queue.running + queue.waiting > 0);
        ensure(busy.is_none(), || format!("a queue is not empty: {busy:?}"))
    }

    /// Holds what happened against the rules, and says how calls ended.
    pub(super) fn look_back(&self) -> Result<BTreeMap<&'static str, usize>, Broken> {
        let mut counts = BTreeMap::new();
        for ended in &self.ended {
            let (asked, how) = match ended {
                Ended::Told(asked, told) => (asked, name(told.code)),
                Ended::Left(asked, how) => (asked, *how),
                Ended::Deed(done) => {
                    done.clone()?;
                    continue;
                }
            };
            let seen = self.ledger.seen(&asked.marker);
            rules::runs(asked, &seen)?;
            if let Ended::Told(_, told) = ended {
                let mut changes = self.changes.iter().filter(|(at, _)| (asked.at..=told.at).contains(at));
                let cancelled = asked.cancelled || changes.clone().any(|(_, id)| *id == ALL);
                let stayed = self.was_present(asked) && !changes.any(|(_, id)| *id == asked.server);
                rules::told(&Asked { cancelled, ..asked.clone() }, told, &seen, stayed)?;
            }
            *counts.entry(how).or_default() += 1;
        }
        let one = self.plan.servers.iter().filter(|entry| entry.shared && !self.renewed.contains(&entry.id));
        let one: Vec<_> = one.collect();
        let ids: Vec<_> = one.iter().map(|entry| entry.id).collect();
        rules::moves(&self.moves, &ids)?;
        for entry in one {
            let crowd = self.ledger.crowd(entry.id);
            ensure(crowd <= 1, || format!("{} had {crowd} connections at a time", entry.id))?;
            if entry.era_said {
                rules::delays(entry.id, &self.ledger, &self.moves, !self.plan.one_start)?;
            }
        }
        Ok(counts)
    }

    /// Whether the server was configured when it was asked for.
    fn was_present(&self, asked: &Asked) -> bool {
        let later = self.changes.iter().filter(|(at, id)| *id == asked.server && *at > asked.at).count();
        self.plan.entry(asked.server).present ^ (later % 2 == 1)
    }
}

/// Calls a server that is well until it serves, and then what it has now.
async fn serve(gate: Arc<Gate>, server: Arc<Server>, most: Duration) -> Result<(), Broken> {
    let mut last = String::new();
    let served = timeout(most, async {
        let mut tools = [("read".to_owned(), false), (server.extra(), true)].into_iter();
        let mut next = tools.next();
        while let Some((tool, is_new)) = &next {
            if *is_new {
                gate.refresh().await;
            }
            let call = tool_call(&format!("{}.{tool}", server.id), "calm");
            let called = gate.call(call, &CallOptions::default()).await.expect("the component answers");
            if called.result.code == Code::Ok {
                next = tools.next();
                continue;
            }
            last = format!("{:?}: {}", called.result.code, called.result.text);
            sleep(Duration::from_secs(2)).await;
        }
    });
    let served = served.await;
    served.map_err(|_| format!("{} is well, and yet no call succeeds within {most:?}: {last}", server.id))
}

/// How long a server that is well again may take until it serves: the longest pause, and an attempt that began before.
const RECOVERS: Duration = Duration::from_secs(150);
