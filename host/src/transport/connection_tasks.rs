//! Tasks that outlive the call that started them, but not the connection.

use std::sync::Mutex;

use futures_util::FutureExt;
use tokio::task::{AbortHandle, JoinSet};

use crate::lock::lock;

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
