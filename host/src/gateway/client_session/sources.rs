//! Finds the server of a resource or prompt: first in the lists that are known, then by asking all servers in parallel
//! with a time limit.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use super::ClientSession;
use super::era::{CacheControl, finish_cacheable};
use super::labels::label_error;
use super::request_context::RequestContext;
use super::tool_list::{FIRST_LIST, page};
use crate::failure::{Failure, RequestError, RpcError};
use crate::json::{JsonObject, to_raw};
use crate::registry::{Lease, Link, ResourceWatcher};
use crate::rpc::code::INTERNAL_ERROR;
use crate::session::{ListKind, Listing};

/// A server with a lease on its connection.
pub(super) struct LeasedServer {
    pub(super) link: Arc<Link>,
    pub(super) lease: Lease,
}

/// The list of one server.
pub(super) struct ServerListing {
    pub(super) link: Arc<Link>,
    /// Its items, masked.
    pub(super) items: Vec<JsonObject>,
}

/// The lists of all servers.
pub(super) struct MergedListing {
    pub(super) servers: Vec<ServerListing>,
    /// How long the merged list may be cached, and by whom.
    pub(super) cache: CacheControl,
}

/// Asks all servers for a list in parallel. Servers that fail or take too long are logged and left out.
pub(super) async fn gather(client: &ClientSession, kind: ListKind) -> MergedListing {
    gather_from(client, client.gate.admitted_links(), kind).await
}

/// Asks some servers for a list in parallel. Servers that fail or take too long are logged and left out.
pub(super) async fn gather_from(client: &ClientSession, links: Vec<Arc<Link>>, kind: ListKind) -> MergedListing {
    let ask = links.into_iter().map(|link| async move {
        let (lease, listing) = list(client, &link, kind).await?;
        let mask = |item: &RawValue| JsonObject::read(&client.gate.mask(link.id(), item.get()).ok()?);
        let items = listing.items.iter().filter_map(|item| mask(item)).collect();
        let offers = lease.session().peer().features;
        let offered = if kind == ListKind::Prompts { offers.prompts } else { offers.resources };
        // A server without this feature does not limit the caching.
        let cache = offered.then(|| CacheControl::of(&listing));
        Some((ServerListing { link, items }, cache))
    });
    let answers = futures_util::future::join_all(ask).await;
    // A missing server may answer at any moment, so an incomplete list must not be cached.
    let missing = answers.iter().any(Option::is_none).then_some(CacheControl { ttl_ms: 0, private: false });
    let (servers, parts): (Vec<_>, Vec<_>) = answers.into_iter().flatten().unzip();
    MergedListing {
        servers,
        cache: CacheControl::of_parts(parts.into_iter().chain([missing]).flatten()).for_client(client),
    }
}

/// Returns one page of a merged list; of items with the same `key`, only the first is used.
pub(super) fn merged_page(
    context: &RequestContext<'_>,
    listing: MergedListing,
    name: &str,
    key: &str,
) -> Result<String, RpcError> {
    let mut owners: HashMap<String, String> = HashMap::new();
    let mut items = Vec::new();
    for ServerListing { link, items: own } in listing.servers {
        for item in own {
            // An item whose key is missing or cannot be decoded duplicates no other.
            if let Some(key) = text_member(&item, key) {
                match owners.entry(key) {
                    Entry::Occupied(owner) => {
                        context.client.gateway.warn_duplicate(link.id(), owner.key(), owner.get());
                        continue;
                    }
                    Entry::Vacant(place) => place.insert(link.id().to_owned()),
                };
            }
            items.push(to_raw(&item));
        }
    }
    let page = page(name, &items, context.request.params())?;
    Ok(finish_cacheable(context.era, page, listing.cache))
}

/// Returns the server of a resource: the first that lists it, else the first with a matching template, else the one
/// that linked to it. If there is none, no server learns the URI, because it may be another server's secret.
pub(super) async fn find_owner(client: &ClientSession, uri: &str) -> Result<Option<LeasedServer>, RpcError> {
    let sources = usable(client);
    let mut owner = first(client, &sources, ListKind::Resources, |listing| listing.lists(uri)).await;
    if owner.is_none() {
        owner = first(client, &sources, ListKind::Templates, |listing| listing.has_fitting(uri)).await;
    }
    if owner.is_none() {
        let named = client.sent.links.server_of(uri);
        owner = sources.iter().find(|link| named.as_deref() == Some(link.id()));
    }
    lease_if_found(client, owner).await
}

/// Returns the first server that lists exactly this template.
pub(super) async fn find_template_owner(
    client: &ClientSession,
    template: &str,
) -> Result<Option<LeasedServer>, RpcError> {
    let sources = usable(client);
    let has = |listing: &Listing| listing.templates().any(|known| known == template);
    lease_if_found(client, first(client, &sources, ListKind::Templates, has).await).await
}

async fn lease_if_found(client: &ClientSession, link: Option<&Arc<Link>>) -> Result<Option<LeasedServer>, RpcError> {
    let Some(link) = link else { return Ok(None) };
    lease(client, link).await.map(Some)
}

