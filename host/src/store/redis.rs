//! A store in Redis, or in a server that speaks its protocol.

mod address;
mod connection;
mod keys;
mod probe;
mod script;
mod subscription;

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{FromRedisValue, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

use super::epoch::{self, EpochWatch};
use super::local::LocalStore;
use super::{RateLimit, StoreError, StoreMessage};
use crate::agent::{AgentKey, CountMode, MOST_AGENTS, MOST_KNOWN, RememberedAgent, clock_ms};
use crate::lock::lock;
use crate::logic::types::rules::{AgentContext, CallCount, CallLimit, KnownValue};
use address::RedisAddress;
use connection::Connection;
use probe::Probe;
use subscription::Subscriber;

/// A store in Redis.
pub(super) struct RedisStore {
    replica: String,
    address: Arc<RedisAddress>,
    connection: Connection,
    /// Receives messages once somebody wants them.
    subscriber: Mutex<JoinSet<()>>,
    is_subscribed: Arc<AtomicBool>,
    /// When agents were last noted as active.
    touched: Mutex<HashMap<AgentKey, u64>>,
    probe: Arc<Probe>,
    /// How long agents may be idle, in milliseconds, as the last operation said.
    idle: AtomicU64,
}

impl RedisStore {
    /// Creates a store for a replica, which connects in a task. `local` is what the replica itself remembers.
    pub(super) fn new(url: &Url, replica: &str, local: Arc<LocalStore>) -> Result<Self, StoreError> {
        let address = Arc::new(RedisAddress::new(url)?);
        let probe = Arc::new(Probe::new(replica, local));
        Ok(RedisStore {
            replica: replica.to_owned(),
            connection: Connection::new(address.clone(), probe.clone()),
            address,
            subscriber: Mutex::default(),
            is_subscribed: Arc::default(),
            touched: Mutex::default(),
            probe,
            idle: AtomicU64::new(0),
        })
    }

    /// Returns which epoch of Redis this replica trusts.
    pub(super) fn epoch(&self) -> &EpochWatch {
        &self.probe.epoch
    }

    /// Returns how long agents may be idle, as the last operation said.
    pub(super) fn last_idle(&self) -> Duration {
        Duration::from_millis(self.idle.load(SeqCst))
    }

    /// Reports whether messages of other replicas arrive.
    pub(super) fn is_listening(&self) -> bool {
        self.is_subscribed.load(SeqCst)
    }

    pub(super) fn problem(&self) -> Option<String> {
        self.connection.problem()
    }

    pub(super) async fn tried(&self) {
        self.connection.tried().await;
    }

    pub(super) async fn count(
        &self,
        limits: &[(String, CallLimit)],
        principal: &str,
        mode: CountMode,
    ) -> Result<Vec<CallCount>, StoreError> {
        let keys: Vec<_> = limits.iter().map(|(rule, limit)| keys::limit(rule, *limit, principal)).collect();
        let mode: &[u8] = match mode {
            CountMode::Count => b"count",
            CountMode::Foresee => b"foresee",
        };
        let times = limits.iter().map(|(_, limit)| number(limit.per_ms.min(LONGEST_MS)));
        let args: Vec<_> = std::iter::once(mode.to_vec()).chain(times).collect();
        let counted: Vec<u64> = read(self.connection.run_script(&script::COUNT, &keys, &args).await?)?;
        let count = |pair: &[u64]| CallCount { calls: u32::try_from(pair[0]).unwrap_or(u32::MAX), ends_in_ms: pair[1] };
        Ok(counted.chunks_exact(2).map(count).collect())
    }

    pub(super) async fn take_rate(&self, client: &str, rate: RateLimit) -> Result<Result<(), Duration>, StoreError> {
        let micros = |time: Duration| number(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
        let args = [micros(rate.cost()), micros(rate.depth())];
        let wait: u64 = read(self.connection.run_script(&script::TAKE_RATE, &[keys::rate(client)], &args).await?)?;
        Ok(if wait == 0 { Ok(()) } else { Err(Duration::from_micros(wait)) })
    }

    /// Uses up something of the epoch with this mark.
    pub(super) async fn spend(&self, id: &str, mark: &str, keep: Duration) -> Result<bool, StoreError> {
        let keys = [keys::spent(id), keys::EPOCH.to_owned(), self.probe.writes_key()];
        let times = [millis(keep), LONGEST_MS, WRITES_KEPT_MS].map(number);
        let args: Vec<_> = std::iter::once(epoch::draw().into_bytes()).chain(times).collect();
        let answer = self.connection.run_script(&script::SPEND, &keys, &args).await?;
        let (is_first, epoch, writes): (bool, String, u64) = read(answer)?;
        self.probe.note_epoch(&epoch);
        self.probe.note_write(writes);
        Ok(is_first && epoch::mark(&epoch) == mark)
    }

    pub(super) async fn recall(
        &self,
        key: &AgentKey,
        with_known: bool,
        idle: Duration,
    ) -> Result<AgentContext, StoreError> {
        self.recall_raw(key, what_of(with_known), Some(idle)).await
    }

    pub(super) async fn peek(&self, key: &AgentKey, with_known: bool) -> Result<AgentContext, StoreError> {
        self.recall_raw(key, what_of(with_known), None).await
    }

    /// Notes that an agent is not idle. Redis keeps agents a little longer than they may be idle, so that it need not be
    /// told of every call.
    pub(super) async fn touch(&self, key: &AgentKey, idle: Duration) -> Result<(), StoreError> {
        let now = clock_ms();
        let is_fresh = lock(&self.touched).get(key).is_some_and(|at| now.saturating_sub(*at) < millis(idle) / SLACK);
        if !is_fresh {
            self.recall_raw(key, b"nothing", Some(idle)).await?;
        }
        Ok(())
    }

    /// Notes that an agent is not idle until this time is over, whatever else it does.
    pub(super) async fn hold(&self, key: &AgentKey, until: Duration) -> Result<(), StoreError> {
        self.recall_raw(key, b"nothing", Some(until)).await.map(drop)
    }

    /// Asks what an agent has seen, and notes that it is not idle if it says how long it may be.
    async fn recall_raw(
        &self,
        key: &AgentKey,
        what: &[u8],
        idle: Option<Duration>,
    ) -> Result<AgentContext, StoreError> {
        let (keys, agent) = keys_of(key, keys::EPOCH.to_owned());
        let drawn = epoch::draw().into_bytes();
        let args = [agent, idle.map(kept).unwrap_or_default(), what.to_vec(), drawn, number(LONGEST_MS)];
        let answer = self.connection.run_script(&script::RECALL, &keys, &args).await?;
        if let Some(idle) = idle {
            self.note_touched(key);
            self.idle.store(millis(idle), SeqCst);
        }
        let (labels, known, epoch): (Vec<String>, Vec<u8>, String) = read(answer)?;
        self.probe.note_epoch(&epoch);
        Ok(AgentContext { labels, known: unpack(&known) })
    }

    pub(super) async fn learn(
        &self,
        key: &AgentKey,
        server: Option<&str>,
        learned: &AgentContext,
        idle: Duration,
    ) -> Result<(), StoreError> {
        let (keys, agent) = keys_of(key, self.probe.writes_key());
        // What a whole principal has seen is never forgotten for room.
        let most_agents = if key.part().is_some() { MOST_AGENTS } else { 0 };
        let written = server.map(crate::agent::written_label).unwrap_or_default();
        let newest = &learned.known[learned.known.len().saturating_sub(MOST_KNOWN)..];
        let [most_agents, most_known] = [most_agents, MOST_KNOWN].map(|most| number(most as u64));
        let mut args = vec![agent, kept(idle), most_agents, most_known, written.into_bytes(), pack(newest)];
        args.push(number(WRITES_KEPT_MS));
        args.extend(learned.labels.iter().map(|label| label.clone().into_bytes()));
        let writes = read(self.connection.run_script(&script::LEARN, &keys, &args).await?)?;
        self.probe.note_write(writes);
        self.idle.store(millis(idle), SeqCst);
        self.note_touched(key);
        Ok(())
    }

    pub(super) async fn reset(&self, principal: Option<&str>) -> Result<usize, StoreError> {
        let principal = principal.map(keys::name).unwrap_or_default();
        let args = [keys::LABELS, keys::KNOWN, &principal].map(|arg| arg.as_bytes().to_vec());
        read(self.connection.run_script(&script::RESET_AGENTS, &indexes(), &args).await?)
    }

    /// Returns the names by which the store lists an agent: long and unusual ones are digests.
    pub(super) fn listed_names(&self, key: &AgentKey) -> (String, Option<String>) {
        (keys::name(key.principal()), key.part().map(keys::name))
    }

    pub(super) async fn agents(&self) -> Result<Vec<RememberedAgent>, StoreError> {
        let args = [keys::LABELS, keys::KNOWN].map(|arg| arg.as_bytes().to_vec());
        let listed = self.connection.run_script(&script::LIST_AGENTS, &indexes(), &args).await?;
        let listed: Vec<(String, Vec<String>, usize)> = read(listed)?;
        let agent = |(name, labels, known): (String, Vec<String>, usize)| {
            let (principal, part) = match name.split_once('/') {
                Some((principal, part)) => (principal.to_owned(), Some(part.to_owned())),
                None => (name, None),
            };
            RememberedAgent { principal, part, labels, known }
        };
        let mut listed: Vec<_> = listed.into_iter().map(agent).collect();
        listed.sort_by(|one, other| (&one.principal, &one.part).cmp(&(&other.principal, &other.part)));
        Ok(listed)
    }

    pub(super) async fn session(&self, id: &str) -> Result<Option<String>, StoreError> {
        read(self.connection.run(redis::cmd("GET").arg(keys::session(id))).await?)
    }

    pub(super) async fn keep_session(
        &self,
        id: &str,
        end_mark: &str,
        state: &str,
        keep: Duration,
    ) -> Result<(), StoreError> {
        let args = [end_mark.as_bytes().to_vec(), state.as_bytes().to_vec(), number(millis(keep))];
        self.connection.run_script(&script::KEEP_SESSION, &session_keys(id), &args).await.map(drop)
    }

    pub(super) async fn end_session(&self, id: &str, end_mark: &str, keep: Duration) -> Result<(), StoreError> {
        let args = [end_mark.as_bytes().to_vec(), number(millis(keep)), number(MOST_ENDED)];
        self.connection.run_script(&script::END_SESSION, &session_keys(id), &args).await.map(drop)
    }

    pub(super) async fn ended_sessions(&self) -> Result<Vec<(String, Duration)>, StoreError> {
        let keys = [keys::ENDED_SESSIONS.to_owned()];
        let ended: Vec<(Value, Value)> = read(self.connection.run_script(&script::ENDED_SESSIONS, &keys, &[]).await?)?;
        let mut sessions = Vec::new();
        for (mark, left) in ended {
            // What has another form is not ours, and says nothing about the others.
            if let (Ok(mark), Ok(left)) = (read(mark), read::<u64>(left)) {
                sessions.push((mark, Duration::from_millis(left.min(LONGEST_MS))));
            }
        }
        Ok(sessions)
    }

    pub(super) async fn send(&self, to: Option<&str>, message: &str) -> Result<bool, StoreError> {
        let mut command = redis::cmd("PUBLISH");
        command.arg(keys::channel(to)).arg(format!("{}\n{message}", self.replica));
        let received: u64 = read(self.connection.run(&command).await?)?;
        let own = u64::from(to.is_none() && self.is_subscribed.load(SeqCst));
        Ok(received > own)
    }

    pub(super) fn messages(&self) -> mpsc::Receiver<StoreMessage> {
        let (sender, receiver) = mpsc::channel(MOST_MESSAGES);
        let mut subscriber = lock(&self.subscriber);
        // One that has ended makes room for another.
        while subscriber.try_join_next().is_some() {}
        if subscriber.is_empty() {
            let task = Subscriber {
                address: self.address.clone(),
                replica: self.replica.clone(),
                is_subscribed: self.is_subscribed.clone(),
                sender,
                has_missed: true,
            };
            subscriber.spawn(task.run());
        }
        receiver
    }

    fn note_touched(&self, key: &AgentKey) {
        let mut touched = lock(&self.touched);
        if touched.len() >= MOST_AGENTS {
            touched.clear();
        }
        touched.insert(key.clone(), clock_ms());
    }
}

/// Returns the keys of an agent, followed by another one, and its name in its index.
fn keys_of(key: &AgentKey, last: String) -> ([String; 4], Vec<u8>) {
    let (index, agent) = keys::agent(key);
    let [labels, known] = [keys::LABELS, keys::KNOWN].map(|prefix| format!("{prefix}{agent}"));
    ([index.to_owned(), labels, known, last], agent.into_bytes())
}

fn indexes() -> [String; 2] {
    [keys::PRINCIPALS, keys::PARTS].map(str::to_owned)
}

fn session_keys(id: &str) -> [String; 2] {
    [keys::session(id), keys::ENDED_SESSIONS.to_owned()]
}

/// Returns how long to keep an agent that may be idle for so long.
fn kept(idle: Duration) -> Vec<u8> {
    let idle = millis(idle);
    number(idle + idle / SLACK)
}

/// Returns what the script that recalls an agent is asked for.
fn what_of(with_known: bool) -> &'static [u8] {
    if with_known { b"all" } else { b"labels" }
}

/// Writes known values as 16 bytes each.
fn pack(values: &[KnownValue]) -> Vec<u8> {
    values.iter().flat_map(|(one, other)| (u128::from(*one) << 64 | u128::from(*other)).to_be_bytes()).collect()
}

/// Reads known values of 16 bytes each.
fn unpack(bytes: &[u8]) -> Vec<KnownValue> {
    let (values, _) = bytes.as_chunks();
    let value = |bytes: &[u8; 16]| {
        let both = u128::from_be_bytes(*bytes);
        ((both >> 64) as u64, both as u64)
    };
    values.iter().map(value).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, LONGEST_MS)
}

fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|_| StoreError::Refused("its answer has an unexpected form".to_owned()))
}

/// For how long the number of a replica's writes is kept after the last one: a week.
const WRITES_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;
/// The part of an agent's idle time within which it is not noted as active again.
const SLACK: u64 = 16;
/// The longest time that anything is kept, in milliseconds: ten years.
const LONGEST_MS: u64 = 10 * 365 * 24 * 3600 * 1000;
/// The most sessions of which the end is remembered.
const MOST_ENDED: u64 = 1 << 16;
/// The most messages that wait for their receiver.
const MOST_MESSAGES: usize = 1024;
