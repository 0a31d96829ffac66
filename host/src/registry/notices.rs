//! What a registry announces: changed lists and states, and events of servers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::{broadcast, watch};

use super::LinkEvent;
use crate::session::{LogLevel, ServerEvent};

/// The announcements of a registry.
pub(super) struct Notices {
    /// Counts changes of tool lists.
    tools: watch::Sender<u64>,
    /// Counts how often servers announced that their tools changed.
    announced_tools: AtomicU64,
    /// Counts changes of servers' states.
    states: watch::Sender<u64>,
    /// Sends events of servers to all who listen.
    pub(super) events: broadcast::Sender<LinkEvent>,
    /// The lowest log level that each listener wants.
    levels: Mutex<HashMap<u64, LogLevel>>,
}

impl Default for Notices {
    fn default() -> Self {
        Notices {
            tools: watch::Sender::default(),
            announced_tools: AtomicU64::new(0),
            states: watch::Sender::default(),
            events: broadcast::Sender::new(MOST_LAGGING),
            levels: Mutex::default(),
        }
    }
}

impl Notices {
    /// Sets the log level that a listener wants, or removes it.
    pub(super) fn want_level(&self, who: u64, level: Option<LogLevel>) {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        match level {
            Some(level) => levels.insert(who, level),
            None => levels.remove(&who),
        };
    }

    /// Returns the lowest log level that anybody wants.
    pub(super) fn wanted_level(&self) -> Option<LogLevel> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner).values().min().copied()
    }

    /// Announces that the tools of some server changed.
    pub(super) fn tools_changed(&self) {
        self.tools.send_modify(|count| *count += 1);
    }

    /// Notes that a server announced other tools, which it has yet to list.
    pub(super) fn tools_announced(&self) {
        self.announced_tools.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how often servers announced other tools.
    pub(super) fn announced_tools(&self) -> u64 {
        self.announced_tools.load(Ordering::SeqCst)
    }

    /// Returns a counter of tool list changes on all servers.
    pub(super) fn tools(&self) -> watch::Receiver<u64> {
        self.tools.subscribe()
    }

    /// Announces that prompts and resources of some server may have changed.
    pub(super) fn announce_list_changes(&self) {
        for event in [ServerEvent::PromptsChanged, ServerEvent::ResourcesChanged] {
            // An error only means that nobody listens.
            let _ = self.events.send(LinkEvent { link: None, event });
        }
    }

    /// Announces that a server's state changed.
    pub(super) fn state_changed(&self) {
        self.states.send_modify(|count| *count += 1);
    }

    /// Returns a counter of server state changes.
    pub(super) fn states(&self) -> watch::Receiver<u64> {
        self.states.subscribe()
    }

    /// Returns the number of tool list changes so far.
    pub(super) fn tools_count(&self) -> u64 {
        *self.tools.borrow()
    }
}

/// How many events a slow receiver may lag behind.
const MOST_LAGGING: usize = 256;
