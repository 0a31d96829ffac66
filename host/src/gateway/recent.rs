//! Recent calls, for operators.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::bounds::cut;
use crate::lock::lock;
use crate::logic::types::ToolRef;
use crate::logic::types::execution::Code;

/// A finished call, without arguments and answers; long names and notes are cut.
#[derive(Debug, Clone)]
pub struct RecentCall {
    /// The gateway's id of the call, as in the log.
    pub id: String,
    /// When it ended.
    pub at: SystemTime,
    /// Who made it.
    pub principal: String,
    /// The name as the client wrote it.
    pub name: String,
    /// The tool that the name means, if one was found.
    pub tool: Option<ToolRef>,
    /// How it ended.
    pub code: Code,
    /// How often the request was sent.
    pub attempts: u32,
    /// How long it took.
    pub latency: Duration,
    /// The trace of the decision.
    pub trace: Vec<String>,
}

impl RecentCall {
    /// Cuts each text to its limit.
    pub(super) fn shortened(mut self) -> Self {
        let tool = self.tool.iter_mut().flat_map(|tool| [&mut tool.server, &mut tool.tool]);
        for name in [&mut self.principal, &mut self.name].into_iter().chain(tool) {
            cut(name, MOST_NAME);
        }
        if self.trace.len() > MOST_NOTES {
            let left = self.trace.split_off(MOST_NOTES - 1).len();
            self.trace.push(format!("… ({left} more)"));
        }
        self.trace.iter_mut().for_each(|note| cut(note, MOST_NOTE));
        self
    }

    /// Returns its approximate size in bytes.
    pub(super) fn size(&self) -> usize {
        let tool = self.tool.iter().flat_map(|tool| [&tool.server, &tool.tool]);
        let texts = [&self.id, &self.principal, &self.name].into_iter().chain(tool).map(String::len).sum::<usize>();
        let notes = self.trace.iter().map(|note| note.len() + size_of::<String>()).sum::<usize>();
        size_of::<Self>() + texts + notes
    }
}

/// The recent calls, within limits on their number and size.
#[derive(Debug, Default)]
pub struct RecentCalls {
    buffer: Mutex<CallBuffer>,
    count: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct CallBuffer {
    calls: VecDeque<RecentCall>,
    bytes: usize,
    /// The number of the last call, from 1.
    last: u64,
}

/// Some of the recent calls.
#[derive(Debug, Clone)]
pub struct CallPage {
    /// The calls, newest first.
    pub calls: Vec<RecentCall>,
    /// The number of the last call that was looked at, after which the next page begins.
    pub last: u64,
    /// How many calls after the given one are no longer kept.
    pub lost: u64,
}

impl RecentCalls {
    /// Adds a call, and drops the oldest ones that exceed the limits.
    pub(super) fn add(&self, call: RecentCall) {
        let call = call.shortened();
        let mut kept = lock(&self.buffer);
        kept.bytes += call.size();
        kept.last += 1;
        kept.calls.push_back(call);
        while kept.calls.len() > MOST || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.calls.pop_front() else { break };
            kept.bytes -= oldest.size();
        }
        drop(kept);
        self.count.send_modify(|count| *count += 1);
    }

    /// Returns up to `most` matching calls: the newest ones, or the oldest ones after the call with a number, so that
    /// who asks again and again misses none. A number that is not reached yet belongs to an earlier gateway, so all
    /// calls are new.
    pub fn page(&self, after: Option<u64>, most: usize, wanted: impl Fn(&RecentCall) -> bool) -> CallPage {
        let kept = lock(&self.buffer);
        let forgotten = kept.last - kept.calls.len() as u64;
        let Some(after) = after.map(|after| if after > kept.last { 0 } else { after }) else {
            let calls = kept.calls.iter().rev().filter(|call| wanted(call)).take(most).cloned().collect();
            return CallPage { calls, last: kept.last, lost: 0 };
        };
        let new = (forgotten + 1..).zip(&kept.calls).filter(|(number, call)| *number > after && wanted(call));
        let (mut new, mut calls) = (new.peekable(), Vec::new());
        let mut last = after;
        while calls.len() < most
            && let Some((number, call)) = new.next()
        {
            last = number;
            calls.push(call.clone());
        }
        if new.peek().is_none() {
            last = kept.last;
        }
        calls.reverse();
        CallPage { calls, last, lost: forgotten.saturating_sub(after) }
    }

