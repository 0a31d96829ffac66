//! The descendants of a server's process, including those that left its group.
//!
//! Only Linux lists them in `/proc`; elsewhere none is found, and only the group is killed.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process, identified by its id and its start time, because ids are reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    /// The process id.
    pub(super) id: u32,
    started: u64,
}

/// Returns all descendants of this process, and of other members of the group that it leads or led.
pub(super) fn of(root: u32) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(ProcessInfo { parent, group, process }) = read(id)
        {
            let above = if group == root && id != root { root } else { parent };
            children.entry(above).or_default().push(process);
        }
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let below = children.remove(&process.id).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    found
}

/// Kills the processes that still run.
pub(super) fn kill(processes: &[Process]) {
    for process in processes {
        let same = read(process.id).is_some_and(|now| now.process == *process);
        if same && let Some(pid) = i32::try_from(process.id).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile, which is fine.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A process with its parent and group.
struct ProcessInfo {
    parent: u32,
    group: u32,
    process: Process,
}

fn read(id: u32) -> Option<ProcessInfo> {
    let line = fs::read(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may contain anything; after the last parenthesis there are only numbers (proc(5)).
    let numbers = &line[memchr::memrchr(b')', &line)? + 1..];
    let mut fields = str::from_utf8(numbers).ok()?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    Some(ProcessInfo { parent, group, process: Process { id, started } })
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
