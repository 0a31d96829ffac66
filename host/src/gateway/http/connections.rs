//! The owners of connections, so that no client keeps the others out.
//!
//! A new connection is unidentified. Its first request that identifies a client claims one of `max_connections` places.
//! Unidentified connections may use the free places and a few more; beyond that, each new one evicts another. So a
//! health probe, which never needs a place, always gets through. If all places are taken, the owner with the most
//! connections loses an idle or streaming one to an owner with fewer.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::task::AbortHandle;

use super::client_key::ClientKey;
use super::timer::ConnectionTimer;
use crate::gateway::load::{LoadLimiter, RefusalReason};
use crate::gateway::refusal::LimitReached;
use crate::lock::lock;

/// All connections of an HTTP server.
pub(super) struct ConnectionTable(Mutex<TableState>);

struct TableState {
    /// Counts the connections, and those that were refused or closed to make room.
    load: Arc<LoadLimiter>,
    /// The most connections with an owner.
    most: usize,
    /// There are several principals; a single one may have all connections.
    several: bool,
    /// The connections, oldest first.
    connections: BTreeMap<u64, Arc<TrackedConnection>>,
    next: u64,
    owned_by: HashMap<ClientKey, usize>,
    /// How many connections have an owner.
    owned: usize,
    /// How many connections are streaming.
    streaming: Arc<AtomicUsize>,
}

/// One connection in the table.
#[derive(Debug)]
pub(super) struct TrackedConnection {
    number: u64,
    peer: IpAddr,
    timer: Arc<ConnectionTimer>,
    /// The owner; `None` while the connection is unidentified.
    owner: Mutex<Option<ClientKey>>,
    /// The connection only streams events, which its client can request again.
    streaming: AtomicBool,
    /// The connection was closed to make room for another.
    evicted: AtomicBool,
    /// The task that serves the connection.
    task: OnceLock<AbortHandle>,
}

impl TrackedConnection {
    /// Sets the task that serves the connection, so that `evict` can abort it.
    pub(super) fn set_task(&self, task: AbortHandle) {
        let task = self.task.get_or_init(|| task);
        if self.evicted.load(SeqCst) {
            task.abort();
        }
    }

    fn evict(&self) {
        self.evicted.store(true, SeqCst);
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    fn is_unidentified(&self) -> bool {
        lock(&self.owner).is_none()
    }

    fn is_idle(&self) -> bool {
        self.timer.is_waiting()
    }

    fn is_streaming(&self) -> bool {
        self.streaming.load(Relaxed)
    }

    /// Marks the connection as streaming or not, and keeps the number of those up to date.
    fn set_streaming(&self, streaming: bool, count: &AtomicUsize) {
        match (self.streaming.swap(streaming, Relaxed), streaming) {
            (false, true) => count.fetch_add(1, Relaxed),
            (true, false) => count.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }
}

impl ConnectionTable {
    pub(super) fn new(load: Arc<LoadLimiter>, most: usize, several: bool) -> Arc<Self> {
        let (connections, next, owned_by, owned, streaming) = Default::default();
        let table = TableState { load, most, several, connections, next, owned_by, owned, streaming };
        Arc::new(ConnectionTable(Mutex::new(table)))
    }

    /// Sets the most connections, and whether several principals share them.
    pub(super) fn set(&self, most: usize, several: bool) {
        let mut table = lock(&self.0);
        (table.most, table.several) = (most, several);
    }

    /// Admits an unidentified connection, or returns `None` if there are too many and none can be evicted.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, timer: Arc<ConnectionTimer>) -> Option<ConnectionGuard> {
        let mut table = lock(&self.0);
        if table.connections.len() >= table.most.saturating_add(STRANGERS) {
            table.count_refusal();
            let stranger = table.pick_unidentified()?;
            table.evict(stranger);
        }
        let number = table.next;
        table.next += 1;
        let (owner, streaming, evicted, task) = Default::default();
        let connection = Arc::new(TrackedConnection { number, peer, timer, owner, streaming, evicted, task });
        table.connections.insert(number, connection.clone());
        table.load.connections.fetch_add(1, Relaxed);
        Some(ConnectionGuard { connections: self.clone(), connection })
    }

    /// Sets the owner of a connection, once a request has identified the client.
    pub(super) fn assign_owner(
        &self,
        connection: &Arc<TrackedConnection>,
        holder: ClientKey,
    ) -> Result<(), LimitReached> {
        if lock(&connection.owner).as_ref().is_some_and(|known| *known == holder) {
            return Ok(());
        }
        let mut table = lock(&self.0);
        // The connection may just have been evicted.
        let there = table.connections.contains_key(&connection.number);
        let place = match connection.is_unidentified() {
            true if there => table.make_room(&holder),
            false if there => Ok(()),
            _ => Err(LimitReached::All),
        };
        place.inspect_err(|_| table.count_refusal())?;
        connection.timer.mark_identified();
        table.add(&holder);
        let before = lock(&connection.owner).replace(holder);
        before.iter().for_each(|before| table.subtract(before));
        Ok(())
    }

    /// Marks a connection with an owner as streaming until the guard is dropped.
    pub(super) fn mark_streaming(&self, connection: &Arc<TrackedConnection>) -> Result<StreamingGuard, LimitReached> {
        let table = &mut *lock(&self.0);
        let streaming = TrackedConnection::is_streaming;
        if table.streaming.load(Relaxed) >= share(table.most) {
            let own = lock(&connection.owner).clone();
            let Some(victim) = table.pick_from_largest(own.as_ref(), streaming, streaming) else {
                table.count_refusal();
                return Err(LimitReached::All);
            };
            table.evict(victim);
        }
        connection.set_streaming(true, &table.streaming);
        Ok(StreamingGuard(connection.clone(), table.streaming.clone()))
    }
}

impl TableState {
    /// Makes room for one more connection of this owner.
    fn make_room(&mut self, holder: &ClientKey) -> Result<(), LimitReached> {
        let own = self.owned_by.get(holder).copied().unwrap_or(0);
        let bounded = self.several && own >= share(self.most);
        if !bounded && self.owned < self.most {
            return Ok(());
        }
        let has = |connection: &&Arc<TrackedConnection>| lock(&connection.owner).as_ref() == Some(holder);
        let held = |connection: &TrackedConnection| !connection.is_unidentified();
        let of_others = || {
            let larger = self.pick_from_largest(Some(holder), held, TrackedConnection::is_idle);
            larger.or_else(|| self.pick_from_largest(Some(holder), held, TrackedConnection::is_streaming))
        };
        let own_idle = || self.connections.values().filter(has).find(|connection| connection.is_idle()).cloned();
        let victim = if bounded { None } else { of_others() }.or_else(own_idle);
        self.evict(victim.ok_or(if bounded { LimitReached::Own } else { LimitReached::All })?);
        Ok(())
    }

