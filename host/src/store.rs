//! What the replicas of a gateway share: counts, what agents have seen, and sessions; in the memory of this process, or
//! in Redis.

#[cfg(feature = "gateway")]
mod epoch;
mod local;
mod rates;
#[cfg(feature = "gateway")]
mod redis;
#[cfg(feature = "gateway")]
mod remembered;
#[cfg(all(test, feature = "gateway"))]
mod tests;
mod timed_map;

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "gateway")]
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::mpsc;
#[cfg(feature = "gateway")]
use tokio::task::JoinSet;
use url::Url;

pub(crate) use rates::RateBuckets;
pub use rates::RateLimit;

use crate::agent::{AgentKey, CountMode, RememberedAgent};
#[cfg(feature = "gateway")]
use crate::lock::lock;
use crate::logic::types::rules::{AgentContext, CallCount, CallLimit};
pub(crate) use local::LocalStore;

/// What the replicas of a gateway share: in the memory of this process, or in Redis.
#[derive(Clone)]
pub struct Store(Arc<StoreState>);

struct StoreState {
    replica: String,
    /// The store itself, or what this replica knows alone.
    local: Arc<LocalStore>,
    #[cfg(feature = "gateway")]
    shared: Option<redis::RedisStore>,
    /// Writes what this replica remembers into a store that has lost it; it ends with this value.
    #[cfg(feature = "gateway")]
    restorer: Mutex<JoinSet<()>>,
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
            local: Arc::default(),
            #[cfg(feature = "gateway")]
            shared: None,
            #[cfg(feature = "gateway")]
            restorer: Mutex::default(),
        }))
    }

    /// Creates a store in Redis for the replica with this name, which no other replica has. Returns at once; the store
    /// connects, and reconnects, in a task that it owns.
    ///
    /// Call it within a tokio runtime.
    #[cfg(feature = "gateway")]
    pub fn redis(url: &Url, replica: &str) -> Result<Self, StoreError> {
        let local = Arc::new(LocalStore::default());
        let shared = redis::RedisStore::new(url, replica, local.clone())?;
        let losses = shared.epoch().losses();
        let (replica, restorer) = (replica.to_owned(), Mutex::default());
        let state = Arc::new(StoreState { replica, local, shared: Some(shared), restorer });
        lock(&state.restorer).spawn(remembered::restore_after_losses(Arc::downgrade(&state), losses));
        Ok(Store(state))
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

    /// Uses up something that may be used once and belongs to the epoch with this mark; returns whether this is the first
    /// time within `keep`, in that epoch.
    pub async fn spend(&self, id: &str, epoch: &str, keep: Duration) -> Result<bool, StoreError> {
        ask!(self, shared => shared.spend(id, epoch, keep), self.local().spend(id, keep))
    }

    /// Returns the mark of the store's epoch, which is another one once the store was emptied or replaced, or has lost
    /// writes; empty for a store that is not shared, or was never reached.
    pub fn epoch_mark(&self) -> String {
        #[cfg(feature = "gateway")]
        if let Some(epoch) = self.0.shared.as_ref().and_then(|shared| shared.epoch().current()) {
            return epoch::mark(&epoch);
        }
        String::new()
    }

    /// Reports whether the store has lost something, and no operator has accepted that yet.
    pub fn has_lost(&self) -> bool {
        #[cfg(feature = "gateway")]
        return self.0.shared.as_ref().is_some_and(|shared| shared.epoch().has_lost());
        #[cfg(not(feature = "gateway"))]
        false
    }

    /// Accepts the store as it is. Returns its epoch, for the other replicas, and whether it had lost something; `None` if
    /// there is no shared store, or it was never reached.
    #[cfg(feature = "gateway")]
    pub(crate) fn adopt(&self) -> Option<(String, bool)> {
        self.0.shared.as_ref()?.epoch().adopt()
    }

    /// Accepts an epoch of the store, because an operator did so at another replica.
    #[cfg(feature = "gateway")]
    pub(crate) fn accept_epoch(&self, epoch: &str) {
        if let Some(shared) = &self.0.shared {
            shared.epoch().accept(epoch);
        }
    }

    /// Reports whether messages of other replicas arrive; `None` if the store is not shared.
    pub fn is_listening(&self) -> Option<bool> {
        #[cfg(feature = "gateway")]
        return self.0.shared.as_ref().map(redis::RedisStore::is_listening);
        #[cfg(not(feature = "gateway"))]
        None
    }

    /// Returns what an agent has seen, with the values that it knows or without. Labels count if the store or this replica
    /// remembers them; values count if the store knows them, because they allow something.
    pub(crate) async fn recall(
        &self,
        key: &AgentKey,
        with_known: bool,
        idle: Duration,
    ) -> Result<AgentContext, StoreError> {
        #[cfg(feature = "gateway")]
        if let Some(shared) = &self.0.shared {
            let resets = self.local().resets();
            let mut seen = shared.recall(key, with_known, idle).await?;
            if let Some(settled) = shared.epoch().settles_at() {
                // The other replicas write what they remember into the store now.
                tokio::time::sleep_until(settled).await;
                seen = shared.recall(key, with_known, idle).await?;
            }
            let is_stranger = shared.epoch().is_stranger(key, self.local().remembers(key, idle));
            let own = self.local().recall(key, false, idle);
            let is_news = seen.labels.iter().any(|label| !own.labels.contains(label));
            // Otherwise an operator made it forget what the store still knew when it was asked.
            if is_news && self.local().resets() == resets {
                self.local().learn(key, AgentContext { labels: seen.labels.clone(), known: Vec::new() });
            }
            return Ok(remembered::unite(seen, own, is_stranger));
        }
        Ok(self.local().recall(key, with_known, idle))
    }

    /// Returns what an agent has seen without noting that it is not idle.
    pub(crate) async fn peek(
        &self,
        key: &AgentKey,
        with_known: bool,
        idle: Duration,
    ) -> Result<AgentContext, StoreError> {
        #[cfg(feature = "gateway")]
        if let Some(shared) = &self.0.shared {
            let seen = shared.peek(key, with_known).await?;
            let is_stranger = shared.epoch().is_stranger(key, self.local().remembers(key, idle));
            return Ok(remembered::unite(seen, self.local().peek(key, false, idle), is_stranger));
        }
        Ok(self.local().peek(key, with_known, idle))
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

    /// Forgets what this replica remembers of the agents of a principal, or of all, because an operator said so at another
    /// replica.
    pub(crate) fn forget_here(&self, principal: Option<&str>) {
        self.local().reset(principal);
    }

    /// Forgets what the agents of a principal have seen, or those of all; returns how many there were. Other replicas must
    /// be told to forget what they remember themselves.
    pub async fn reset(&self, principal: Option<&str>) -> Result<usize, StoreError> {
        let forgotten = self.local().reset(principal);
        ask!(self, shared => shared.reset(principal), forgotten)
    }

    /// Lists the agents that have seen something, in the order of their names.
    pub async fn agents(&self, idle: Duration) -> Result<Vec<RememberedAgent>, StoreError> {
        #[cfg(feature = "gateway")]
        if let Some(shared) = &self.0.shared {
            let mut listed = shared.agents().await?;
            for key in self.local().remembered() {
                let own = self.local().peek(&key, false, idle);
                remembered::add_own_labels(&mut listed, shared.listed_names(&key), own.labels);
            }
            listed.sort_by(|one, other| (&one.principal, &one.part).cmp(&(&other.principal, &other.part)));
            return Ok(listed);
        }
        Ok(self.local().agents(idle))
    }

    /// Returns the state of a session; `None` if none was kept, or if the session has ended.
    pub async fn session(&self, id: &str) -> Result<Option<String>, StoreError> {
        ask!(self, shared => shared.session(id), self.local().session(id))
    }

    /// Keeps the state of a session for a time, unless the session has ended with this mark.
    pub async fn keep_session(&self, id: &str, end_mark: &str, state: &str, keep: Duration) -> Result<(), StoreError> {
        ask!(self, shared => shared.keep_session(id, end_mark, state, keep), self.local().keep_session(id, state, keep))
    }

    /// Forgets the state of a session, and remembers the mark of its end for a time.
    pub async fn end_session(&self, id: &str, end_mark: &str, keep: Duration) -> Result<(), StoreError> {
        ask!(self, shared => shared.end_session(id, end_mark, keep), self.local().end_session(id, keep))
    }

    /// Returns the marks of the sessions that have ended, with how long each must still be remembered.
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
