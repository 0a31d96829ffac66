//! Lists of a server, fetched page by page and cached for as long as the server allows.

mod page;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::warn;

use self::page::{ListBudget, ListPage};
use super::item_check::{ItemCheck, check_item};
use super::{Caller, Era, ListKind, RequestTimeouts, ServerEvent, Session, SessionRequest, Topics};
use crate::failure::{Failure, RequestError};
use crate::json;
use crate::rpc::code::METHOD_NOT_FOUND;

/// A complete list, each item as the server wrote it except for unreadable members.
#[derive(Debug, Default)]
pub struct Listing {
    /// The items, in the server's order.
    pub items: Vec<Arc<RawValue>>,
    /// How long the list is valid, if the server says so.
    pub ttl: Option<Duration>,
    /// Whether the list is valid only for these credentials.
    pub private: bool,
    /// A description of the limit, if the server's list exceeds it and was cut.
    pub cut: Option<String>,
}

impl Session {
    /// Returns all items of a kind; empty if the server does not offer it. A valid cached list is reused, but an
    /// outdated one never replaces an error.
    pub async fn list(&self, kind: ListKind) -> Result<Arc<Listing>, RequestError> {
        let offers = self.peer.features;
        let offered = match kind {
            ListKind::Tools => offers.tools,
            ListKind::Resources | ListKind::Templates => offers.resources,
            ListKind::Prompts => offers.prompts,
        };
        if !offered {
            return Ok(Arc::default());
        }
        match self.list_cache.lookup(kind) {
            Some(listing) => Ok(listing),
            None => self.fetch_again(kind, self.list_timeout).await,
        }
    }

    /// Fetches all items of a kind, even if the cached list is still valid; `limit` applies to each page.
    pub async fn fetch_again(&self, kind: ListKind, limit: Duration) -> Result<Arc<Listing>, RequestError> {
        let generation = self.list_cache.generation(kind);
        let listing = match self.fetch(kind, limit, &Caller::default()).await {
            Ok(listing) => Arc::new(listing),
            // Many servers declare more than they have; their tools still work.
            Err(RequestError { failure: Failure::Rpc(error), .. })
                if kind != ListKind::Tools && error.code == METHOD_NOT_FOUND =>
            {
                Arc::default()
            }
            Err(failed) => return Err(failed),
        };
        let until = match self.peer.era {
            Era::Modern => Some(Instant::now() + listing.ttl.unwrap_or_default()),
            Era::Legacy if self.peer.features.list_changed => None,
            Era::Legacy => Some(Instant::now() + UNANNOUNCED_LIST_AGE),
        };
        self.list_cache.put(kind, generation, Arc::clone(&listing), until);
        Ok(listing)
    }

    /// Reports whether the server announced other tools than it last listed.
    pub(crate) fn has_changed_tools(&self) -> bool {
        self.list_cache.is_outdated(ListKind::Tools)
    }

    /// Fetches the tools as a client with these topics sees them. Only a server of 2026-07-28 is told the topics with
    /// each request; an older one knows those of the handshake.
    pub(crate) async fn list_tools_as(&self, topics: Topics) -> Result<Listing, RequestError> {
        let capabilities = Some(topics.capabilities(Era::Modern).into());
        self.fetch(ListKind::Tools, self.list_timeout, &Caller { capabilities, ..Caller::default() }).await
    }

