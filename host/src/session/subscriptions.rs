//! Subscriptions to resources, in the way of the server's era; one per resource, shared by all watchers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde_json::json;
use tokio::sync::watch;

use super::{Era, RequestTimeouts, Session};
use crate::failure::{Failure, RequestError, RpcError};
use crate::rpc::code::METHOD_NOT_FOUND;

/// The number of watchers of each resource.
#[derive(Default)]
pub(super) struct SubscriptionCounts(watch::Sender<BTreeMap<String, usize>>);

/// Watches a resource while it exists.
pub struct ResourceSubscription {
    session: Weak<Session>,
    uri: String,
}

impl Session {
    /// Watches a resource: its updates are events from now on.
    pub async fn watch(self: &Arc<Self>, uri: &str) -> Result<ResourceSubscription, RequestError> {
        if self.peer.era == Era::Modern && !self.peer.features.subscribe {
            let text = "the server does not support subscriptions to resources";
            return Err(RequestError::unsent(Failure::Rpc(RpcError::new(METHOD_NOT_FOUND, text))));
        }
        // The watcher counts from here on, and stops counting when it is dropped.
        let watching = ResourceSubscription { session: Arc::downgrade(self), uri: uri.to_owned() };
        self.subscriptions.0.send_modify(|uris| *uris.entry(uri.to_owned()).or_default() += 1);
        if self.peer.era == Era::Legacy {
            // Subscribing twice is allowed, and this caller needs the answer.
            self.send_uri("resources/subscribe", uri).await?;
        }
        Ok(watching)
    }

    /// Receives updates of the watched resources while the future is polled.
    pub(super) async fn listen_to_watched(&self) -> Result<(), RequestError> {
        let mut watched = self.subscriptions.0.subscribe();
        loop {
            let uris: Vec<_> = watched.borrow_and_update().keys().cloned().collect();
            let listen = async {
                if uris.is_empty() {
                    return std::future::pending().await;
                }
                let params = json!({"notifications": {"resourceSubscriptions": uris}}).to_string();
                self.request_own("subscriptions/listen", &params, RequestTimeouts::unlimited()).await
            };
            tokio::select! {
                ended = listen => return ended,
                // The sender belongs to this session, so it exists.
                _ = watched.changed() => {}
            }
        }
    }

    async fn send_uri(&self, method: &str, uri: &str) -> Result<(), RequestError> {
        let params = json!({"uri": uri}).to_string();
        self.request_own(method, &params, RequestTimeouts::of(self.list_timeout)).await
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let Some(session) = self.session.upgrade() else { return };
        let mut last = false;
        session.subscriptions.0.send_modify(|uris| {
            let Some(watchers) = uris.get_mut(&self.uri) else { return };
            *watchers -= 1;
            last = *watchers == 0;
            if last {
                uris.remove(&self.uri);
            }
        });
        if last && session.peer.era == Era::Legacy && tokio::runtime::Handle::try_current().is_ok() {
            let (weak, uri) = (Weak::clone(&self.session), std::mem::take(&mut self.uri));
            session.wire.spawn(async move {
                let Some(session) = weak.upgrade() else { return };
                // Another watcher may subscribe at the same time; extra updates do no harm.
                let _ = session.send_uri("resources/unsubscribe", &uri).await;
            });
        }
    }
}
