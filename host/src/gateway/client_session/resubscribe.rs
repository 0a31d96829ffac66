//! Renews the subscriptions to resources whose server was replaced or removed, at the server that has them now.

use std::sync::{Arc, Weak};

use super::ClientSession;
use super::sources::watch;
use crate::registry::ResourceWatcher;
use crate::transport::BoxFuture;

/// Renews the subscriptions of one client, one round at a time.
#[derive(Default)]
pub(super) struct Resubscriber {
    work: Option<BoxFuture<'static, NewWatchers>>,
    /// The next round, which starts when `work` is done.
    next: Option<(Weak<ClientSession>, Vec<String>)>,
}

/// The resources with renewed subscriptions.
pub(super) type NewWatchers = Vec<(String, ResourceWatcher)>;

impl Resubscriber {
    /// Starts to renew these subscriptions, or queues them if a round is running.
    pub(super) fn begin(&mut self, client: &Arc<ClientSession>, uris: Vec<String>) {
        if uris.is_empty() {
            return;
        }
        match &self.work {
            None => self.work = Some(Box::pin(resubscribe(Arc::downgrade(client), uris))),
            Some(_) => self.next = Some((Arc::downgrade(client), uris)),
        }
    }

    /// Waits until the running round is done. This is cancel-safe.
    pub(super) async fn done(&mut self) -> NewWatchers {
        let Some(work) = &mut self.work else { return std::future::pending().await };
        let renewed = work.await;
        self.work = None;
        if let Some((Some(client), mut uris)) = self.next.take().map(|(client, uris)| (client.upgrade(), uris)) {
            uris.retain(|uri| !renewed.iter().any(|(known, _)| known == uri));
            self.begin(&client, uris);
        }
        renewed
    }
}

async fn resubscribe(client: Weak<ClientSession>, uris: Vec<String>) -> NewWatchers {
    let mut renewed = Vec::new();
    for uri in uris {
        let Some(client) = client.upgrade() else { break };
        // A resource that no server has now is tried again after the next change.
        if let Ok(Some(watcher)) = watch(&client, &uri).await {
            renewed.push((uri, watcher));
        }
    }
    renewed
}
