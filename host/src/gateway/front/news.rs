//! What the gateway lets its clients know unasked: lists that have changed, resources that have new content.

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

use super::calls::{is_wanted, log_line};
use super::due::{Crier, Wanted};
use super::era::{Context, Era};
use super::renewal::Renewal;
use super::resources;
use super::sources::owner;
use super::stops::{Stop, Stoppable};
use super::updates::{SUBSCRIPTION, Update};
use super::{Front, Session, params_of};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::{Incoming, Outlet};
use crate::registry::{Told, Watcher};
use crate::session::{During, News, message};

/// What has changed and is not yet told.
#[derive(Default)]
pub(super) struct Untold {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) updates: Vec<Update>,
    /// There was more than was heard, and it may have been about any resource.
    pub(super) missed: bool,
    /// Lines of logs, as the client gets them.
    pub(super) logs: Vec<String>,
}

/// Tells a client of the initialize era of all that changes, for as long as it can be told.
pub(super) async fn herald(front: Weak<Front>, outlet: Arc<dyn Outlet>) {
    let Some(registry) = front.upgrade().map(|front| Arc::clone(&front.inside.registry)) else { return };
    let mut changes = Changes::new(&registry);
    drop(registry);
    let mut crier = Crier::of_session(&*outlet);
    let mut renewal = Renewal::default();
    loop {
        tokio::select! {
            untold = changes.next(&front, Era::Legacy) => {
                let (Some(untold), Some(front)) = (untold, front.upgrade()) else { return };
                if untold.resources {
                    let lost = lost(front.session().subscribed.iter());
                    renewal.begin(&front, lost);
                }
                let session = front.session();
                crier.take(untold, session.subscribed.iter().map(|(uri, watcher)| (uri, Some(watcher))));
            }
            renewed = renewal.done() => {
                let Some(front) = front.upgrade() else { return };
                for (uri, watcher) in renewed {
                    let mut session = front.session();
                    // It may have been taken back meanwhile.
                    if let Some(known) = session.subscribed.get_mut(&uri) {
                        let before = std::mem::replace(known, watcher);
                        drop((session, before));
                        crier.take_gap(uri);
                    }
                }
            }
            () = crier.again() => {}
        }
        let Some(front) = front.upgrade() else { return };
        if !crier.tell(&front) {
            return;
        }
    }
}

/// The resources whose server was replaced or removed.
fn lost<'a>(watched: impl Iterator<Item = (&'a String, &'a Watcher)>) -> Vec<String> {
    watched.filter(|(_, watcher)| watcher.is_over()).map(|(uri, _)| uri.clone()).collect()
}

/// Answers `subscriptions/listen`: the answer comes when the client has heard enough.
pub(super) async fn listen(
    front: &Front,
    context: &Context,
    id: &RawValue,
    params: &str,
    incoming: &Incoming,
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
    let wanted = Wanted {
        tools: filter.tools_list_changed,
        prompts: filter.prompts_list_changed,
        resources: filter.resources_list_changed,
    };
    let uris: HashSet<String> = filter.resource_subscriptions.unwrap_or_default().into_iter().collect();
    bounds::watched(uris.iter().map(String::as_str))?;
    let mut changes = Changes::new(&front.inside.registry);
    let mut watched = BTreeMap::new();
    for uri in &uris {
        // What cannot be watched is not told of, unless another has it watched; that is all that can be said here.
        if let Ok(Some(watcher)) = watch(front, uri).await {
            watched.insert(uri.clone(), watcher);
        }
    }
    let mut no_news = pin!(front.no_news.notified());
    no_news.as_mut().enable();
    let stop = Arc::new(Notify::new());
    let _stoppable = Stoppable::new(front, id, Stop::Work(Arc::clone(&stop)));
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
    let acknowledged = message::notification("notifications/subscriptions/acknowledged", Some(&acknowledged));
    let mut crier = Crier::of_listener(front, &*incoming.outlet, wanted, id, acknowledged);
    let mut renewal = Renewal::default();
    while crier.tell(front) && !front.is_departed() && !front.leaving.load(Ordering::SeqCst) {
        tokio::select! {
            untold = changes.next(&front.me, Era::Modern) => {
                let (Some(untold), Some(me)) = (untold, front.me.upgrade()) else { break };
                if untold.resources {
                    renewal.begin(&me, lost(watched.iter()));
                }
                crier.take(untold, uris.iter().map(|uri| (uri, watched.get(uri))));
            }
            renewed = renewal.done() => {
                for (uri, watcher) in renewed {
                    crier.take_gap(uri.clone());
                    watched.insert(uri, watcher);
                }
            }
            () = crier.again() => {}
            () = stop.notified() => break,
            () = &mut no_news => break,
        }
    }
    Ok(context.dress(format!("{{{meta}}}")))
}

