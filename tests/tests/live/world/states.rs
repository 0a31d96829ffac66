//! Checks every state change of every server, as the host reports it, against the allowed ones.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default, set_global_default};
use tracing::{Event, Metadata, Subscriber};

use super::server::lock;

/// One move of a server.
#[derive(Clone, Debug, Default)]
pub struct Move {
    /// When.
    pub at: Duration,
    /// Which server; gates that do not share one have servers of the same id.
    pub server: String,
    /// Where it stood.
    pub from: String,
    /// Where it stands now.
    pub to: String,
}

/// All moves of a world.
#[derive(Clone, Default)]
pub struct Moves(Arc<Mutex<Vec<Move>>>);

impl Moves {
    /// Hears of each move on this thread, for as long as the guard lives.
    pub fn watch(&self) -> DefaultGuard {
        // With only one subscriber in the process, the thread that comes to a line first would decide for all whether
        // anybody listens to it.
        let _ = set_global_default(NoSubscriber::new());
        set_default(Watcher { moves: self.clone(), origin: Instant::now(), spans: Mutex::default() })
    }

    /// All moves so far.
    pub fn all(&self) -> Vec<Move> {
        lock(&self.0).clone()
    }

    /// The moves of the servers of this id.
    pub fn of(&self, server: &str) -> Vec<Move> {
        lock(&self.0).iter().filter(|step| step.server == server).cloned().collect()
    }
}

/// Whether a server may go this way (DESIGN.md §4.5).
pub fn is_legal(from: &str, to: &str) -> bool {
    match from {
        "Disabled" => matches!(to, "Dormant" | "Connecting"),
        _ if to == "Disabled" => true,
        "Dormant" => to == "Connecting",
        "Connecting" | "Restarting" => matches!(to, "Ready" | "Failed" | "NeedsAuth" | "Dormant"),
        "Ready" => matches!(to, "Degraded" | "Restarting" | "Dormant"),
        "Degraded" => matches!(to, "Ready" | "Restarting" | "Dormant"),
        "Failed" => matches!(to, "Ready" | "NeedsAuth" | "Dormant"),
        // Only an authorization leads on, and nobody gives one here.
        _ => false,
    }
}

/// Listens to the one line of the log that tells of moves, and to the spans that say whose they are.
struct Watcher {
    moves: Moves,
    origin: Instant,
    spans: Mutex<Spans>,
}

/// The servers of all spans, by their ids less one, and the spans that are entered.
#[derive(Default)]
struct Spans {
    servers: Vec<String>,
    entered: Vec<u64>,
}

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let has = |name| metadata.fields().field(name).is_some();
        if metadata.is_span() { metadata.name() == "server" } else { has("from") && has("to") }
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut step = Move { at: self.origin.elapsed(), ..Move::default() };
        event.record(&mut step);
        let spans = lock(&self.spans);
        let entered = spans.entered.last().expect("moves are told in the span of their server");
        step.server.clone_from(&spans.servers[*entered as usize - 1]);
        lock(&self.moves.0).push(step);
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut of = Move::default();
        span.record(&mut of);
        let mut spans = lock(&self.spans);
        spans.servers.push(of.server);
        Id::from_u64(spans.servers.len() as u64)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, span: &Id) {
        lock(&self.spans).entered.push(span.into_u64());
    }

    fn exit(&self, _span: &Id) {
        lock(&self.spans).entered.pop();
    }
}

impl Visit for Move {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "server" {
            self.server = value.to_owned();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = || format!("{value:?}").rsplit(':').next().unwrap_or_default().to_owned();
        match field.name() {
            "from" => self.from = name(),
            "to" => self.to = name(),
            _ => {}
        }
    }
}
