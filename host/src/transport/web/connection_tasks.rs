//! Tasks that outlive the call that started them, but not the connection.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use tokio::task::{AbortHandle, JoinSet};

/// The tasks of one connection, aborted when it is dropped.
#[derive(Default)]
pub(in crate::transport) struct ConnectionTasks(Mutex<JoinSet<()>>);

impl ConnectionTasks {
    /// Polls a short task once, and spawns it if it is not done.
    pub(in crate::transport) fn finish_or_spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut task = Box::pin(task);
        // Mostly everything has arrived already, and nothing needs to be spawned.
        if task.as_mut().now_or_never().is_none() {
            self.spawn(task);
        }
    }

    /// Spawns a task that ends with the connection.
    pub(in crate::transport) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Aborts all tasks, and waits until they have ended.
    pub(in crate::transport) async fn shutdown(&self) {
        let mut tasks = std::mem::take(&mut *self.lock());
        tasks.shutdown().await;
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
