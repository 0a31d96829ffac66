//! Resources whose content is watched: a server is told so in the way of its era, once for all who watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde_json::json;
use tokio::sync::watch;

use super::caller::Caller;
use super::{Era, RequestTimeouts, Session, SessionRequest};
use crate::failure::{Failure, RequestError, RpcError};
use crate::rpc::code::METHOD_NOT_FOUND;

/// The resources that are watched, and by how many.
#[derive(Default)]
pub(super) struct SubscriptionCounts(watch::Sender<BTreeMap<String, usize>>);

/// A resource is watched for as long as this lives.
pub struct ResourceSubscription {
    session: Weak<Session>,
    uri: String,
}

impl Session {
    /// Watches a resource: its new content is news from now on.
    pub async fn watch(self: &Arc<Self>, uri: &str) -> Result<ResourceSubscription, RequestError> {
        if self.peer.era == Era::Modern && !self.peer.features.subscribe {
            let text = "the server does not tell when its resources have new content";
            return Err(RequestError::unsent(Failure::Rpc(RpcError::new(METHOD_NOT_FOUND, text))));
        }
        // From here on it is counted, and counted out when this fails or is dropped.
        let watching = ResourceSubscription { session: Arc::downgrade(self), uri: uri.to_owned() };
        self.subscriptions.0.send_modify(|uris| *uris.entry(uri.to_owned()).or_default() += 1);
        if self.peer.era == Era::Legacy {
            // A server that knows it already may be told again, and the answer is for who asks.
            self.send_uri("resources/subscribe", uri).await?;
        }
        Ok(watching)
    }

    /// Hears of the resources that are watched, for as long as the future lives.
    pub(super) async fn listen_to_watched(&self) -> Result<(), RequestError> {
        let mut watched = self.subscriptions.0.subscribe();
        loop {
            let uris: Vec<_> = watched.borrow_and_update().keys().cloned().collect();
            let listen = async {
                if uris.is_empty() {
                    return std::future::pending().await;
                }
                let params = json!({"notifications": {"resourceSubscriptions": uris}}).to_string();
                let (method, timeouts) = ("subscriptions/listen", RequestTimeouts::unlimited());
                let request = SessionRequest { method, params: &params, timeouts, progress: None };
                self.exchange(&request, &params, &Caller::default()).await.map(drop)
            };
            tokio::select! {
                ended = listen => return ended,
                // The sender is a part of this session, so that it is there.
                _ = watched.changed() => {}
            }
        }
    }

    async fn send_uri(&self, method: &str, uri: &str) -> Result<(), RequestError> {
        let params = json!({"uri": uri}).to_string();
        let request = SessionRequest {
            method,
            params: &params,
            timeouts: RequestTimeouts::of(self.list_timeout),
            progress: None,
        };
        self.exchange(&request, &params, &Caller::default()).await.map(drop)
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
                // Another may watch it again this moment; a server that goes on telling does no harm.
                let _ = session.send_uri("resources/unsubscribe", &uri).await;
            });
        }
    }
}