    /// Picks the oldest connection of a `kind` from the owner with the most `counted` connections, if that owner has
    /// more than `own` would have with one more.
    fn pick_from_largest(
        &self,
        own: Option<&ClientKey>,
        counted: impl Fn(&TrackedConnection) -> bool,
        kind: impl Fn(&TrackedConnection) -> bool,
    ) -> Option<Arc<TrackedConnection>> {
        let counted = self.connections.values().filter(|connection| counted(connection));
        let counts = count(counted.filter_map(|connection| lock(&connection.owner).clone()));
        let own_count = own.and_then(|own| counts.get(own)).copied().unwrap_or(0);
        let (largest, most) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        if most <= own_count + 1 {
            return None;
        }
        let of_it = |connection: &&Arc<TrackedConnection>| lock(&connection.owner).as_ref() == Some(&largest);
        self.connections.values().filter(of_it).find(|connection| kind(connection)).cloned()
    }

    /// Picks the oldest unidentified connection of the address that has the most, preferring idle ones.
    fn pick_unidentified(&self) -> Option<Arc<TrackedConnection>> {
        let strangers = || self.connections.values().filter(|connection| connection.is_unidentified());
        let any_silent = strangers().any(|stranger| stranger.is_idle());
        let candidates = || strangers().filter(|stranger| stranger.is_idle() || !any_silent);
        let counts = count(candidates().map(|stranger| stranger.peer));
        let (address, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        candidates().find(|stranger| stranger.peer == address).cloned()
    }

    fn count_refusal(&self) {
        self.load.count_refusal(RefusalReason::Connections);
    }

    fn evict(&mut self, connection: Arc<TrackedConnection>) {
        self.remove(&connection);
        connection.evict();
    }

    fn remove(&mut self, connection: &TrackedConnection) {
        if self.connections.remove(&connection.number).is_some() {
            self.load.connections.fetch_sub(1, Relaxed);
            connection.set_streaming(false, &self.streaming);
            let holder = lock(&connection.owner).clone();
            holder.iter().for_each(|holder| self.subtract(holder));
        }
    }

    fn add(&mut self, holder: &ClientKey) {
        *self.owned_by.entry(holder.clone()).or_default() += 1;
        self.owned += 1;
    }

    fn subtract(&mut self, holder: &ClientKey) {
        if let Some(count) = self.owned_by.get_mut(holder) {
            *count -= 1;
            self.owned -= 1;
            if *count == 0 {
                self.owned_by.remove(holder);
            }
        }
    }
}

/// A guard that keeps a connection in the table until it is dropped.
pub(super) struct ConnectionGuard {
    connections: Arc<ConnectionTable>,
    pub(super) connection: Arc<TrackedConnection>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        lock(&self.connections.0).remove(&self.connection);
    }
}

/// A guard that marks a connection as streaming until it is dropped.
pub(super) struct StreamingGuard(Arc<TrackedConnection>, Arc<AtomicUsize>);

impl Drop for StreamingGuard {
    fn drop(&mut self) {
        self.0.set_streaming(false, &self.1);
    }
}

/// Returns three quarters of the limit: the share of one of several principals, and of all streaming connections.
fn share(most: usize) -> usize {
    most.saturating_sub((most / 4).max(1)).max(1)
}

fn count<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut counts = HashMap::new();
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    counts
}

