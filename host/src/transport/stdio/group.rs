//! The process group of a server, which dies whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::descendants::{self, Process};
use super::watchdog::WatchdogEntry;

/// A process group that we started, known by the process that leads it.
pub(super) struct ProcessGroup {
    leader: u32,
    /// The entry with the watchdog; none once the group is gone. From then on its number may be another's.
    entry: Mutex<Option<WatchdogEntry>>,
}

impl ProcessGroup {
    /// The group of this process, which must lead it.
    pub(super) fn new(leader: u32, mut entry: WatchdogEntry) -> Self {
        entry.started(leader);
        ProcessGroup { leader, entry: Mutex::new(Some(entry)) }
    }

    /// The process that leads it.
    pub(super) fn leader(&self) -> u32 {
        self.leader
    }

    /// The leader was waited for. If it was the last of its group, the group is gone too.
    pub(super) fn leader_ended(&self) {
        let mut entry = self.entry();
        if self.pid().is_none_or(|pid| test_kill_process_group(pid) == Err(Errno::SRCH)) {
            *entry = None;
        }
    }

    /// Sends a signal to all of it.
    pub(super) fn signal(&self, signal: Signal) {
        if self.entry().is_some() {
            self.send(signal);
        }
    }

    /// Kills what is left of it. Nothing outlives SIGKILL, and a fork cannot slip past it, so it is gone.
    pub(super) fn kill(&self) {
        let mut entry = self.entry();
        if entry.is_some() {
            self.send(Signal::KILL);
            *entry = None;
        }
    }

    /// Kills what is left of it, and all descendants of it that left it.
    pub(super) fn kill_with_descendants(&self) {
        let strays = self.descendants();
        self.kill();
        descendants::kill(&strays);
    }

    /// All that descends from what is left of it. The number of a group is no other's while anything is left.
    pub(super) fn descendants(&self) -> Vec<Process> {
        let gone = self.entry().is_none();
        if gone { Vec::new() } else { descendants::of(self.leader) }
    }

    fn send(&self, signal: Signal) {
        if let Some(pid) = self.pid()
            && let Err(error) = kill_process_group(pid, signal)
            // No such group: all of it ended by itself.
            && error != Errno::SRCH
        {
            tracing::debug!(group = self.leader, %error, "a signal could not be sent");
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.leader).ok().and_then(Pid::from_raw)
    }

    fn entry(&self) -> MutexGuard<'_, Option<WatchdogEntry>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
