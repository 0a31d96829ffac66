//! What the replicas of a gateway share: counts, what agents have seen, and sessions; in the memory of this process, or
//! in Redis.

mod local;
mod rates;
#[cfg(feature = "gateway")]
mod redis;
#[cfg(all(test, feature = "gateway"))]
mod tests;
mod timed_map;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use url::Url;

pub(crate) use rates::RateBuckets;
pub use rates::RateLimit;

use crate::agent::{AgentKey, CountMode, RememberedAgent};
use crate::logic::types::rules::{AgentContext, CallCount, CallLimit};
pub(crate) use local::LocalStore;

/// What the replicas of a gateway share: in the memory of this process, or in Redis.
#[derive(Clone)]
pub struct Store(Arc<StoreState>);

struct StoreState {
    replica: String,
    /// The store itself, or what this replica knows alone.
    local: LocalStore,
    #[cfg(feature = "gateway")]
    shared: Option<redis::RedisStore>,
}

/// What callers hear if the store cannot be reached. Where it is, and what is wrong, is for operators.
pub(crate) const UNREACHABLE: &str = "the store of counts and contexts cannot be reached; try again later";

/// A message for a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreMessage {
    /// Messages arrive from now on; some may have been missed before.
    Joined,
    /// What another replica sent.
    Text(String),
}

/// The reason why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached; the text says why.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// It answered with an error.
    #[error("the store refuses a command: {0}")]
    Refused(String),
    /// Its URL cannot be used; the text says why.
    #[error("the URL of the store cannot be used: {0}")]
    BadUrl(String),
}

/// Asks the shared store, if there is one, or else the local one.
macro_rules! ask {
    ($store:ident, $name:ident => $shared:expr, $local:expr) => {{
        #[cfg(feature = "gateway")]
        if let Some($name) = &$store.0.shared {
            return $shared.await;
        }
        Ok($local)
    }};
}

#[cfg_attr(not(feature = "gateway"), allow(unused_variables, reason = "only a shared store needs all arguments"))]
impl Store {
    /// Creates a store in the memory of this process.
    pub fn memory() -> Self {
        Store(Arc::new(StoreState {
            replica: draw_replica_name(),
            local: LocalStore::default(),
            #[cfg(feature = "gateway")]
            shared: None,
        }))
    }

    /// Creates a store in Redis for the replica with this name, which no other replica has. Returns at once; the store
    /// connects, and reconnects, in a task that it owns.
    ///
    /// Call it within a tokio runtime.
    #[cfg(feature = "gateway")]
    pub fn redis(url: &Url, replica: &str) -> Result<Self, StoreError> {
        let shared = Some(redis::RedisStore::new(url, replica)?);
        Ok(Store(Arc::new(StoreState { replica: replica.to_owned(), local: LocalStore::default(), shared })))
    }

    /// Returns the name of this replica.
    pub fn replica(&self) -> &str {
        &self.0.replica
    }

    /// Reports whether other replicas may use the store too.
    pub fn is_shared(&self) -> bool {
        #[cfg(feature = "gateway")]
        return self.0.shared.is_some();
        #[cfg(not(feature = "gateway"))]
        false
    }

    /// Returns why the store cannot be reached now; `None` if it can be.
    pub fn problem(&self) -> Option<String> {
        #[cfg(feature = "gateway")]
        return self.0.shared.as_ref()?.problem();
        #[cfg(not(feature = "gateway"))]
        None
    }

    /// Waits until the store was reached, or could not be, which takes a second at most.
    #[cfg(feature = "gateway")]
    pub async fn tried(&self) {
        if let Some(shared) = &self.0.shared {
            shared.tried().await;
        }
    }

    /// Returns what this replica knows alone: everything if the store is not shared, and else what its own calls taught
    /// and what it counted while the store could not be reached.
    pub(crate) fn local(&self) -> &LocalStore {
        &self.0.local
    }

    /// Counts a call of a principal for rules with these names and limits, in order, or only says what that would give.
    pub async fn count(
        &self,
        limits: &[(String, CallLimit)],
        principal: &str,
        mode: CountMode,
    ) -> Result<Vec<CallCount>, StoreError> {
        if limits.is_empty() {
            return Ok(Vec::new());
        }
        ask!(self, shared => shared.count(limits, principal, mode), self.local().count(limits, principal, mode))
    }

    /// Takes one request out of the bucket of a client, or returns how long to wait.
    pub async fn take_rate(&self, client: &str, rate: RateLimit) -> Result<Result<(), Duration>, StoreError> {
        ask!(self, shared => shared.take_rate(client, rate), self.local().take_rate(client, rate))
    }

    /// Uses up something that may be used once; returns whether this is the first time within `keep`.
    pub async fn spend(&self, id: &str, keep: Duration) -> Result<bool, StoreError> {
        ask!(self, shared => shared.spend(id, keep), self.local().spend(id, keep))
    }

