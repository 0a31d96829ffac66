//! Supervises a server's process: reads its output, notices its end, and ends it on request.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::descendants;
use super::group::ProcessGroup;
use super::stderr::StderrTail;
use super::stdin::StdinWriter;
use super::stdout::{OutputEnd, StdoutReader};
use crate::failure::{Failure, ProcessExit, RequestError};
use crate::transport::connection::Receive;

/// State that the handle and the tasks of one connection share.
pub(super) struct StdioShared {
    pub(super) group: ProcessGroup,
    pub(super) stdin: StdinWriter,
    pub(super) stderr: Arc<StderrTail>,
    /// Notified when somebody closes the connection.
    pub(super) close: Notify,
}

/// The task that supervises a server's process.
pub(super) struct ProcessSupervisor {
    pub(super) shared: Arc<StdioShared>,
    pub(super) child: Child,
    pub(super) exit: Option<ProcessExit>,
    pub(super) stdout: StdoutReader,
    pub(super) output_end: Option<OutputEnd>,
    /// The task that reads standard error; empty once it has ended.
    pub(super) stderr: JoinSet<()>,
    pub(super) over: watch::Sender<Option<Failure>>,
    pub(super) receiver: Arc<dyn Receive>,
    pub(super) grace: Duration,
}

/// The reason why the end began.
enum EndCause {
    /// Somebody closed the connection.
    Requested,
    /// The process ended, or closed its output.
    Ended,
    /// The process closed its input.
    InputClosed,
}

impl ProcessSupervisor {
    /// Runs until nothing of the server is left.
    pub(super) async fn run(mut self) {
        let link = self.shared.clone();
        let cause = tokio::select! {
            () = self.run_until(|now| now.exit.is_some() || now.output_end.is_some()) => EndCause::Ended,
            () = link.stdin.broken.notified() => EndCause::InputClosed,
            () = link.close.notified() => EndCause::Requested,
        };
        if let EndCause::Requested = cause {
            self.shut_down().await;
            return self.report_end(Failure::Closed);
        }
        // The missing parts come at once or not at all; an error means that they did not.
        let _ = timeout(SETTLE, self.run_until(Self::is_settled)).await;
        match (&self.output_end, self.exit.take()) {
            (Some(OutputEnd::TooLong(limit)), exit) => {
                let why = format!("a line of more than {limit} bytes; raise max_message_bytes to allow it");
                link.group.kill_with_descendants();
                self.report_end(Failure::Protocol(why));
                self.exit = exit;
                self.gone_within(SETTLE).await;
            }
            (_, Some(exit)) => {
                link.group.kill_with_descendants();
                // A child may still hold the output; whether it would answer is unknown.
                let left_children = self.output_end.is_none();
                let (stderr, read_nothing) = (link.stderr.text(), link.stdin.is_unread());
                self.report_end(Failure::Exited(ProcessExit { stderr, left_children, read_nothing, ..exit }));
            }
            (_, None) => {
                let what = if let EndCause::InputClosed = cause { "input" } else { "output" };
                tracing::warn!("the server closed its standard {what} but still runs; stopping it");
                self.report_end(Failure::Closed);
                self.shut_down().await;
            }
        }
    }

    /// Runs until this holds, which is checked whenever the output, the process or standard error ends.
    async fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            self.step().await;
        }
    }

    /// Runs until the output, the process or standard error ends, of which one must still be open.
    async fn step(&mut self) {
        tokio::select! {
            end = self.stdout.read(), if self.output_end.is_none() => self.output_end = Some(end),
            status = self.child.wait(), if self.exit.is_none() => {
                // An error means that somebody else waited for the process: it is gone, and its status is unknown.
                let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
                self.exit = Some(ProcessExit { code, signal, ..ProcessExit::default() });
                self.shared.group.leader_ended();
            }
            Some(_) = self.stderr.join_next() => {}
        }
    }

    /// Reports whether everything has ended, or a line is too long.
    fn is_settled(&self) -> bool {
        let too_long = matches!(self.output_end, Some(OutputEnd::TooLong(_)));
        too_long || self.is_gone() && self.stderr.is_empty()
    }

    /// Reports whether the process has ended, and everything that holds its output, because a launcher may end before
    /// its server.
    fn is_gone(&self) -> bool {
        self.exit.is_some() && self.output_end.is_some()
    }

    /// Shuts the process down: closes its input, then sends SIGTERM, then SIGKILL.
    async fn shut_down(&mut self) {
        let link = self.shared.clone();
        let mut strays = link.group.descendants();
        link.stdin.close();
        if !self.gone_within(self.grace).await {
            strays.extend(link.group.descendants());
            link.group.signal(Signal::TERM);
            self.gone_within(self.grace).await;
            strays.extend(link.group.descendants());
        }
        link.group.kill();
        descendants::kill(&strays);
        self.gone_within(SETTLE).await;
    }

    async fn gone_within(&mut self, limit: Duration) -> bool {
        timeout(limit, self.run_until(Self::is_gone)).await.is_ok()
    }

    /// Reports to everybody that the connection is over.
    fn report_end(&mut self, why: Failure) {
        self.over.send_replace(Some(why.clone()));
        self.shared.stdin.fail();
        self.stdout.discard_output();
        self.receiver.closed(RequestError::sent(why));
    }
}

/// How long the other parts may take once one part has ended.
const SETTLE: Duration = Duration::from_millis(500);
