//! The process group of a server, which dies whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::descendants::{self, Process};
use super::watchdog::Entry;

/// A process group that we started, known by the process that leads it.
pub(super) struct Group {
    leader: u32,
    state: Mutex<State>,
}

struct State {
    /// The entry with the watchdog; none once the group is gone. From then on its number may be another's.
    entry: Option<Entry>,
    /// The leader was waited for. From then on its process id may be another's.
    leader_ended: bool,
}

impl Group {
    /// The group of this process, which must lead it.
    pub(super) fn new(leader: u32, mut entry: Entry) -> Self {
        entry.started(leader);
        Group { leader, state: Mutex::new(State { entry: Some(entry), leader_ended: false }) }
    }

    /// The process that leads it.
    pub(super) fn leader(&self) -> u32 {
        self.leader
    }

    /// The leader was waited for. If it was the last of its group, the group is gone too.
    pub(super) fn leader_ended(&self) {
        let mut state = self.state();
        state.leader_ended = true;
        if self.pid().is_none_or(|pid| test_kill_process_group(pid) == Err(Errno::SRCH)) {
            state.entry = None;
        }
    }

    /// Sends a signal to all of it.
    pub(super) fn signal(&self, signal: Signal) {
        if self.state().entry.is_some() {
            self.send(signal);
        }
    }

    /// Kills what is left of it. Nothing outlives SIGKILL, and a fork cannot slip past it, so it is gone.
    pub(super) fn bury(&self) {
        let mut state = self.state();
        if state.entry.is_some() {
            self.send(Signal::KILL);
            state.entry = None;
        }
    }

    /// Kills what is left of it, and all descendants of its leader that left it.
    pub(super) fn destroy(&self) {
        let strays = self.descendants();
        self.bury();
        descendants::kill(&strays);
    }

    /// All that descends from its leader, while that lives.
    pub(super) fn descendants(&self) -> Vec<Process> {
        let leader_ended = self.state().leader_ended;
        if leader_ended { Vec::new() } else { descendants::of(self.leader) }
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.bury();
    }
}
