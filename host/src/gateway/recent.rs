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
}

impl RecentCalls {
    /// Adds a call, and drops the oldest ones that exceed the limits.
    pub(super) fn add(&self, call: RecentCall) {
        let call = call.shortened();
        let mut kept = lock(&self.buffer);
        kept.bytes += call.size();
        kept.calls.push_back(call);
        while kept.calls.len() > MOST || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.calls.pop_front() else { break };
            kept.bytes -= oldest.size();
        }
        drop(kept);
        self.count.send_modify(|count| *count += 1);
    }

    /// Returns up to `most` matching calls, newest first.
    pub fn last(&self, most: usize, wanted: impl Fn(&RecentCall) -> bool) -> Vec<RecentCall> {
        lock(&self.buffer).calls.iter().rev().filter(|call| wanted(call)).take(most).cloned().collect()
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
        let newest = &recent.last(1, |_| true)[0];
        assert!(newest.name.starts_with("599n") && newest.name.ends_with('…') && newest.name.len() <= MOST_NAME);
        assert!(newest.principal.len() <= MOST_NAME && newest.tool.as_ref().unwrap().tool.len() <= MOST_NAME);
        assert!(newest.trace.iter().all(|note| note.len() <= MOST_NOTE));
        assert_eq!((newest.trace.len(), newest.trace.last().unwrap().as_str()), (MOST_NOTES, "… (37 more)"));
        // Small calls replace the large ones, and then only their number is limited.
        for _ in 0..600 {
            recent.add(call("a", vec!["note".to_owned()]));
        }
        assert_eq!(recent.last(usize::MAX, |_| true).len(), MOST);
        let sum = lock(&recent.buffer).calls.iter().map(RecentCall::size).sum::<usize>();
        assert_eq!(lock(&recent.buffer).bytes, sum);
    }
}
