//! A server that is a subprocess: one JSON message a line on its standard input and output.
//!
//! Three tasks serve a connection, and its handle owns them: one supervises the process and reads its output, one keeps
//! the tail of its standard error, and one writes what did not fit into the pipe at once.

mod descendants;
mod excerpt;
mod group;
mod lines;
mod spawn;
mod stderr;
mod supervisor;
mod watchdog;
mod writer;

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::endpoint::Program;
use super::{BoxFuture, Delivery, Outgoing, Receive, Transport};
use crate::failure::{Failed, Failure};
use group::Group;
use lines::Lines;
use spawn::Spawned;
use stderr::Tail;
use supervisor::Supervisor;
use writer::{Unwritten, Writer};

/// Starts the program. What it writes goes to the receiver, and so does the news that it ended.
pub async fn open(program: &Program, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, Failed> {
    let Spawned { child, group, stdin, stdout, stderr } = spawn::spawn(program).map_err(Failed::unsent)?;
    let link = Arc::new(Link {
        group,
        writer: Writer::new(stdin),
        tail: Tail::new(program.secrets.clone()),
        close: Notify::new(),
    });
    let (over, over_seen) = watch::channel(None);
    let tail = stderr::keep(stderr, link.clone()).in_current_span();
    let lines = Lines::new(stdout, program, receiver.clone());
    let supervisor = Supervisor::new(link.clone(), child, lines, tail, over, receiver, program.grace);
    let mut tasks = JoinSet::new();
    tasks.spawn(supervisor.run().in_current_span());
    let writing = link.clone();
    tasks.spawn(async move { writing.writer.run().await }.in_current_span());
    Ok(Arc::new(Stdio { link, over: over_seen, _tasks: tasks }))
}

/// What the handle and the tasks of one connection share.
struct Link {
    group: Group,
    writer: Writer,
    tail: Tail,
    /// Somebody asked for a good end.
    close: Notify,
}

/// The handle of a connection.
struct Stdio {
    link: Arc<Link>,
    /// Why the connection is over; the channel ends when nothing of the server is left.
    over: watch::Receiver<Option<Failure>>,
    /// Stopped when the handle goes.
    _tasks: JoinSet<()>,
}

impl Transport for Stdio {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, Failed>> {
        Box::pin(async move {
            let over = self.over.borrow().clone();
            if let Some(failure) = over {
                return Err(Failed::unsent(failure));
            }
            match self.link.writer.write(message.text).await {
                Ok(()) => Ok(Delivery::Written),
                Err(Unwritten::Closing) => Err(Failed::unsent(Failure::Closed)),
                Err(Unwritten::Broken { begun }) => Err(Failed { failure: self.end().await, sent: begun }),
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.link.close.notify_one();
            let mut over = self.over.clone();
            while over.changed().await.is_ok() {}
        })
    }

    fn pid(&self) -> Option<u32> {
        Some(self.link.group.leader())
    }

    fn stderr_tail(&self) -> String {
        self.link.tail.text()
    }
}

impl Stdio {
    /// Waits for the reason of an end that has begun; the supervisor's own limit bounds it.
    async fn end(&self) -> Failure {
        let mut over = self.over.clone();
        match over.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or(Failure::Closed),
            Err(_) => Failure::Closed,
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.link.group.destroy();
    }
}

// The tests look for processes in /proc.
#[cfg(all(test, target_os = "linux"))]
mod tests;
