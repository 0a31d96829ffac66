//! What the gateway lets its clients know unasked: lists that have changed, resources that have new content.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::era::Context;
use super::resources::{self, owner};
use super::{Front, INVALID_PARAMS};
use crate::failure::RpcError;
use crate::gateway::client::{Incoming, Outlet};
use crate::session::{News, message};

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
}

/// Tells a client of the initialize era of all that changes, for as long as it can be told.
pub(super) async fn herald(front: std::sync::Weak<Front>, outlet: Arc<dyn Outlet>) {
    let Some(registry) = front.upgrade().map(|front| Arc::clone(&front.inside.registry)) else { return };
    let mut changes = Changes::new(&registry);
    drop(registry);
    while let Some(untold) = changes.next().await {
        let Some(front) = front.upgrade() else { return };
        let uris = front.session().subscribed.clone();
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
    let Params { notifications: filter } = serde_json::from_str(params)
        .map_err(|error| RpcError::new(INVALID_PARAMS, format!("subscriptions/listen cannot be read: {error}")))?;
    let wanted = Wanted {
        tools: filter.tools_list_changed,
        prompts: filter.prompts_list_changed,
        resources: filter.resources_list_changed,
        uris: filter.resource_subscriptions.unwrap_or_default().into_iter().collect(),
    };
    let mut changes = Changes::new(&front.inside.registry);
    let stop = Arc::new(Notify::new());
    front.listening().insert(id.get().to_owned(), Arc::clone(&stop));
    let _listening = Listening { front, id: id.get() };
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
    loop {
        let untold = tokio::select! {
            untold = changes.next() => untold,
            () = stop.notified() => None,
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
    let Params { uri } =
        serde_json::from_str(params).map_err(|error| RpcError::new(INVALID_PARAMS, error.to_string()))?;
    let missing = || RpcError::new(INVALID_PARAMS, format!("no server has {uri:?}"));
    let owner = owner(front, &uri).await.ok_or_else(missing)?;
    let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
    resources::ask(front, &owner, method, &json!({"uri": uri}).to_string()).await?;
    let subscribed = &mut front.session().subscribed;
    if on {
        subscribed.insert(uri);
    } else {
        subscribed.remove(&uri);
    }
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
    news: tokio::sync::broadcast::Receiver<News>,
}

impl Changes {
    fn new(registry: &crate::registry::Registry) -> Self {
        let mut tools = registry.tools_changed();
        tools.mark_unchanged();
        Changes { tools, news: registry.news() }
    }

    /// The next changes; none where there will be no more.
    async fn next(&mut self) -> Option<Untold> {
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
                    Ok(News::PromptsChanged) => untold.prompts = true,
                    Ok(News::ResourcesChanged) => untold.resources = true,
                    Ok(News::ResourceUpdated { uri }) => drop(untold.uris.insert(uri)),
                    Ok(_) => continue,
                    // What was missed may have been anything.
                    Err(RecvError::Lagged(_)) => (untold.prompts, untold.resources) = (true, true),
                    Err(RecvError::Closed) => return None,
                },
            }
            until.get_or_insert_with(|| Instant::now() + COALESCE);
        }
    }
}

/// A subscription, for as long as this lives.
struct Listening<'a> {
    front: &'a Front,
    id: &'a str,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.front.listening().remove(self.id);
    }
}

/// Changes that come in so short a time are told as one.
const COALESCE: Duration = Duration::from_millis(100);
