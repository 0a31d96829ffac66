//! A store in the memory of this process.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::timed_map::TimedMap;
use super::{RateBuckets, RateLimit, StoreMessage};
use crate::agent::{AgentKey, AgentMemory, CountMode, LimitCounts, RememberedAgent, clock_ms};
use crate::lock::lock;
use crate::logic::types::rules::{AgentContext, CallCount, CallLimit};

/// A store in the memory of this process.
#[derive(Default)]
pub(crate) struct LocalStore {
    counts: LimitCounts,
    rates: RateBuckets<String>,
    /// What was used up.
    spent: Mutex<TimedMap<()>>,
    agents: AgentMemory,
    /// How often agents were made to be forgotten.
    resets: AtomicU64,
    /// The state of each session; `None` if it has ended.
    sessions: Mutex<TimedMap<Option<String>>>,
    /// Keeps the receiver of messages open, although none comes.
    sender: Mutex<Option<mpsc::Sender<StoreMessage>>>,
}

impl LocalStore {
    pub(crate) fn count(&self, limits: &[(String, CallLimit)], principal: &str, mode: CountMode) -> Vec<CallCount> {
        let now = clock_ms();
        let count = match mode {
            CountMode::Count => LimitCounts::count,
            CountMode::Foresee => LimitCounts::foresee,
        };
        limits.iter().map(|(rule, limit)| count(&self.counts, rule, *limit, principal, now)).collect()
    }

    pub(crate) fn take_rate(&self, client: &str, rate: RateLimit) -> Result<(), Duration> {
        self.rates.take(client.to_owned(), rate, Instant::now())
    }

    pub(crate) fn spend(&self, id: &str, keep: Duration) -> bool {
        let (mut spent, now) = (lock(&self.spent), Instant::now());
        // Without room nothing can be remembered, so nothing is used.
        let is_first = spent.get(id, now).is_none() && !spent.is_full(now);
        if is_first {
            spent.insert(id, (), now + keep, now);
        }
        is_first
    }

    pub(crate) fn recall(&self, key: &AgentKey, with_known: bool, idle: Duration) -> AgentContext {
        self.agents.recall(key, with_known, clock_ms(), idle)
    }

    pub(crate) fn peek(&self, key: &AgentKey, with_known: bool, idle: Duration) -> AgentContext {
        self.agents.peek(key, with_known, clock_ms(), idle)
    }

    pub(crate) fn learn(&self, key: &AgentKey, learned: AgentContext) {
        self.agents.learn(key, learned, clock_ms());
    }

    pub(crate) fn learn_from(&self, key: &AgentKey, server: &str, learned: AgentContext) {
        self.agents.learn_from(key, server, learned, clock_ms());
    }

    pub(crate) fn has_written_since(&self, key: &AgentKey, server: &str, writes: u64) -> bool {
        self.agents.has_written_since(key, server, writes)
    }

    pub(crate) fn touch(&self, key: &AgentKey, idle: Duration) {
        self.agents.touch(key, clock_ms(), idle);
    }

    pub(crate) fn hold(&self, key: &AgentKey, idle: Duration, wait: Duration) {
        self.agents.hold(key, clock_ms(), idle, wait);
    }

    pub(crate) fn agents(&self, idle: Duration) -> Vec<RememberedAgent> {
        self.agents.agents(clock_ms(), idle)
    }

    /// Returns the agents that have seen something.
    pub(crate) fn remembered(&self) -> Vec<AgentKey> {
        self.agents.keys()
    }

    /// Reports whether an agent has seen something and was not idle for too long.
    pub(crate) fn remembers(&self, key: &AgentKey, idle: Duration) -> bool {
        self.agents.remembers(key, clock_ms(), idle)
    }

    /// Returns how often agents were made to be forgotten.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load(SeqCst)
    }

    pub(crate) fn reset(&self, principal: Option<&str>) -> usize {
        self.resets.fetch_add(1, SeqCst);
        self.agents.reset(principal)
    }

    pub(crate) fn session(&self, id: &str) -> Option<String> {
        lock(&self.sessions).get(id, Instant::now())?.clone()
    }

    pub(crate) fn keep_session(&self, id: &str, state: &str, keep: Duration) {
        let (mut sessions, now) = (lock(&self.sessions), Instant::now());
        if sessions.get(id, now) != Some(&None) {
            sessions.insert(id, Some(state.to_owned()), now + keep, now);
        }
    }

    pub(crate) fn end_session(&self, id: &str, keep: Duration) {
        let now = Instant::now();
        lock(&self.sessions).insert(id, None, now + keep, now);
    }

    pub(crate) fn ended_sessions(&self) -> Vec<(String, Duration)> {
        let (sessions, now) = (lock(&self.sessions), Instant::now());
        let ended = sessions.iter(now).filter(|(_, state, _)| state.is_none());
        ended.map(|(id, _, until)| (id.to_owned(), until - now)).collect()
    }

    pub(crate) fn messages(&self) -> mpsc::Receiver<StoreMessage> {
        let (sender, receiver) = mpsc::channel(1);
        let mut kept = lock(&self.sender);
        // A second receiver is closed at once.
        if kept.as_ref().is_none_or(mpsc::Sender::is_closed) {
            *kept = Some(sender);
        }
        receiver
    }
}
