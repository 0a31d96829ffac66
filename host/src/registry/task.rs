//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// A task that is stopped when this is dropped.
#[derive(Debug)]
pub(super) struct Task(JoinHandle<()>);

impl Task {
    /// Starts the work.
    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Task(tokio::spawn(work))
    }

    /// Stops the work, and waits until nothing of it is left.
    pub(super) async fn stop(mut self) {
        self.0.abort();
        // It was stopped, or had ended before.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
