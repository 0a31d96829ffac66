//! The calls of late, for operators.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::logic::types::ToolRef;
use crate::logic::types::execution::Code;

/// A call that is over. Neither arguments nor answers are kept.
#[derive(Debug, Clone)]
pub struct RecentCall {
    /// The gateway's id of the call, as it stands in the log.
    pub id: String,
    /// When it ended.
    pub at: SystemTime,
    /// Who made it.
    pub principal: String,
    /// The name as the client wrote it.
    pub name: String,
    /// The tool that was meant, if one was found.
    pub tool: Option<ToolRef>,
    /// How it ended.
    pub code: Code,
    /// How often the request was sent.
    pub attempts: u32,
    /// How long it took.
    pub latency: Duration,
    /// How it was decided.
    pub trace: Vec<String>,
}

/// The calls of late.
#[derive(Debug)]
pub struct Recent {
    calls: Mutex<VecDeque<RecentCall>>,
    count: watch::Sender<u64>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { calls: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Recent {
    /// Keeps a call, and forgets the oldest.
    pub(super) fn add(&self, call: RecentCall) {
        let mut calls = self.calls();
        if calls.len() == KEPT {
            calls.pop_front();
        }
        calls.push_back(call);
        drop(calls);
        self.count.send_modify(|count| *count += 1);
    }

    /// The last so many that are wanted, the newest first.
    pub fn last(&self, most: usize, wanted: impl Fn(&RecentCall) -> bool) -> Vec<RecentCall> {
        self.calls().iter().rev().filter(|call| wanted(call)).take(most).cloned().collect()
    }

    /// Counts the calls: who waits for it to change hears of each.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<RecentCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const KEPT: usize = 500;
