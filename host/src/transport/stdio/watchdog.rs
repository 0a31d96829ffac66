//! A shell that outlives this process by a second, so that no server does, even after SIGKILL.
//!
//! It reads from a pipe that only we hold. Each process that we start registers its group there before it executes the
//! program, so there is no moment at which we could be killed and the process forgotten. When the pipe closes, we have
//! ended or are about to: all registered groups, and their descendants that left them, get SIGTERM, then a second later
//! SIGKILL. Descendants outside the group are known only on Linux, and only while their parent lives.
//!
//! Lines: `+ GROUP NUMBER` registers a group, `- GROUP NUMBER` removes it. We choose the number and never reuse it. It
//! also removes a program that failed to start, whose process id is unknown to us.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// The registration of one group; dropping it removes the group.
pub(super) struct WatchdogEntry {
    number: u64,
    pipe: Option<Arc<PipeWriter>>,
}

/// Reserves an entry for a group that is about to start, and starts the watchdog if none runs.
pub(super) fn reserve_entry() -> WatchdogEntry {
    let mut state = lock(&WATCHDOG);
    state.ensure_running();
    state.last += 1;
    WatchdogEntry { number: state.last, pipe: state.process.as_ref().map(|process| process.pipe.clone()) }
}

impl WatchdogEntry {
    /// Returns the hook that registers the child between fork and exec; it must not allocate, lock or fail.
    pub(super) fn hook(&self) -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
        let (number, pipe) = (self.number, self.pipe.clone());
        move || {
            if let Some(pipe) = &pipe {
                let group = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
                let line = EntryLine::new('+', group, number);
                // A full pipe means that the watchdog hangs; the program starts anyway.
                let _ = rustix::io::write(&**pipe, line.bytes());
            }
            Ok(())
        }
    }

    /// Notes that the group has started.
    pub(super) fn started(&mut self, group: u32) {
        let mut state = lock(&WATCHDOG);
        state.groups.insert(self.number, group);
        // If a new watchdog has started meanwhile, the child registered with the old one.
        if let Some(process) = &state.process
            && self.pipe.as_ref().is_none_or(|pipe| !Arc::ptr_eq(pipe, &process.pipe))
        {
            process.send(&EntryLine::new('+', group, self.number));
        }
    }
}

impl Drop for WatchdogEntry {
    fn drop(&mut self) {
        let mut state = lock(&WATCHDOG);
        let group = state.groups.remove(&self.number).unwrap_or_default();
        if let Some(process) = &state.process {
            process.send(&EntryLine::new('-', group, self.number));
        }
    }
}

/// The state of this process's watchdog.
struct WatchdogState {
    process: Option<WatchdogProcess>,
    groups: BTreeMap<u64, u32>,
    last: u64,
    warned: bool,
}

static WATCHDOG: Mutex<WatchdogState> =
    Mutex::new(WatchdogState { process: None, groups: BTreeMap::new(), last: 0, warned: false });

impl WatchdogState {
    /// Makes sure that a watchdog runs and knows all groups.
    fn ensure_running(&mut self) {
        if self.process.as_mut().is_some_and(|process| matches!(process.process.try_wait(), Ok(None))) {
            return;
        }
        self.process = match WatchdogProcess::start() {
            Ok(process) => Some(process),
            Err(error) => {
                if !self.warned {
                    tracing::warn!(%error, "/bin/sh does not start, so servers may outlive a crash of this process");
                    self.warned = true;
                }
                None
            }
        };
        if let Some(process) = &self.process {
            self.groups.iter().for_each(|(&number, &group)| process.send(&EntryLine::new('+', group, number)));
        }
    }
}

struct WatchdogProcess {
    process: Child,
    pipe: Arc<PipeWriter>,
    /// Keeps writes to a dead watchdog from raising SIGPIPE, which would kill a child that is about to start.
    _reader: PipeReader,
}

impl WatchdogProcess {
    fn start() -> io::Result<WatchdogProcess> {
        let (reader, writer) = io::pipe()?;
        // Only our end is non-blocking: a watchdog that hangs must never make us wait.
        rustix::io::ioctl_fionbio(&writer, true)?;
        let mut command = Command::new("/bin/sh");
        let ours = std::process::id().to_string();
        command.args(["-c", SCRIPT, "toolgate-watchdog", &ours]).env_clear().current_dir("/").process_group(0);
        command.stdin(reader.try_clone()?).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(WatchdogProcess { process: command.spawn()?, pipe: Arc::new(writer), _reader: reader })
    }

    fn send(&self, line: &EntryLine) {
        // Lost only if the watchdog hangs or is dead; the next one gets all groups again.
        let _ = rustix::io::write(&*self.pipe, line.bytes());
    }
}

/// A line built without allocation, and short enough to be written at once.
struct EntryLine(io::Cursor<[u8; 40]>);

impl EntryLine {
    fn new(sign: char, group: u32, number: u64) -> Self {
        let mut line = EntryLine(io::Cursor::new([0; 40]));
        // The longest numbers fit.
        let _ = writeln!(line.0, "{sign} {group} {number}");
        line
    }

    fn bytes(&self) -> &[u8] {
        &self.0.get_ref()[..self.0.position() as usize]
    }
}

/// The watchdog's script. Not every `sleep` takes a fraction, as POSIX does not ask for it, hence the second attempt.
///
/// No process may end before the family tree is known, because the children of a process that has ended lose their
/// parent. So all are stopped, but only after this process is gone and not just its end of the pipe: a stopped group
/// that loses its last parent outside gets SIGHUP from the system. In case this process has become another program, ten
/// seconds are enough. A process is `ID:PARENT:GROUP:START` (proc(5)); the same id with another start time is another
/// process.
pub(super) const SCRIPT: &str = include_str!("watchdog.sh");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_made_without_an_allocation() {
        let rows = [('+', 1, 2, "+ 1 2\n"), ('-', 0, 10, "- 0 10\n"), ('+', 4_194_304, 0, "+ 4194304 0\n")];
        for (sign, group, number, text) in rows {
            assert_eq!(EntryLine::new(sign, group, number).bytes(), text.as_bytes());
        }
        assert_eq!(EntryLine::new('+', u32::MAX, u64::MAX).bytes(), b"+ 4294967295 18446744073709551615\n");
    }
}