    /// Returns what an agent has seen, with the values that it knows or without.
    pub(crate) async fn recall(
        &self,
        key: &AgentKey,
        with_known: bool,
        idle: Duration,
    ) -> Result<AgentContext, StoreError> {
        ask!(self, shared => shared.recall(key, with_known, idle), self.local().recall(key, with_known, idle))
    }

    /// Returns what an agent has seen without noting that it is not idle.
    pub(crate) async fn peek(
        &self,
        key: &AgentKey,
        with_known: bool,
        idle: Duration,
    ) -> Result<AgentContext, StoreError> {
        ask!(self, shared => shared.peek(key, with_known), self.local().peek(key, with_known, idle))
    }

    /// Adds what an agent has learned; the values that it used least recently are forgotten first.
    pub(crate) async fn learn(&self, key: &AgentKey, learned: &AgentContext, idle: Duration) -> Result<(), StoreError> {
        ask!(self, shared => shared.learn(key, None, learned, idle), self.local().learn(key, learned.clone()))
    }

    /// Adds what a result of a server taught, unless the agent wrote something there meanwhile: it may be its own words.
    pub(crate) async fn learn_from(
        &self,
        key: &AgentKey,
        server: &str,
        learned: &AgentContext,
        idle: Duration,
    ) -> Result<(), StoreError> {
        let from = Some(server);
        ask!(self, shared => shared.learn(key, from, learned, idle), {
            self.local().learn_from(key, server, learned.clone())
        })
    }

    /// Notes that an agent is not idle, unless it has been for so long that it is forgotten.
    pub(crate) async fn touch(&self, key: &AgentKey, idle: Duration) -> Result<(), StoreError> {
        ask!(self, shared => shared.touch(key, idle), self.local().touch(key, idle))
    }

    /// Notes that an agent is not idle until something of its has waited for this long, unless it is forgotten already.
    pub(crate) async fn hold(&self, key: &AgentKey, idle: Duration, wait: Duration) -> Result<(), StoreError> {
        let until = idle.saturating_add(wait);
        ask!(self, shared => shared.hold(key, until), self.local().hold(key, idle, wait))
    }

    /// Forgets what the agents of a principal have seen, or those of all; returns how many there were.
    pub async fn reset(&self, principal: Option<&str>) -> Result<usize, StoreError> {
        let forgotten = self.local().reset(principal);
        ask!(self, shared => shared.reset(principal), forgotten)
    }

    /// Lists the agents that have seen something, in the order of their names.
    pub async fn agents(&self, idle: Duration) -> Result<Vec<RememberedAgent>, StoreError> {
        ask!(self, shared => shared.agents(), self.local().agents(idle))
    }

    /// Returns the state of a session; `None` if none was kept, or if the session has ended.
    pub async fn session(&self, id: &str) -> Result<Option<String>, StoreError> {
        ask!(self, shared => shared.session(id), self.local().session(id))
    }

    /// Keeps the state of a session for a time, unless the session has ended.
    pub async fn keep_session(&self, id: &str, state: &str, keep: Duration) -> Result<(), StoreError> {
        ask!(self, shared => shared.keep_session(id, state, keep), self.local().keep_session(id, state, keep))
    }

    /// Forgets the state of a session, and remembers for a time that it has ended.
    pub async fn end_session(&self, id: &str, keep: Duration) -> Result<(), StoreError> {
        ask!(self, shared => shared.end_session(id, keep), self.local().end_session(id, keep))
    }

    /// Returns the sessions that have ended, with how long each must still be remembered.
    pub async fn ended_sessions(&self) -> Result<Vec<(String, Duration)>, StoreError> {
        ask!(self, shared => shared.ended_sessions(), self.local().ended_sessions())
    }

    /// Sends a message to one replica, or to all others with `None`; returns whether anybody received it.
    pub async fn send(&self, to: Option<&str>, message: &str) -> Result<bool, StoreError> {
        ask!(self, shared => shared.send(to, message), false)
    }

    /// Returns the messages for this replica. There is one receiver; another one is closed and gets none.
    pub fn messages(&self) -> mpsc::Receiver<StoreMessage> {
        #[cfg(feature = "gateway")]
        if let Some(shared) = &self.0.shared {
            return shared.messages();
        }
        self.local().messages()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("replica", &self.0.replica).field("is_shared", &self.is_shared()).finish()
    }
}

impl Default for Store {
    fn default() -> Self {
        Store::memory()
    }
}

/// Draws a name that no other replica has: 31 bits, as 8 hexadecimal digits.
pub fn draw_replica_name() -> String {
    format!("{:08x}", fastrand::u32(..1 << 31))
}
