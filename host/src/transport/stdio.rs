//! A server that is a subprocess: one JSON message per line on its standard input and output.
//!
//! Three tasks serve a connection, and its handle owns them: one supervises the process and reads its output, one keeps
//! the tail of its standard error, and one writes what did not fit into the pipe at once.

mod descendants;
mod excerpt;
mod group;
mod spawn;
mod stderr;
mod stdin;
mod stdout;
mod supervisor;
mod watchdog;

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::connection::{BoxFuture, Delivery, Outgoing, Receive, Transport};
use super::endpoint::Program;
use crate::failure::{Failure, RequestError};
use spawn::SpawnedProcess;
use stderr::StderrTail;
use stdin::{StdinWriter, WriteError};
use stdout::StdoutReader;
use supervisor::{ProcessSupervisor, StdioShared};

/// Starts the program; the receiver gets its messages and learns of its end.
pub(super) async fn open(program: &Program, receiver: Arc<dyn Receive>) -> Result<Arc<dyn Transport>, RequestError> {
    let SpawnedProcess { child, group, stdin, stdout, stderr } = spawn::spawn(program).map_err(RequestError::unsent)?;
    let shared = Arc::new(StdioShared {
        group,
        stdin: StdinWriter::new(stdin),
        stderr: Arc::new(StderrTail::new(program.secrets.clone())),
        close: Notify::new(),
    });
    let (over, over_seen) = watch::channel(None);
    let mut stderr_task = JoinSet::new();
    stderr_task.spawn(stderr::read_stderr(stderr, shared.stderr.clone(), receiver.clone()).in_current_span());
    let supervisor = ProcessSupervisor {
        shared: shared.clone(),
        child,
        exit: None,
        stdout: StdoutReader::new(stdout, program, receiver.clone()),
        output_end: None,
        stderr: stderr_task,
        over,
        receiver,
        grace: program.grace,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(supervisor.run().in_current_span());
    let writing = shared.clone();
    tasks.spawn(async move { writing.stdin.run().await }.in_current_span());
    Ok(Arc::new(Stdio { shared, over: over_seen, _tasks: tasks }))
}

/// The handle of a connection.
struct Stdio {
    shared: Arc<StdioShared>,
    /// Why the connection is over; the channel closes when nothing of the server is left.
    over: watch::Receiver<Option<Failure>>,
    /// Aborted when the handle is dropped.
    _tasks: JoinSet<()>,
}

impl Transport for Stdio {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        Box::pin(async move {
            let over = self.over.borrow().clone();
            if let Some(failure) = over {
                return Err(RequestError::unsent(failure));
            }
            match self.shared.stdin.write(message.text).await {
                Ok(()) => Ok(Delivery::Written),
                Err(WriteError::Closing) => Err(RequestError::unsent(Failure::Closed)),
                Err(WriteError::Broken { partly_written }) => {
                    Err(RequestError { failure: self.end().await, sent: partly_written })
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.close.notify_one();
            let mut over = self.over.clone();
            while over.changed().await.is_ok() {}
        })
    }

    fn pid(&self) -> Option<u32> {
        Some(self.shared.group.leader)
    }

    fn stderr_tail(&self) -> String {
        self.shared.stderr.text()
    }
}

impl Stdio {
    /// Waits for the reason of an end that has begun, within the supervisor's own limit.
    async fn end(&self) -> Failure {
        let mut over = self.over.clone();
        let why = over.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or(Failure::Closed)
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.shared.group.kill_with_descendants();
    }
}

// The tests find processes in /proc.
#[cfg(all(test, target_os = "linux"))]
mod tests;
