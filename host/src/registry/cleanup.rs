//! Cleanup in the background, which only closing the registry waits for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::session::Session;

/// Sessions that are being closed, and other cleanup.
#[derive(Default)]
pub(super) struct Cleanup {
    tasks: Mutex<JoinSet<()>>,
    /// True once the registry is closing; nothing is opened any more.
    shutdown: watch::Sender<bool>,
}

impl Cleanup {
    /// Closes a session once it is idle, after `longest`, or when the registry closes.
    pub(super) fn close_after_use(&self, session: Arc<Session>, longest: Duration) {
        let mut over = self.shutdown.subscribe();
        self.spawn(async move {
            let used = async {
                while Arc::strong_count(&session) > 1 && session.close_reason().is_none() {
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
            };
            tokio::select! {
                () = used => {}
                _ = tokio::time::timeout(longest, over.wait_for(|over| *over)) => {}
            }
            session.close().await;
        });
    }

    /// Runs cleanup in the background; only closing the registry waits for it.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// Stops the opening of new connections.
    pub(super) fn begin_shutdown(&self) {
        self.shutdown.send_replace(true);
    }

    /// Reports whether the registry is closing.
    pub(super) fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }

    /// Waits until all cleanup is done.
    pub(super) async fn wait_closed(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.join_all().await;
    }

    /// Aborts all cleanup.
    pub(super) fn abort(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// How often to check whether a session is still in use.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