/// Subscribes a client of the initialize era to a resource, or takes that back.
pub(super) async fn subscribe(front: &Front, params: &str, on: bool) -> Result<String, RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
    let Params { uri } = params_of(method, params)?;
    if !on {
        drop(front.session().subscribed.remove(&uri));
        return Ok("{}".to_owned());
    }
    bounds::uri(&uri)?;
    let room = |session: &Session| {
        let others = session.subscribed.keys().filter(|known| **known != uri);
        bounds::watched(others.chain([&uri]).map(String::as_str))
    };
    room(&front.session())?;
    let watcher = watch(front, &uri).await?.ok_or_else(|| resources::missing(Era::Legacy, &uri))?;
    let mut session = front.session();
    // Others may have come meanwhile.
    room(&session)?;
    session.subscribed.insert(uri, watcher);
    Ok("{}".to_owned())
}

/// Watches a resource for the client, at the server that has it; none where there is no such server.
pub(super) async fn watch(front: &Front, uri: &str) -> Result<Option<Watcher>, RpcError> {
    let Some(owner) = owner(front, uri).await? else { return Ok(None) };
    let watcher = owner.link.watch(&owner.lease, uri).await;
    watcher.map(Some).map_err(|failed| resources::refused(front, owner.link.id(), failed))
}

/// What changes, gathered for a little while so that many changes are one.
struct Changes {
    tools: tokio::sync::watch::Receiver<u64>,
    news: tokio::sync::broadcast::Receiver<Told>,
    /// What was heard so far, and until when more is waited for.
    untold: Untold,
    until: Option<Instant>,
}

impl Changes {
    fn new(registry: &crate::registry::Registry) -> Self {
        let mut tools = registry.tools_changed();
        tools.mark_unchanged();
        Changes { tools, news: registry.news(), untold: Untold::default(), until: None }
    }

    /// The next changes that are this client's business; none where there will be no more. Whoever waits no longer may do so
    /// again, and misses nothing.
    async fn next(&mut self, front: &Weak<Front>, era: Era) -> Option<Untold> {
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
                    self.untold.tools = true;
                }
                news = self.news.recv() => match news {
                    Ok(told) => {
                        if !self.untold.take(&*front.upgrade()?, era, told) {
                            continue;
                        }
                        if !self.untold.logs.is_empty() && self.until.is_none() {
                            return Some(self.take());
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.untold.miss(),
                    Err(RecvError::Closed) => return None,
                },
            }
            self.until.get_or_insert_with(|| Instant::now() + COALESCE);
        }
    }

    fn take(&mut self) -> Untold {
        self.until = None;
        std::mem::take(&mut self.untold)
    }
}

impl Untold {
    /// What was not heard may have been anything.
    fn miss(&mut self) {
        (self.prompts, self.resources, self.missed) = (true, true, true);
    }

    /// Takes what a server told, where that is for the client; says whether it is.
    fn take(&mut self, front: &Front, era: Era, Told { link, news }: Told) -> bool {
        let link = link.map(|link| link.upgrade().filter(|link| front.gate.hears(link)));
        if let Some(None) = link {
            return false;
        }
        match news {
            News::PromptsChanged => self.prompts = true,
            News::ResourcesChanged => self.resources = true,
            News::ResourceUpdated { uri, params } => {
                let Some(link) = link.flatten() else { return false };
                let update = Update::new(&link, uri, params);
                self.updates.retain(|known| !known.is_of(&update));
                self.updates.push(update);
            }
            // What is logged during a request goes the way of that request, to its client alone; the later era knows no
            // other lines.
            News::Log { level, logger, data, during, number } if era == Era::Legacy && is_for(front, &during) => {
                let Some(link) = link.flatten() else { return false };
                let wanted = is_wanted(&level, front.session().log_level);
                if !wanted || !front.is_untold(number) {
                    return false;
                }
                let masked =
                    front.gate.mask(link.id(), data.get()).ok().and_then(|data| RawValue::from_string(data).ok());
                let Some(data) = masked else { return false };
                let logger = logger.and_then(|logger| front.gate.mask_text(link.id(), &logger).ok());
                let Some(line) = log_line(front, &level, logger.as_deref(), data) else { return false };
                self.logs.push(line);
            }
            News::Log { .. } | News::ToolsChanged | News::Closed => return false,
        }
        true
    }
}

/// Whether a line that a server logs at such a moment is for all clients of this principal: what is of no request, or of one
/// that the principal has given up.
fn is_for(front: &Front, during: &During) -> bool {
    match during {
        During::Nobody => true,
        During::Deserted(principal) => *principal == front.name,
        During::One(_) | During::Several => false,
    }
}

/// Changes that come in so short a time are told as one.
const COALESCE: Duration = Duration::from_millis(100);