    /// Returns a count of calls, which changes with each call.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

/// The most calls to keep.
pub(super) const MOST: usize = 500;
/// The most bytes that they may take together.
pub(super) const MOST_BYTES: usize = 2 << 20;
/// The most bytes to keep of a name.
const MOST_NAME: usize = 256;
/// The most bytes to keep of a note.
const MOST_NOTE: usize = 512;
/// The most notes to keep of a call.
const MOST_NOTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, trace: Vec<String>) -> RecentCall {
        RecentCall {
            id: "0123456789abcdef".to_owned(),
            at: SystemTime::UNIX_EPOCH,
            principal: "p".repeat(10_000),
            name: name.to_owned(),
            tool: Some(ToolRef { server: "s".to_owned(), tool: "t".repeat(10_000) }),
            code: Code::Ok,
            attempts: 1,
            latency: Duration::ZERO,
            trace,
        }
    }

    #[test]
    fn calls_of_any_size_take_little_and_the_oldest_are_forgotten() {
        let recent = RecentCalls::default();
        for number in 0..600 {
            recent.add(call(&format!("{number}{}", "n".repeat(1000)), vec!["note".repeat(1000); 100]));
        }
        let sizes = |kept: &CallBuffer| (kept.calls.len(), kept.bytes);
        let (count, bytes) = sizes(&lock(&recent.buffer));
        assert!(bytes <= MOST_BYTES && (30..500).contains(&count), "{count} calls, {bytes} bytes");
        let newest = &recent.page(None, 1, |_| true).calls[0];
        assert!(newest.name.starts_with("599n") && newest.name.ends_with('…') && newest.name.len() <= MOST_NAME);
        assert!(newest.principal.len() <= MOST_NAME && newest.tool.as_ref().unwrap().tool.len() <= MOST_NAME);
        assert!(newest.trace.iter().all(|note| note.len() <= MOST_NOTE));
        assert_eq!((newest.trace.len(), newest.trace.last().unwrap().as_str()), (MOST_NOTES, "… (37 more)"));
        // Small calls replace the large ones, and then only their number is limited.
        for _ in 0..600 {
            recent.add(call("a", vec!["note".to_owned()]));
        }
        assert_eq!(recent.page(None, usize::MAX, |_| true).calls.len(), MOST);
        let sum = lock(&recent.buffer).calls.iter().map(RecentCall::size).sum::<usize>();
        assert_eq!(lock(&recent.buffer).bytes, sum);
    }

    #[test]
    fn who_asks_again_and_again_gets_each_call_once_and_learns_how_many_are_gone() {
        let recent = RecentCalls::default();
        let add = |count: usize| (0..count).for_each(|number| recent.add(call(&number.to_string(), Vec::new())));
        let ask = |after, most| {
            let CallPage { calls, last, lost } = recent.page(Some(after), most, |call| call.name != "1");
            (calls.into_iter().map(|call| call.name).collect::<Vec<_>>(), last, lost)
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(ask(0, 9), (names(&[]), 0, 0));
        add(4);
        assert_eq!(ask(0, 2), (names(&["2", "0"]), 3, 0));
        assert_eq!(ask(3, 2), (names(&["3"]), 4, 0));
        assert_eq!(ask(4, 2), (names(&[]), 4, 0));
        // What is not wanted is passed over for good.
        add(2);
        assert_eq!(ask(4, 1), (names(&["0"]), 6, 0));
        add(MOST + 10);
        let (calls, last, lost) = ask(6, usize::MAX);
        assert_eq!((calls.len(), last, lost), (MOST, 516, 10));
        assert_eq!(ask(1000, usize::MAX).2, 16, "the number is of another gateway");
    }
}
