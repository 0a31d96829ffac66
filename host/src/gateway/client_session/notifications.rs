//! Notifications to clients: changed lists, updated resources and log messages.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Weak};

use serde::Deserialize;
use tokio::sync::Notify;

use super::cancellation::{CancelGuard, CancelHandle};
use super::changes::ClientChanges;
use super::era::finish_result;
use super::notifier::{ClientNotifier, SubscriptionFilter};
use super::request_context::RequestContext;
use super::sources::watch;
use super::subscriptions::Resubscriber;
use super::updates::SUBSCRIPTION;
use super::{ClientSession, resources};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::ClientSink;
use crate::json::to_raw;
use crate::lock::lock;
use crate::registry::ResourceWatcher;
use crate::rpc;
use crate::session::Era;

/// Starts the task that notifies a client of the initialize era of changes, unless it already runs.
pub(super) fn start_notifier(client: &Arc<ClientSession>) {
    let Some(sink) = client.sink.clone() else { return };
    let notified = Arc::downgrade(client);
    // What changes before the task runs for the first time counts.
    let changes = ClientChanges::new(&client.gateway.registry);
    client.subscriptions.set_notifier(|| tokio::spawn(run_notifier(notified, sink, changes)).abort_handle());
}

/// Notifies a client of the initialize era of all changes, until it disconnects.
async fn run_notifier(client: Weak<ClientSession>, sink: Arc<dyn ClientSink>, mut changes: ClientChanges) {
    let mut notifier = ClientNotifier::for_session(&*sink);
    let mut renewal = Resubscriber::default();
    loop {
        tokio::select! {
            changed = changes.next(&client, Era::Legacy) => {
                let (Some(changed), Some(client)) = (changed, client.upgrade()) else { return };
                let watched = lock(&client.subscriptions.watched);
                if changed.resources {
                    renewal.begin(&client, lost_subscriptions(watched.iter()));
                }
                notifier.queue(changed, watched.iter().map(|(uri, watcher)| (uri, Some(watcher))));
            }
            renewed = renewal.done() => {
                let Some(client) = client.upgrade() else { return };
                for (uri, watcher) in renewed {
                    let mut watched = lock(&client.subscriptions.watched);
                    // The client may have unsubscribed meanwhile.
                    if let Some(known) = watched.get_mut(&uri) {
                        let before = std::mem::replace(known, watcher);
                        drop((watched, before));
                        notifier.queue_gap(uri);
                    }
                }
            }
            () = notifier.wait_for_retry() => {}
        }
        let Some(client) = client.upgrade() else { return };
        if !notifier.flush(&client) {
            return;
        }
    }
}

/// Returns the watched resources whose server was replaced or removed.
fn lost_subscriptions<'a>(watched: impl Iterator<Item = (&'a String, &'a ResourceWatcher)>) -> Vec<String> {
    watched.filter(|(_, watcher)| watcher.is_over()).map(|(uri, _)| uri.clone()).collect()
}

/// Handles `subscriptions/listen`; the result is sent when the subscription ends.
pub(super) async fn listen(context: &RequestContext<'_>) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        notifications: SubscriptionFilter,
    }
    let Params { notifications: mut filter } = context.params()?;
    let (client, id) = (context.client, context.request.id());
    let uris = filter.resource_subscriptions.take().unwrap_or_default();
    bounds::check_subscriptions(uris.iter().map(String::as_str))?;
    filter.resource_subscriptions = Some(uris.clone()).filter(|uris| !uris.is_empty());
    let mut changes = ClientChanges::new(&client.gateway.registry);
    let mut watched = BTreeMap::new();
    for uri in &uris {
        // A resource that cannot be watched gets updates only if another client watches it; the protocol has no error
        // for this.
        if let Ok(Some(watcher)) = watch(client, uri).await {
            watched.insert(uri.clone(), watcher);
        }
    }
    let mut ended = pin!(client.subscriptions.ended.notified());
    ended.as_mut().enable();
    let stop = Arc::new(Notify::new());
    let _cancellable = CancelGuard::new(context, CancelHandle::Task(Arc::clone(&stop)));
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION}":{id}}}"#);
    let acknowledged = format!(r#"{{{meta},"notifications":{}}}"#, to_raw(&filter));
    let acknowledged = rpc::notification("notifications/subscriptions/acknowledged", Some(&acknowledged));
    let mut notifier = ClientNotifier::for_subscription(context, filter, acknowledged);
    let (me, mut renewal) = (Arc::downgrade(client), Resubscriber::default());
    while notifier.flush(client) && !client.is_revoked() && !client.subscriptions.is_closing() {
        tokio::select! {
            changed = changes.next(&me, Era::Modern) => {
                let Some(changed) = changed else { break };
                if changed.resources {
                    renewal.begin(client, lost_subscriptions(watched.iter()));
                }
                notifier.queue(changed, uris.iter().map(|uri| (uri, watched.get(uri))));
            }
            renewed = renewal.done() => {
                for (uri, watcher) in renewed {
                    notifier.queue_gap(uri.clone());
                    watched.insert(uri, watcher);
                }
            }
            () = notifier.wait_for_retry() => {}
            () = stop.notified() => break,
            () = &mut ended => break,
        }
    }
    Ok(finish_result(context.era, format!("{{{meta}}}")))
}

/// Handles `resources/subscribe` in the initialize era.
pub(super) async fn subscribe(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let resources::ResourceParams { uri } = context.params()?;
    bounds::check_uri(&uri)?;
    let subscribed = &context.client.subscriptions.watched;
    let check_room = |watched: &HashMap<String, ResourceWatcher>| {
        let others = watched.keys().filter(|known| **known != uri);
        bounds::check_subscriptions(others.chain([&uri]).map(String::as_str))
    };
    context.client.load_changes().await;
    check_room(&lock(subscribed))?;
    let watcher = watch(context.client, &uri).await?.ok_or_else(|| resources::missing(Era::Legacy, &uri))?;
    {
        let mut watched = lock(subscribed);
        // Checked again, since other subscriptions may have been added meanwhile.
        check_room(&watched)?;
        watched.insert(uri, watcher);
    }
    context.client.share_changes().await;
    Ok("{}".to_owned())
}

/// Handles `resources/unsubscribe` in the initialize era.
pub(super) async fn unsubscribe(context: &RequestContext<'_>) -> Result<String, RpcError> {
    let resources::ResourceParams { uri } = context.params()?;
    context.client.load_changes().await;
    drop(lock(&context.client.subscriptions.watched).remove(&uri));
    context.client.share_changes().await;
    Ok("{}".to_owned())
}
