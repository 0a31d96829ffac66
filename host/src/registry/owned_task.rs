//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub(super) struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    /// Spawns the task.
    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        OwnedTask(tokio::spawn(work))
    }

    /// Aborts the task, and waits until it has ended.
    pub(super) async fn stop(mut self) {
        self.0.abort();
        // An error only means that the task was aborted.
        let _ = (&mut self.0).await;
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
