//! Notifications to clients: changed lists, updated resources and log messages.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::calls::{log_line, passes_level};
use super::cancellation::{CancelGuard, CancelHandle};
use super::era::{Era, RequestContext};
use super::notifier::{ClientNotifier, ListSubscriptions};
use super::resources;
use super::resubscribe::Resubscriber;
use super::sources::find_owner;
use super::updates::{ResourceUpdate, SUBSCRIPTION};
use super::{ClientSession, Envelope, SessionState, params_of};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::ClientSink;
use crate::registry::{LinkEvent, ResourceWatcher};
use crate::rpc;
use crate::session::{ActiveCallers, ServerEvent};

/// Changes that the client has not been notified of.
#[derive(Default)]
pub(super) struct ChangeSet {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) updates: Vec<ResourceUpdate>,
    /// Whether events were missed; they may have been about any resource.
    pub(super) missed: bool,
    /// Log notifications, ready to be sent.
    pub(super) logs: Vec<String>,
}

/// Notifies a client of the initialize era of all changes, until it disconnects.
pub(super) async fn run_notifier(client: Weak<ClientSession>, sink: Arc<dyn ClientSink>) {
    let Some(registry) = client.upgrade().map(|client| Arc::clone(&client.gateway.registry)) else { return };
    let mut changes = ClientChanges::new(&registry);
    drop(registry);
    let mut notifier = ClientNotifier::for_session(&*sink);
    let mut renewal = Resubscriber::default();
    loop {
        tokio::select! {
            untold = changes.next(&client, Era::Legacy) => {
                let (Some(untold), Some(client)) = (untold, client.upgrade()) else { return };
                if untold.resources {
                    let lost = lost_subscriptions(client.session().subscribed.iter());
                    renewal.begin(&client, lost);
                }
                let session = client.session();
                notifier.queue(untold, session.subscribed.iter().map(|(uri, watcher)| (uri, Some(watcher))));
            }
            renewed = renewal.done() => {
                let Some(client) = client.upgrade() else { return };
                for (uri, watcher) in renewed {
                    let mut session = client.session();
                    // The client may have unsubscribed meanwhile.
                    if let Some(known) = session.subscribed.get_mut(&uri) {
                        let before = std::mem::replace(known, watcher);
                        drop((session, before));
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
pub(super) async fn listen(
    client: &ClientSession,
    context: &RequestContext,
    id: &str,
    params: &str,
    envelope: &Envelope,
) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        notifications: Filter,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Filter {
        #[serde(default)]
        tools_list_changed: bool,
        #[serde(default)]
        prompts_list_changed: bool,
        #[serde(default)]
        resources_list_changed: bool,
        #[serde(default)]
        resource_subscriptions: Option<Vec<String>>,
    }
    let Params { notifications: filter } = params_of("subscriptions/listen", params)?;
    let wanted = ListSubscriptions {
        tools: filter.tools_list_changed,
        prompts: filter.prompts_list_changed,
        resources: filter.resources_list_changed,
    };
    let uris: HashSet<String> = filter.resource_subscriptions.unwrap_or_default().into_iter().collect();
    bounds::check_subscriptions(uris.iter().map(String::as_str))?;
    let mut changes = ClientChanges::new(&client.gateway.registry);
    let mut watched = BTreeMap::new();
    for uri in &uris {
        // A resource that cannot be watched gets updates only if another client watches it; the protocol has no error
        // for this.
        if let Ok(Some(watcher)) = watch(client, uri).await {
            watched.insert(uri.clone(), watcher);
        }
    }
    let mut no_news = pin!(client.subscriptions_ended.notified());
    no_news.as_mut().enable();
    let stop = Arc::new(Notify::new());
    let _stoppable = CancelGuard::new(client, id, CancelHandle::Task(Arc::clone(&stop)));
    let meta = format!(r#""_meta":{{"{SUBSCRIPTION}":{id}}}"#);
    let mut granted = serde_json::Map::new();
    for (name, on) in [
        ("toolsListChanged", wanted.tools),
        ("promptsListChanged", wanted.prompts),
        ("resourcesListChanged", wanted.resources),
    ] {
        if on {
            granted.insert(name.to_owned(), true.into());
        }
    }
    if !uris.is_empty() {
        granted.insert("resourceSubscriptions".to_owned(), json!(uris.iter().collect::<Vec<_>>()));
    }
    let acknowledged = format!(r#"{{{meta},"notifications":{}}}"#, serde_json::Value::Object(granted));
    let acknowledged = rpc::notification("notifications/subscriptions/acknowledged", Some(&acknowledged));
    let mut notifier = ClientNotifier::for_subscription(client, &*envelope.sink, wanted, id, acknowledged);
    let mut renewal = Resubscriber::default();
    while notifier.flush(client) && !client.is_revoked() && !client.closing.load(Ordering::SeqCst) {
        tokio::select! {
            untold = changes.next(&client.me, Era::Modern) => {
                let (Some(untold), Some(me)) = (untold, client.me.upgrade()) else { break };
                if untold.resources {
                    renewal.begin(&me, lost_subscriptions(watched.iter()));
                }
                notifier.queue(untold, uris.iter().map(|uri| (uri, watched.get(uri))));
            }
            renewed = renewal.done() => {
                for (uri, watcher) in renewed {
                    notifier.queue_gap(uri.clone());
                    watched.insert(uri, watcher);
                }
            }
            () = notifier.wait_for_retry() => {}
            () = stop.notified() => break,
            () = &mut no_news => break,
        }
    }
    Ok(context.finish_result(format!("{{{meta}}}")))
}

/// Handles `resources/subscribe` (if `on`) and `resources/unsubscribe` in the initialize era.
pub(super) async fn subscribe(client: &ClientSession, params: &str, on: bool) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
    let Params { uri } = params_of(method, params)?;
    if !on {
        drop(client.session().subscribed.remove(&uri));
        return Ok("{}".to_owned());
    }
    bounds::check_uri(&uri)?;
    let room = |session: &SessionState| {
        let others = session.subscribed.keys().filter(|known| **known != uri);
        bounds::check_subscriptions(others.chain([&uri]).map(String::as_str))
    };
    room(&client.session())?;
    let watcher = watch(client, &uri).await?.ok_or_else(|| resources::missing(Era::Legacy, &uri))?;
    let mut session = client.session();
    // Checked again, since other subscriptions may have been added meanwhile.
    room(&session)?;
    session.subscribed.insert(uri, watcher);
    Ok("{}".to_owned())
}

/// Subscribes to a resource at the server that has it; returns `None` if there is no such server.
pub(super) async fn watch(client: &ClientSession, uri: &str) -> Result<Option<ResourceWatcher>, RpcError> {
    let Some(owner) = find_owner(client, uri).await? else { return Ok(None) };
    let watcher = owner.link.watch(&owner.lease, uri).await;
    watcher.map(Some).map_err(|failed| resources::client_error(client, owner.link.id(), failed))
}

/// Collects the changes for one client, and merges those that come shortly after each other.
struct ClientChanges {
    tools: tokio::sync::watch::Receiver<u64>,
    news: tokio::sync::broadcast::Receiver<LinkEvent>,
    /// The changes collected so far; they are returned at `until`.
    pending: ChangeSet,
    until: Option<Instant>,
}

impl ClientChanges {
    fn new(registry: &crate::registry::Registry) -> Self {
        let mut tools = registry.tools_changed();
        tools.mark_unchanged();
        ClientChanges { tools, news: registry.events(), pending: ChangeSet::default(), until: None }
    }

    /// Waits for the next changes that concern this client; returns `None` if there will be no more. This is
    /// cancel-safe.
    async fn next(&mut self, client: &Weak<ClientSession>, era: Era) -> Option<ChangeSet> {
        loop {
            let until = self.until;
            let enough = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = enough => return Some(self.take()),
                changed = self.tools.changed() => {
                    changed.ok()?;
                    self.pending.tools = true;
                }
                news = self.news.recv() => match news {
                    Ok(told) => {
                        if !self.pending.take(&*client.upgrade()?, era, told) {
                            continue;
                        }
                        if !self.pending.logs.is_empty() && self.until.is_none() {
                            return Some(self.take());
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.pending.mark_missed(),
                    Err(RecvError::Closed) => return None,
                },
            }
            self.until.get_or_insert_with(|| Instant::now() + COALESCE);
        }
    }

    fn take(&mut self) -> ChangeSet {
        self.until = None;
        std::mem::take(&mut self.pending)
    }
}

impl ChangeSet {
    /// Marks everything as changed, because missed events may have been about anything.
    fn mark_missed(&mut self) {
        (self.prompts, self.resources, self.missed) = (true, true, true);
    }

    /// Adds a server's event if it is for the client; reports whether it is.
    fn take(&mut self, client: &ClientSession, era: Era, LinkEvent { link, event }: LinkEvent) -> bool {
        let link = link.map(|link| link.upgrade().filter(|link| client.gate.receives_from(link)));
        if let Some(None) = link {
            return false;
        }
        match event {
            ServerEvent::PromptsChanged => self.prompts = true,
            ServerEvent::ResourcesChanged => self.resources = true,
            ServerEvent::ResourceUpdated { uri, params } => {
                let Some(link) = link.flatten() else { return false };
                let update = ResourceUpdate::new(&link, uri, params);
                self.updates.retain(|known| !known.is_of(&update));
                self.updates.push(update);
            }
            // Messages logged during a request go to its client, on its own stream. The later era has no others.
            ServerEvent::Log { level, logger, data, callers, number }
                if era == Era::Legacy && is_for(client, &callers) =>
            {
                let Some(link) = link.flatten() else { return false };
                let wanted = passes_level(&level, client.session().log_level);
                if !wanted || !client.mark_log_sent(number) {
                    return false;
                }
                let masked =
                    client.gate.mask(link.id(), data.get()).ok().and_then(|data| RawValue::from_string(data).ok());
                let Some(data) = masked else { return false };
                let logger = logger.and_then(|logger| client.gate.mask_text(link.id(), &logger).ok());
                let Some(line) = log_line(client, &level, logger.as_deref(), data) else { return false };
                self.logs.push(line);
            }
            ServerEvent::Log { .. } | ServerEvent::ToolsChanged | ServerEvent::Closed => return false,
        }
        true
    }
}

/// Reports whether a log message is for all clients of this principal: it belongs to no request, or to one that the
/// principal gave up.
fn is_for(client: &ClientSession, during: &ActiveCallers) -> bool {
    match during {
        ActiveCallers::Unknown => true,
        ActiveCallers::Abandoned(principal) => *principal == client.name,
        ActiveCallers::One(_) | ActiveCallers::Several => false,
    }
}

/// Changes within this time are merged into one notification.
const COALESCE: Duration = Duration::from_millis(100);