    async fn fetch(&self, kind: ListKind, limit: Duration, caller: &Caller) -> Result<Listing, RequestError> {
        let method = kind.method();
        let mut listing = Listing::default();
        let mut room = ListBudget::new(self.list_bytes);
        let mut cursors = HashSet::new();
        let mut params = "{}".to_owned();
        for _ in 0..MAX_PAGES {
            let request = SessionRequest::new(method, &params, RequestTimeouts::of(limit));
            let asked = self.request_for(request, caller).await;
            let reply = asked.map_err(|failed| failed.with_method(method))?;
            let page: ListPage = reply.read(method)?;
            if page.result_type.is_some_and(|kind| kind.get() != r#""complete""#) {
                let how = format!("the result of {method} has an unknown resultType");
                return Err(RequestError::sent(Failure::Protocol(how)));
            }
            room.take_page(reply.json().len());
            listing.add(&page, kind, self, &mut room);
            if let Some(bound) = room.exceeded_bound() {
                return Ok(listing.cut(method, bound));
            }
            match page.next_cursor.map(RawValue::get) {
                None | Some("null" | r#""""#) => return Ok(listing),
                Some(cursor) if cursors.insert(cursor.to_owned()) => params = format!(r#"{{"cursor":{cursor}}}"#),
                Some(_) => {
                    // All pages up to here are complete, and the next one was already seen.
                    warn!(method, "the server repeats a cursor; the list ends here");
                    return Ok(listing);
                }
            }
        }
        Ok(listing.cut(method, format!("{MAX_PAGES} pages")))
    }
}

impl Listing {
    /// Reports whether the list has a resource with this URI.
    pub fn lists(&self, uri: &str) -> bool {
        self.texts("uri").any(|known| known == uri)
    }

    /// Reports whether this URI matches a template in the list.
    pub fn has_fitting(&self, uri: &str) -> bool {
        self.templates().any(|template| fits(&template, uri))
    }

    /// Returns the URI templates in the list.
    pub fn templates(&self) -> impl Iterator<Item = String> {
        self.texts("uriTemplate")
    }

    /// Returns the texts of a member of all items that have it.
    fn texts(&self, member: &'static str) -> impl Iterator<Item = String> {
        self.items.iter().filter_map(move |item| {
            let [place] = json::find_members(item.get(), [member]).ok()?;
            json::decode_string(&item.get()[place?])
        })
    }

    /// Marks the list as cut at this limit.
    fn cut(self, method: &str, bound: String) -> Self {
        let cut = format!("{method} is longer than {bound}");
        warn!(kept = self.items.len(), "a list was cut: {cut}");
        Listing { cut: Some(cut), ..self }
    }

    fn add(&mut self, page: &ListPage<'_>, kind: ListKind, session: &Session, room: &mut ListBudget) {
        let strict = kind == ListKind::Tools && session.peer.era == Era::Modern && session.wire.is_web();
        let mut left_out = Vec::new();
        for item in page.items(kind) {
            if !room.take_item(item.get().len()) {
                continue;
            }
            let item = match check_item(kind, item) {
                Ok(ItemCheck::Valid) => (*item).to_owned(),
                Ok(ItemCheck::Repaired(item)) => item,
                Err(why) => {
                    left_out.push((why, &item.get()[..item.get().floor_char_boundary(SHOWN)]));
                    continue;
                }
            };
            if !strict || learn_headers(&item, session) {
                self.items.push(item.into());
            }
        }
        if let Some((why, item)) = left_out.first() {
            let (method, count) = (kind.method(), left_out.len());
            warn!(method, count, item, "skipped items that no client could read: {why}");
        }
        self.ttl = [self.ttl, page.ttl()].into_iter().flatten().min();
        self.private |= page.cache_scope.is_some_and(|scope| scope.get() == r#""private""#);
    }
}

/// Reports whether a URI matches a template: its fixed parts, including the scheme, occur in order; a variable may be
/// empty.
fn fits(template: &str, uri: &str) -> bool {
    // A template without a scheme would match the URIs of all other servers.
    if !template.split('{').next().is_some_and(|start| start.contains(':')) {
        return false;
    }
    let mut fixed: Vec<&str> =
        template.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after)).collect();
    // The part before the first variable starts the URI, and the part after the last one ends it.
    let Some(last) = fixed.pop() else { return false };
    if fixed.is_empty() {
        return last == uri;
    }
    let first = fixed.remove(0);
    let Some(mut rest) = uri.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else { return false };
    for part in fixed {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

/// Reports whether a tool can be called over HTTP: the headers that its schema asks for must be valid.
fn learn_headers(tool: &RawValue, session: &Session) -> bool {
    #[derive(Deserialize)]
    struct Tool<'a> {
        name: String,
        #[serde(rename = "inputSchema", borrow)]
        input_schema: Option<&'a RawValue>,
    }
    let Ok(Tool { name, input_schema }) = serde_json::from_str(tool.get()) else { return true };
    match session.tool_headers.learn(&name, input_schema) {
        Ok(()) => true,
        Err(why) => {
            warn!(tool = name, "skipped a tool: {why}");
            false
        }
    }
}

/// The valid lists. The cache belongs to one session, so private lists stay private.
#[derive(Debug, Default)]
pub(super) struct ListCache(Mutex<[CacheSlot; 4]>);

#[derive(Debug, Default)]
struct CacheSlot {
    /// Counts changes, so that a list requested before a change is not cached after it.
    generation: u64,
    /// The generation that was last fetched.
    fetched: u64,
    cached: Option<CachedListing>,
}

#[derive(Debug)]
struct CachedListing {
    listing: Arc<Listing>,
    /// When it becomes outdated; `None` means when the server reports a change.
    until: Option<Instant>,
}

impl ListCache {
    /// Removes the lists that this event makes outdated.
    pub(super) fn invalidate(&self, event: &ServerEvent) {
        let kinds: &[ListKind] = match event {
            ServerEvent::ToolsChanged => &[ListKind::Tools],
            ServerEvent::ResourcesChanged => &[ListKind::Resources, ListKind::Templates],
            ServerEvent::PromptsChanged => &[ListKind::Prompts],
            _ => &[],
        };
        let mut slots = self.slots();
        for kind in kinds {
            let slot = &mut slots[*kind as usize];
            slot.generation += 1;
            slot.cached = None;
        }
    }

    /// Returns the list of a kind if it is still valid.
    fn lookup(&self, kind: ListKind) -> Option<Arc<Listing>> {
        let slots = self.slots();
        let cached = slots[kind as usize].cached.as_ref();
        let valid = cached.filter(|cached| cached.until.is_none_or(|end| end > Instant::now()));
        valid.map(|cached| Arc::clone(&cached.listing))
    }

    /// Reports whether the list of a kind changed since it was last fetched.
    fn is_outdated(&self, kind: ListKind) -> bool {
        let slot = &self.slots()[kind as usize];
        slot.fetched != slot.generation
    }

    fn generation(&self, kind: ListKind) -> u64 {
        self.slots()[kind as usize].generation
    }

    fn put(&self, kind: ListKind, generation: u64, listing: Arc<Listing>, until: Option<Instant>) {
        let slot = &mut self.slots()[kind as usize];
        if slot.generation == generation {
            slot.fetched = generation;
            slot.cached = Some(CachedListing { listing, until });
        }
    }

    fn slots(&self) -> MutexGuard<'_, [CacheSlot; 4]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a list is taken for the current one if the server does not announce changes.
pub(crate) const UNANNOUNCED_LIST_AGE: Duration = Duration::from_secs(5 * 60);
const MAX_PAGES: usize = 1_000;
/// How much of a skipped item is logged.
const SHOWN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_the_templates_that_it_could_be_made_of() {
        let rows = [
            ("demo://square/{number}", "demo://square/4", true),
            ("demo://square/{number}", "demo://square/", true),
            ("demo://square/{number}", "demo://cube/4", false),
            ("file:///{path}.txt", "file:///a/b.txt", true),
            ("file:///{path}.txt", "file:///a/b.md", false),
            ("file:///{path}.txt", "file:///a/b.txtx", false),
            ("x://plain", "x://plain", true),
            ("x://plain", "x://plainer", false),
            ("x://{a}/{b}", "x://1/2", true),
            ("x://{a}/{b}", "x://1", false),
            ("x://{a}/end", "x://a/end/end", true),
            ("x://{a}/mid/{b}/mid", "x://1/mid", false),
            ("other://{x}", "demo://a", false),
            ("{anything}", "demo://a", false),
            ("{+scheme}://{rest}", "demo://a", false),
        ];
        for (template, uri, expected) in rows {
            let item = serde_json::value::to_raw_value(&serde_json::json!({"uriTemplate": template})).unwrap();
            let listing = Listing { items: vec![item.into()], ..Listing::default() };
            assert_eq!(listing.has_fitting(uri), expected, "{template} {uri}");
            assert!(!listing.lists(uri), "a template is no resource");
        }
        let item = serde_json::value::to_raw_value(&serde_json::json!({"uri": "x://1", "name": "one"})).unwrap();
        let listing = Listing { items: vec![item.into()], ..Listing::default() };
        assert!(listing.lists("x://1") && !listing.lists("x://2") && !listing.has_fitting("x://1"));
    }
}
