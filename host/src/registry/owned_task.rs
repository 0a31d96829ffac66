//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// A task that is stopped when this is dropped.
#[derive(Debug)]
pub(super) struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    /// Starts the work.
    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        OwnedTask(tokio::spawn(work))
    }

    /// Stops the work, and waits until nothing of it is left.
    pub(super) async fn stop(mut self) {
        self.0.abort();
        // It was stopped, or had ended before.
        let _ = (&mut self.0).await;
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
