//! Runs the command of `${cmd:…}` with a time limit and returns its output.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long a command may take.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// The most bytes that a command may write: far more than any key or certificate chain needs.
pub(super) const MAX_BYTES: u64 = 64 * 1024;

/// Runs a command and returns its standard output. An error says how it failed, never what it wrote.
pub(super) fn run<'v>(
    line: &str,
    folder: &Path,
    environment: impl Iterator<Item = (&'v String, &'v String)>,
    limit: Duration,
) -> Result<String, String> {
    let until = Instant::now() + limit;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).process_group(0);
    command.current_dir(folder).env_clear().envs(environment);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("does not start: {error}"))?;
    let output = output_of(&mut child, until);
    let status = match output {
        Some(_) => end(&mut child, until),
        None => end(&mut child, Instant::now()),
    };
    let status = status.map_err(|error| format!("cannot be waited for: {error}"))?;
    let (Some(output), Some(status)) = (output, status) else {
        return Err(format!("took more than {}s", limit.as_secs_f32()));
    };
    if !status.success() {
        // "exit status: 3" or "signal: 9 (SIGKILL)".
        return Err(format!("failed with {status}; run it in a shell to see why"));
    }
    let output = output.map_err(|error| format!("wrote output that cannot be read: {error}"))?;
    if output.len() as u64 > MAX_BYTES {
        return Err(format!("wrote more than {} KiB", MAX_BYTES / 1024));
    }
    String::from_utf8(output).map_err(|_| "wrote output that is not UTF-8 text".to_owned())
}

/// Returns everything that the command writes until the pipe closes; `None` if that takes too long.
fn output_of(child: &mut Child, until: Instant) -> Option<io::Result<Vec<u8>>> {
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    // The thread ends with the pipe, when all processes that hold it are gone; `end` kills those.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        // After the limit, nobody receives this.
        let _ = sender.send(read.map(|_| bytes));
    });
    receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

/// Waits until the command has ended and kills what it leaves behind; returns `None` if it had to be killed itself.
fn end(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    let ended = loop {
        if has_ended(child)? {
            break true;
        }
        if Instant::now() >= until {
            break false;
        }
        thread::sleep(POLL);
    };
    // This fails if no process is left, which is fine.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let status = child.wait()?;
    Ok(ended.then_some(status))
}

const POLL: Duration = Duration::from_millis(2);

/// Reports whether the command has ended, without reaping it, so that its group id is not reused yet.
fn has_ended(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn try_run(line: &str, limit: Duration) -> Result<String, String> {
        let environment = BTreeMap::from([("WORD".to_owned(), "from outside".to_owned())]);
        run(line, Path::new("/"), environment.iter(), limit)
    }

    #[test]
    fn output_is_taken_and_failures_show_none_of_it() {
        let rows = [
            ("printf '%s' \"$WORD\"", Ok("from outside")),
            ("pwd", Ok("/\n")),
            ("echo s3cret; echo s3cret >&2; exit 3", Err("failed with exit status: 3; run it in a shell to see why")),
            ("kill -9 $$", Err("failed with signal: 9 (SIGKILL); run it in a shell to see why")),
            ("printf '\\377'", Err("wrote output that is not UTF-8 text")),
            ("/bin/cat /dev/zero", Err("")),
        ];
        for (line, expected) in rows {
            match (try_run(line, LIMIT), expected) {
                (Ok(output), Ok(expected)) => assert_eq!(output, expected, "{line}"),
                (Err(error), Err(expected)) => {
                    assert!(error.contains(expected) && !error.contains("s3cret"), "{line}: {error}");
                }
                (result, _) => panic!("{line}: {result:?}"),
            }
        }
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let line = format!("/bin/sleep 1000 & echo $! > '{}'; wait", pid.display());
        // Retry until the child has written its pid, because a busy machine starts it late.
        let child = loop {
            assert_eq!(try_run(&line, Duration::from_millis(300)), Err("took more than 0.3s".to_owned()));
            if let Some(child) = std::fs::read_to_string(&pid).ok().and_then(|pid| pid.trim().parse().ok()) {
                break rustix::process::Pid::from_raw(child).unwrap();
            }
        };
        // The child is killed at once, but its new parent may take a moment to reap it.
        while rustix::process::test_kill_process(child).is_ok() && !is_zombie(child) {
            thread::yield_now();
        }
    }

    fn is_zombie(pid: rustix::process::Pid) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
            .map_or(true, |stat| stat.contains(") Z "))
    }
}
