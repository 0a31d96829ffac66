//! Summaries by a program, which reads the text from standard input and writes the summary to standard output.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use super::{SummarizeError, SummaryTask};
use crate::config::secrets::Secrets;

/// A program that makes summaries. Its `Debug` shows no arguments and no values of variables, which may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SummaryCommand {
    /// The program, by path or by name; it does not run in a shell.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The complete environment of the process, apart from `TOOLGATE_SERVER` and `TOOLGATE_TOOL`, which are set for
    /// each run.
    pub env: BTreeMap<String, String>,
    /// Secrets to hide in its standard error.
    pub secrets: Secrets,
}

impl SummaryCommand {
    /// Runs the program; nothing in its process group outlives the future.
    pub(super) async fn run(&self, task: SummaryTask<'_>) -> Result<String, SummarizeError> {
        let mut group = self.start(task)?;
        let (stdin, stdout, stderr) = (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take());
        let (mut summary, mut tail) = (Vec::new(), Tail::default());
        let status = {
            let feed = async {
                if let Some(mut stdin) = stdin {
                    // A program need not read everything; its exit code says whether it succeeded.
                    let _ = stdin.write_all(task.text.as_bytes()).await;
                }
                Ok(())
            };
            let mut talk = pin!(async {
                let listen = self.read(stdout, |bytes| {
                    summary.extend_from_slice(bytes);
                    if summary.len() > MOST { Err(SummarizeError::TooLarge { max: MOST }) } else { Ok(()) }
                });
                let keep_tail = self.read(stderr, |bytes| {
                    tail.push(bytes);
                    Ok(())
                });
                tokio::try_join!(feed, listen, keep_tail).map(drop)
            });
            // The time limit of the summary bounds both waits.
            tokio::select! {
                outcome = &mut talk => {
                    outcome?;
                    group.wait().await
                }
                status = group.wait() => {
                    // Its children may hold the pipes for ever; its own output is already in them.
                    if let Ok(outcome) = tokio::time::timeout(SETTLE, talk).await {
                        outcome?;
                    }
                    status
                }
            }
        };
        let status = status.map_err(|error| self.read_error(error))?;
        if !status.success() {
            let last_words = tail.last_line(&self.secrets);
            return Err(SummarizeError::Failed { command: self.command.clone(), how: in_words(status), last_words });
        }
        Ok(String::from_utf8_lossy(&summary).into_owned())
    }

    fn start(&self, task: SummaryTask<'_>) -> Result<CommandGroup, SummarizeError> {
        let mut command = tokio::process::Command::new(&self.command);
        command.args(&self.args).env_clear().envs(&self.env);
        command.env("TOOLGATE_SERVER", task.server).env("TOOLGATE_TOOL", task.tool);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The process may leave its group, so it is also killed by its own id.
        command.process_group(0).kill_on_drop(true);
        let child = command.spawn();
        let child = child.map_err(|source| SummarizeError::Start { command: self.command.clone(), source })?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(CommandGroup { child, group })
    }

    /// Reads until the end, or until `take` rejects what was read.
    async fn read(
        &self,
        pipe: Option<impl AsyncRead + Unpin>,
        mut take: impl FnMut(&[u8]) -> Result<(), SummarizeError>,
    ) -> Result<(), SummarizeError> {
        let Some(mut pipe) = pipe else { return Ok(()) };
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match pipe.read(&mut buffer).await.map_err(|error| self.read_error(error))? {
                0 => return Ok(()),
                count => take(&buffer[..count])?,
            }
        }
    }

    fn read_error(&self, source: std::io::Error) -> SummarizeError {
        SummarizeError::Read { command: self.command.clone(), source }
    }
}

impl fmt::Debug for SummaryCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<_> = self.env.keys().collect();
        f.debug_struct("Command")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &env)
            .finish_non_exhaustive()
    }
}

/// A process and its descendants in the same group, killed when this is dropped.
struct CommandGroup {
    child: Child,
    /// `None` once the group is gone, because its number may then be reused.
    group: Option<Pid>,
}

impl CommandGroup {
    async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait().await;
        if self.group.is_some_and(|group| test_kill_process_group(group) == Err(Errno::SRCH)) {
            self.group = None;
        }
        status
    }
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        if let Some(group) = self.group
            && let Err(error) = kill_process_group(group, Signal::KILL)
            // No such group: all members have ended.
            && error != Errno::SRCH
        {
            tracing::debug!(group = group.as_raw_nonzero(), %error, "a signal could not be sent");
        }
    }
}

/// The end of standard error.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    /// Whether something before these bytes is lost.
    cut: bool,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let older = self.bytes.len().saturating_sub(TAIL);
        self.bytes.drain(..older);
        self.cut |= older > 0;
    }

    /// Returns the last line that is not blank, shortened and safe to print.
    fn last_line(&self, secrets: &Secrets) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        // Redact before cutting: half of a secret cannot be recognised.
        let text = secrets.redact(&text);
        // A line without its beginning may start with half of a secret.
        let whole = if self.cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        let last = whole.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let mut shown: String = last.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if last.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        shown
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// The maximum length of a summary.
const MOST: usize = 256 * 1024;
/// How long to keep reading the pipes of a program that has ended.
const SETTLE: Duration = Duration::from_millis(500);
const TAIL: usize = 4096;
const SHOWN: usize = 300;

// The tests find processes in /proc.
#[cfg(all(test, target_os = "linux"))]
mod tests;