/// Subscribes to a resource at the server that has it; returns `None` if there is no such server.
pub(super) async fn watch(client: &ClientSession, uri: &str) -> Result<Option<ResourceWatcher>, RpcError> {
    let Some(owner) = find_owner(client, uri).await? else { return Ok(None) };
    if !is_named(client, &owner.link, uri) {
        let noted = client.gate.note_written(None, owner.link.id()).await;
        noted.map_err(|failed| client_error(client, owner.link.id(), failed))?;
    }
    let watcher = owner.link.watch(&owner.lease, uri).await;
    watcher.map(Some).map_err(|failed| client_error(client, owner.link.id(), failed))
}

/// Reports whether a server itself named a resource: it lists it, or linked to it in a result. Else the URI is the
/// client's own text, for a template.
pub(super) fn is_named(client: &ClientSession, link: &Link, uri: &str) -> bool {
    let listing = link.known_others(ListKind::Resources);
    listing.is_some_and(|listing| listing.lists(uri)) || client.sent.links.server_of(uri).as_deref() == Some(link.id())
}

/// Leases the connection of a server.
pub(super) async fn lease(client: &ClientSession, link: &Arc<Link>) -> Result<LeasedServer, RpcError> {
    match link.lease().await {
        Ok(lease) => Ok(LeasedServer { link: Arc::clone(link), lease }),
        Err(why) => Err(client_error(client, link.id(), why.to_failed())),
    }
}

/// Waits until a time, or forever if there is none.
pub(super) async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn usable(client: &ClientSession) -> Vec<Arc<Link>> {
    let mut sources = client.gate.admitted_links();
    sources.retain(|link| !link.is_disabled());
    sources
}

/// Returns the first server, in configuration order, whose list matches. Known lists are used first; if they do not
/// suffice, servers are asked in parallel. After a match, servers before it get only a short time to answer.
async fn first<'a>(
    client: &ClientSession,
    sources: &'a [Arc<Link>],
    kind: ListKind,
    has: impl Fn(&Listing) -> bool,
) -> Option<&'a Arc<Link>> {
    let known: Vec<_> = sources.iter().map(|link| link.known_others(kind)).collect();
    let mut found = known.iter().position(|listing| listing.as_deref().is_some_and(&has));
    // If no known list matches, ask all servers again: their lists may have grown.
    let mut silent: BTreeSet<_> = match found {
        Some(found) => (0..found).filter(|place| known[*place].is_none()).collect(),
        None => (0..sources.len()).collect(),
    };
    let ask = |place: usize| async move { (place, list(client, &sources[place], kind).await) };
    let mut asked: FuturesUnordered<_> = silent.iter().copied().map(ask).collect();
    let mut until = found.map(|_| Instant::now() + PATIENCE);
    while found.is_none_or(|found| silent.range(..found).next().is_some()) {
        tokio::select! {
            answer = asked.next() => {
                let Some((place, listed)) = answer else { break };
                silent.remove(&place);
                if listed.is_some_and(|(_, listing)| has(&listing)) {
                    found = found.map_or(Some(place), |found| Some(found.min(place)));
                    until.get_or_insert_with(|| Instant::now() + PATIENCE);
                }
            }
            () = sleep_until(until) => {
                // The next request does not wait for them.
                let late = silent.iter().filter(|place| found.is_some_and(|found| **place < found));
                late.for_each(|place| client.gateway.slow_servers.ask_in_background(&sources[*place], kind));
                break;
            }
        }
    }
    found.map(|place| &sources[place])
}

/// Asks one server for a list; returns `None` if it fails, takes too long, or did so recently.
async fn list(client: &ClientSession, link: &Arc<Link>, kind: ListKind) -> Option<(Lease, Arc<Listing>)> {
    let slow_servers = &client.gateway.slow_servers;
    if slow_servers.has(link, kind) {
        return None;
    }
    let began = Instant::now();
    let ask = async {
        // A failed start is already logged, and subscribers are notified once the server is up.
        let lease = link.lease_if_it_starts().await.ok()?;
        Some(link.list_others(&lease, kind).await.map(|listing| (lease, listing)))
    };
    match tokio::time::timeout(FIRST_LIST, ask).await {
        Ok(None) => None,
        Ok(Some(Ok(listed))) => Some(listed),
        Ok(Some(Err(why))) => {
            warn!(server = link.id(), "{why}");
            if began.elapsed() > SLOW {
                slow_servers.add(link, kind);
            }
            None
        }
        Err(_) => {
            warn!(
                server = link.id(),
                "no answer to {} within {FIRST_LIST:?}; the server is left out until it answers",
                kind.method()
            );
            slow_servers.ask_in_background(link, kind);
            None
        }
    }
}

/// Turns a failure into the client's error; a server's own error keeps its code and is masked.
pub(super) fn client_error(client: &ClientSession, server: &str, failed: RequestError) -> RpcError {
    match failed.failure {
        Failure::Rpc(error) => label_error(server, client.gate.mask_error(server, error)),
        other => RpcError::new(INTERNAL_ERROR, format!("server {server:?}: {other}")),
    }
}

/// Returns a string member of an item.
pub(super) fn text_member(item: &JsonObject, name: &str) -> Option<String> {
    serde_json::from_str(item.get(name)?.get()).ok()
}

/// A server whose failure took longer than this is not asked again for a while.
const SLOW: Duration = Duration::from_secs(1);
/// How long to wait, after a match, for servers that come before it in the configuration.
const PATIENCE: Duration = Duration::from_secs(3);
