//! What the gateway lets its clients know unasked: lists that have changed, resources that have new content.

use std::collections::HashSet;
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
use super::era::{Context, Era};
use super::resources;
use super::sources::owner;
use super::stops::{Stop, Stoppable};
use super::{Front, INVALID_PARAMS, Session, params_of};
use crate::failure::RpcError;
use crate::gateway::bounds;
use crate::gateway::client::{Incoming, Outlet};
use crate::registry::Told;
use crate::session::{During, News, message};

/// What a client wants to hear.
#[derive(Default)]
struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// The resources whose content it wants to hear of.
    uris: HashSet<String>,
}

/// What has changed and is not yet told.
#[derive(Default)]
struct Untold {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: HashSet<String>,
    /// Lines of logs, as the client gets them.
    logs: Vec<String>,
}

/// Tells a client of the initialize era of all that changes, for as long as it can be told.
pub(super) async fn herald(front: Weak<Front>, outlet: Arc<dyn Outlet>) {
    let Some(registry) = front.upgrade().map(|front| Arc::clone(&front.inside.registry)) else { return };
    let mut changes = Changes::new(&registry);
    drop(registry);
    while let Some(mut untold) = changes.next(&front, Era::Legacy).await {
        let Some(front) = front.upgrade() else { return };
        for line in std::mem::take(&mut untold.logs) {
            if !outlet.send(line) {
                return;
            }
        }
        let uris = front.session().subscribed.keys().cloned().collect();
        let wanted = Wanted { tools: true, prompts: true, resources: true, uris };
        let told = notifications(&front, &wanted, &untold).into_iter();
        for (method, params) in told {
            if !outlet.send(message::notification(method, params.as_deref())) {
                return;
            }
        }
    }
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
        uris: filter.resource_subscriptions.unwrap_or_default().into_iter().collect(),
    };
    bounds::watched(wanted.uris.iter().map(String::as_str))?;
    let mut watching = Vec::new();
    for uri in &wanted.uris {
        // What cannot be watched is not told of; that is all that can be said here.
        if let Ok(Some(owner)) = owner(front, uri).await {
            watching.extend(owner.lease.session().watch(uri).await.ok());
        }
    }
    let mut changes = Changes::new(&front.inside.registry);
    let mut no_news = pin!(front.no_news.notified());
    no_news.as_mut().enable();
    let stop = Arc::new(Notify::new());
    let _stoppable = Stoppable::new(front, id, Stop::Work(Arc::clone(&stop)));
    let meta = format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
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
    if !wanted.uris.is_empty() {
        granted.insert("resourceSubscriptions".to_owned(), json!(wanted.uris.iter().collect::<Vec<_>>()));
    }
    let acknowledged = format!(r#"{{{meta},"notifications":{}}}"#, serde_json::Value::Object(granted));
    incoming.outlet.send(message::notification("notifications/subscriptions/acknowledged", Some(&acknowledged)));
    while !front.is_departed() && !front.leaving.load(Ordering::SeqCst) {
        let untold = tokio::select! {
            untold = changes.next(&front.me, Era::Modern) => untold,
            () = stop.notified() => None,
            () = &mut no_news => None,
        };
        let Some(untold) = untold else { break };
        for (method, params) in notifications(front, &wanted, &untold) {
            let params = match params.as_deref().and_then(|params| params.strip_prefix('{')) {
                Some(rest) => format!("{{{meta},{rest}"),
                None => format!("{{{meta}}}"),
            };
            incoming.outlet.send(message::notification(method, Some(&params)));
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
    let missing = || RpcError::new(INVALID_PARAMS, format!("no server has {uri:?}"));
    let owner = owner(front, &uri).await?.ok_or_else(missing)?;
    let watching = owner.lease.session().watch(&uri).await;
    let watching = watching.map_err(|failed| resources::refused(front, owner.link.id(), failed))?;
    let mut session = front.session();
    // Others may have come meanwhile.
    room(&session)?;
    session.subscribed.insert(uri, watching);
    Ok("{}".to_owned())
}

/// What to tell of what has changed: the methods, and their parameters.
fn notifications(front: &Front, wanted: &Wanted, untold: &Untold) -> Vec<(&'static str, Option<String>)> {
    front.follow();
    let mut told = Vec::new();
    // A client that may not use what has changed sees no change.
    if wanted.tools && untold.tools && front.lists.tools_have_changed(front) {
        told.push(("notifications/tools/list_changed", None));
    }
    if wanted.prompts && untold.prompts {
        told.push(("notifications/prompts/list_changed", None));
    }
    if wanted.resources && untold.resources {
        told.push(("notifications/resources/list_changed", None));
    }
    for uri in wanted.uris.intersection(&untold.uris) {
        told.push(("notifications/resources/updated", Some(json!({"uri": uri}).to_string())));
    }
    told
}

/// What changes, gathered for a little while so that many changes are one.
struct Changes {
    tools: tokio::sync::watch::Receiver<u64>,
    news: tokio::sync::broadcast::Receiver<Told>,
}

impl Changes {
    fn new(registry: &crate::registry::Registry) -> Self {
        let mut tools = registry.tools_changed();
        tools.mark_unchanged();
        Changes { tools, news: registry.news() }
    }

    /// The next changes that are this client's business; none where there will be no more.
    async fn next(&mut self, front: &Weak<Front>, era: Era) -> Option<Untold> {
        let mut untold = Untold::default();
        let mut until: Option<Instant> = None;
        loop {
            let enough = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = enough => return Some(untold),
                changed = self.tools.changed() => {
                    changed.ok()?;
                    untold.tools = true;
                }
                news = self.news.recv() => match news {
                    Ok(told) => {
                        if !untold.take(&*front.upgrade()?, era, told) {
                            continue;
                        }
                        if !untold.logs.is_empty() && until.is_none() {
                            return Some(untold);
                        }
                    }
                    // What was missed may have been anything.
                    Err(RecvError::Lagged(_)) => (untold.prompts, untold.resources) = (true, true),
                    Err(RecvError::Closed) => return None,
                },
            }
            until.get_or_insert_with(|| Instant::now() + COALESCE);
        }
    }
}

impl Untold {
    /// Takes what a server told, where that is for the client; says whether it is.
    fn take(&mut self, front: &Front, era: Era, Told { link, news }: Told) -> bool {
        let link = link.map(|link| link.upgrade().filter(|link| front.gate.hears(link)));
        if let Some(None) = link {
            return false;
        }
        match news {
            News::PromptsChanged => self.prompts = true,
            News::ResourcesChanged => self.resources = true,
            News::ResourceUpdated { uri } => drop(self.uris.insert(uri)),
            // What is logged during a request goes the way of that request, to its client alone; the later era knows no
            // other lines.
            News::Log { level, logger, data, during: During::Nobody, number } if era == Era::Legacy => {
                let Some(link) = link.flatten() else { return false };
                let wanted = is_wanted(&level, front.session().log_level);
                if !wanted || !front.is_untold(number) {
                    return false;
                }
                let masked =
                    front.gate.mask(link.id(), data.get()).ok().and_then(|data| RawValue::from_string(data).ok());
                let Some(data) = masked else { return false };
                let logger = logger.and_then(|logger| front.gate.mask_text(link.id(), &logger).ok());
                self.logs.push(log_line(&level, logger.as_deref(), &data));
            }
            News::Log { .. } | News::ToolsChanged | News::Closed => return false,
        }
        true
    }
}

/// Changes that come in so short a time are told as one.
const COALESCE: Duration = Duration::from_millis(100);
