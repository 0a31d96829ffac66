//! Watches over a server's process: reads what it says, notices its end, and brings it about where that is asked.

use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lines::{End, Lines};
use super::{Link, descendants};
use crate::failure::{Exit, Failed, Failure};
use crate::transport::Receive;

/// The task that watches over a server's process.
pub(super) struct Supervisor {
    link: Arc<Link>,
    child: Child,
    exit: Option<Exit>,
    lines: Lines,
    read: Option<End>,
    /// The task that reads standard error; empty once that has ended.
    stderr: JoinSet<()>,
    over: watch::Sender<Option<Failure>>,
    receiver: Arc<dyn Receive>,
    grace: Duration,
}

/// What made the end begin.
enum Cause {
    /// Somebody asked for it.
    Asked,
    /// The process ended, or closed its output.
    Ended,
    /// The process closed its input.
    Broken,
}

impl Supervisor {
    pub(super) fn new(
        link: Arc<Link>,
        child: Child,
        lines: Lines,
        stderr: impl Future<Output = ()> + Send + 'static,
        over: watch::Sender<Option<Failure>>,
        receiver: Arc<dyn Receive>,
        grace: Duration,
    ) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(stderr);
        Supervisor { link, child, exit: None, lines, read: None, stderr: tasks, over, receiver, grace }
    }

    /// Runs until nothing of the server is left.
    pub(super) async fn run(mut self) {
        let link = self.link.clone();
        let cause = tokio::select! {
            () = self.watch() => Cause::Ended,
            () = link.writer.broken() => Cause::Broken,
            () = link.close.notified() => Cause::Asked,
        };
        if let Cause::Asked = cause {
            self.dismiss().await;
            return self.end(Failure::Closed);
        }
        // Whatever is missing comes at once, or not at all; an error means that it did not.
        let _ = timeout(SETTLE, self.settle()).await;
        match (&self.read, self.exit.take()) {
            (Some(End::TooLong(limit)), exit) => {
                let why = format!("a line of more than {limit} bytes; raise max_message_bytes if that is right");
                link.group.destroy();
                self.end(Failure::Protocol(why));
                self.exit = exit;
                self.gone_within(SETTLE).await;
            }
            (_, Some(exit)) => {
                link.group.destroy();
                // Whether what still holds the output would answer, nobody can tell from here.
                let left_others = self.read.is_none();
                self.end(Failure::Exited(Exit { stderr: link.tail.text(), left_others, ..exit }));
            }
            (_, None) => {
                let what = if let Cause::Broken = cause { "input" } else { "output" };
                tracing::warn!("the server closed its standard {what} but still runs, so it is ended");
                self.end(Failure::Closed);
                self.dismiss().await;
            }
        }
    }

    /// Goes on until the process ends or closes its output. Without standard error it lives on.
    async fn watch(&mut self) {
        while self.exit.is_none() && self.read.is_none() {
            self.step().await;
        }
    }

    /// Goes on until one more thing has ended: the output, the process, or standard error. One of them must be open.
    async fn step(&mut self) {
        tokio::select! {
            end = self.lines.read(), if self.read.is_none() => self.read = Some(end),
            status = self.child.wait(), if self.exit.is_none() => {
                // An error means that somebody else has waited for it: it is gone, and nobody knows how.
                let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
                self.exit = Some(Exit { code, signal, ..Exit::default() });
                self.link.group.leader_ended();
            }
            Some(_) = self.stderr.join_next() => {}
        }
    }

    /// Goes on until all has ended, or a line is too long.
    async fn settle(&mut self) {
        while self.exit.is_none() || self.read.is_none() || !self.stderr.is_empty() {
            if let Some(End::TooLong(_)) = self.read {
                return;
            }
            self.step().await;
        }
    }

    /// Ends the process in good manners, then in bad ones.
    async fn dismiss(&mut self) {
        let link = self.link.clone();
        let mut strays = link.group.descendants();
        link.writer.close();
        if !self.gone_within(self.grace).await {
            strays.extend(link.group.descendants());
            link.group.signal(Signal::TERM);
            self.gone_within(self.grace).await;
            strays.extend(link.group.descendants());
        }
        link.group.bury();
        descendants::kill(&strays);
        self.gone_within(SETTLE).await;
    }

    /// Whether the process ends in time, and with it all that holds its output: a launcher may end before its server.
    async fn gone_within(&mut self, limit: Duration) -> bool {
        let gone = async {
            while self.exit.is_none() || self.read.is_none() {
                self.step().await;
            }
        };
        timeout(limit, gone).await.is_ok()
    }

    /// Tells everybody that the connection is over.
    fn end(&mut self, why: Failure) {
        self.over.send_replace(Some(why.clone()));
        self.link.writer.fail();
        self.lines.silence();
        self.receiver.closed(Failed::sent(why));
    }
}

/// How long the rest of an end may take when one part of it is seen.
const SETTLE: Duration = Duration::from_millis(500);
