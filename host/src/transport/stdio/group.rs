//! The process group of a server, which is killed as a whole.

use std::sync::Mutex;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::descendants::{self, Process};
use super::watchdog::WatchdogEntry;
use crate::lock::lock;

/// A process group that we started, identified by its leader.
pub(super) struct ProcessGroup {
    pub(super) leader: u32,
    /// The watchdog's entry; `None` once the group is gone, because its number may then be reused.
    entry: Mutex<Option<WatchdogEntry>>,
}

impl ProcessGroup {
    /// Creates the group of this process, which must lead it.
    pub(super) fn new(leader: u32, mut entry: WatchdogEntry) -> Self {
        entry.started(leader);
        ProcessGroup { leader, entry: Mutex::new(Some(entry)) }
    }

    /// Notes that the leader has ended; if it was the last member, the group is gone too.
    pub(super) fn leader_ended(&self) {
        let mut entry = lock(&self.entry);
        if self.pid().is_none_or(|pid| test_kill_process_group(pid) == Err(Errno::SRCH)) {
            *entry = None;
        }
    }

    /// Sends a signal to the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        if lock(&self.entry).is_some() {
            self.send(signal);
        }
    }

    /// Kills the rest of the group. Nothing survives SIGKILL, and no fork can escape it, so the group is gone.
    pub(super) fn kill(&self) {
        let mut entry = lock(&self.entry);
        if entry.is_some() {
            self.send(Signal::KILL);
            *entry = None;
        }
    }

    /// Kills the rest of the group, and all descendants that left it.
    pub(super) fn kill_with_descendants(&self) {
        let strays = self.descendants();
        self.kill();
        descendants::kill(&strays);
    }

    /// Returns all descendants of the group's members; its number is not reused while a member exists.
    pub(super) fn descendants(&self) -> Vec<Process> {
        let gone = lock(&self.entry).is_none();
        if gone { Vec::new() } else { descendants::of(self.leader) }
    }

    fn send(&self, signal: Signal) {
        if let Some(pid) = self.pid()
            && let Err(error) = kill_process_group(pid, signal)
            // No such group: all members have ended.
            && error != Errno::SRCH
        {
            tracing::debug!(group = self.leader, %error, "a signal could not be sent");
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.leader).ok().and_then(Pid::from_raw)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