/// How many unidentified connections are admitted beyond the limit.
const STRANGERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::client::Principal;
    use crate::gateway::limits::GatewayLimits;

    /// A connection table with its connections.
    struct Door {
        places: Arc<ConnectionTable>,
        guests: Vec<ConnectionGuard>,
    }

    impl Door {
        fn new(most: usize, several: bool) -> Self {
            let load = LoadLimiter::new(&GatewayLimits::default(), several);
            Door { places: ConnectionTable::new(load, most, several), guests: Vec::new() }
        }

        fn come(&mut self, address: u8) -> usize {
            let entered =
                self.places.admit([10, 0, 0, address].into(), ConnectionTimer::new(&GatewayLimits::default().timeouts));
            self.guests.push(entered.expect("there is room"));
            self.guests.len() - 1
        }

        fn settle(&self, guest: usize, name: &str) -> Result<(), LimitReached> {
            let holder = ClientKey::Principal(Arc::new(Principal { name: name.to_owned(), admin: false }));
            self.places.assign_owner(&self.guests[guest].connection, holder)
        }

        fn comes_as(&mut self, name: &str) -> Result<usize, LimitReached> {
            let guest = self.come(1);
            self.settle(guest, name).map(|()| guest)
        }

        fn len(&self) -> usize {
            lock(&self.places.0).load.stats().connections
        }

        fn shed(&self) -> u64 {
            lock(&self.places.0).load.stats().refused.of(RefusalReason::Connections)
        }

        fn is_there(&self, guest: usize) -> bool {
            lock(&self.places.0).connections.contains_key(&self.guests[guest].connection.number)
        }
    }

    #[test]
    fn the_oldest_stranger_of_the_address_that_has_most_goes_first() {
        let mut door = Door::new(2, true);
        let other = door.come(2);
        let first = door.come(1);
        for _ in 0..STRANGERS {
            door.come(1);
        }
        assert_eq!((door.is_there(other), door.is_there(first)), (true, true));
        let new = door.come(2);
        assert_eq!((door.is_there(other), door.is_there(first), door.is_there(new)), (true, false, true));
        assert_eq!((door.len(), door.shed()), (STRANGERS + 2, 1));
        // An identified connection stays, however many unidentified ones come.
        door.settle(other, "ann").unwrap();
        for _ in 0..3 * STRANGERS {
            door.come(3);
        }
        assert!(door.is_there(other));
        door.guests.clear();
        assert_eq!(door.len(), 0);
        let table = lock(&door.places.0);
        assert_eq!(table.owned_by.len(), 0);
    }

    #[test]
    fn one_of_several_principals_has_no_more_than_its_share_of_the_places() {
        let mut door = Door::new(8, true);
        let mut busy = Vec::new();
        for _ in 0..6 {
            let guest = door.comes_as("ann").unwrap();
            busy.push(door.guests[guest].connection.timer.start_request());
        }
        assert_eq!(door.comes_as("ann").unwrap_err(), LimitReached::Own);
        assert!(door.comes_as("bob").is_ok() && door.comes_as("cid").is_ok());
        assert_eq!(door.comes_as("bob").unwrap(), 9, "an idle one of bob's own makes room");
        drop(busy.remove(0));
        assert!(door.comes_as("dan").is_ok(), "an idle one of ann's makes room");
        assert!(!door.is_there(0) && door.is_there(1));
        let mut alone = Door::new(8, false);
        assert!((0..8).all(|_| alone.comes_as("ann").is_ok()), "who is alone has all");
    }

    #[test]
    fn news_leave_room_for_requests_and_for_the_news_of_others() {
        let mut door = Door::new(8, true);
        let (mut busy, mut telling) = (Vec::new(), Vec::new());
        let mut listen = |door: &mut Door, name: &str| {
            let guest = door.comes_as(name)?;
            let connection = door.guests[guest].connection.clone();
            busy.push(connection.timer.start_request());
            door.places.mark_streaming(&connection).map(|news| {
                telling.push(news);
                guest
            })
        };
        for _ in 0..6 {
            listen(&mut door, "ann").unwrap();
        }
        assert!(listen(&mut door, "ann").is_err());
        assert!(listen(&mut door, "bob").is_ok());
        assert!(!door.is_there(0) && door.is_there(1), "the oldest of who has most makes room");
        assert!(door.comes_as("cid").is_ok());
        assert!(listen(&mut door, "dan").is_ok());
        assert!(!door.is_there(1) && door.is_there(2));
    }
}
