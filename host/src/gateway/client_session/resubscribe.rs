//! Resources whose server was replaced or removed: they are watched anew, at whoever has them now.

use std::sync::{Arc, Weak};

use super::ClientSession;
use super::notifications::watch;
use crate::registry::ResourceWatcher;
use crate::transport::BoxFuture;

/// What is being watched anew for one client, at most once at a time.
#[derive(Default)]
pub(super) struct Resubscriber {
    work: Option<BoxFuture<'static, NewWatchers>>,
    /// What to try when that is done.
    next: Option<(Weak<ClientSession>, Vec<String>)>,
}

/// The resources that are watched again.
pub(super) type NewWatchers = Vec<(String, ResourceWatcher)>;

impl Resubscriber {
    /// Watches these anew.
    pub(super) fn begin(&mut self, client: &Arc<ClientSession>, uris: Vec<String>) {
        if uris.is_empty() {
            return;
        }
        match &self.work {
            None => self.work = Some(Box::pin(resubscribe(Arc::downgrade(client), uris))),
            Some(_) => self.next = Some((Arc::downgrade(client), uris)),
        }
    }

    /// Waits until what is under way is done; whoever waits no longer may do so again.
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
        // What nobody has now somebody may have later.
        if let Ok(Some(watcher)) = watch(&client, &uri).await {
            renewed.push((uri, watcher));
        }
    }
    renewed
}
