//! What the transports on the network share: a receiver that is closed once, and the tasks of a connection.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::SetOnce;
use tokio::task::{AbortHandle, JoinSet};

use super::connection::{Receive, RequestId};
use crate::failure::{Failure, RequestError};
use crate::lock::lock;
use crate::rpc::Message;

/// Passes on messages, and the end once.
pub(super) struct ClosableReceiver {
    receiver: Arc<dyn Receive>,
    reason: SetOnce<Failure>,
}

impl ClosableReceiver {
    /// Creates the receiver of a new connection.
    pub(super) fn new(receiver: Arc<dyn Receive>) -> Self {
        ClosableReceiver { receiver, reason: SetOnce::new() }
    }

    /// Passes on a message.
    pub(super) fn receive(&self, message: Message, exchange: Option<RequestId>) {
        self.receiver.receive(message, exchange);
    }

    /// Ends the connection; the first reason counts.
    pub(super) fn close(&self, why: Failure) {
        if self.reason.set(why.clone()).is_ok() {
            // Pending requests may have reached the server.
            self.receiver.closed(RequestError::sent(why));
        }
    }

    /// Waits until the connection is over.
    pub(super) async fn ended(&self) {
        self.reason.wait().await;
    }

    /// Returns an error with the reason if the connection is over.
    pub(super) fn check_open(&self) -> Result<(), RequestError> {
        match self.reason.get() {
            None => Ok(()),
            Some(why) => Err(RequestError::unsent(why.clone())),
        }
    }
}

/// The tasks of one connection, aborted when it is dropped.
#[derive(Default)]
pub(super) struct ConnectionTasks(Mutex<JoinSet<()>>);

impl ConnectionTasks {
    /// Polls a short task once, and spawns it if it is not done.
    pub(super) fn finish_or_spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut task = Box::pin(task);
        // Mostly everything has arrived already, and nothing needs to be spawned.
        if task.as_mut().now_or_never().is_none() {
            self.spawn(task);
        }
    }

    /// Spawns a task that ends with the connection.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = lock(&self.0);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Aborts all tasks, and waits until they have ended.
    pub(super) async fn shutdown(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.0));
        tasks.shutdown().await;
    }
}
