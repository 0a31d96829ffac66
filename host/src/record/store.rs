//! Stores what many records share, once, and remembers what is stored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::value::RawValue;

use super::folder::Part;
use super::play::Shared;
use super::scribe::Lost;
use super::shapes::{SettingsShape, ToolShape};
use super::text::sha256;
use super::writer::Writer;
use crate::config::secrets::Secrets;
use crate::gate::mask_tools;
use crate::json::{self, Object};
use crate::logic::Offers;
use crate::logic::types::Tool;
use crate::logic::types::execution::Settings;

/// What is in a file, in the form that it has there.
#[derive(Clone)]
pub(super) struct Stored<T> {
    /// What it is, under its digest.
    pub shared: Shared<T>,
    /// Something had to be hidden in it, so it is not quite what calls were decided on.
    pub hidden: bool,
}

/// Stores what many records share.
pub(super) struct Store {
    secrets: Arc<Mutex<Secrets>>,
    settings: Seen<Settings, Arc<Settings>>,
    /// By the masks under which they were stored.
    offers: HashMap<Arc<str>, Seen<Servers, Offers>>,
    tools: HashMap<Arc<str>, SeenTools>,
}

/// What [`Offers`] point to.
pub(super) type Servers = Vec<(String, Arc<[Tool]>)>;

/// The masks for what servers say of their tools.
pub(super) struct ToolMasks<'a> {
    /// Two of the same key hide the same; empty where nothing is hidden.
    pub key: Arc<str>,
    /// Masks JSON that a server wrote.
    pub mask: &'a mut dyn FnMut(&str, &str) -> Result<String, Lost>,
}

/// Lists of tools that were stored already.
type SeenTools = Seen<[Tool], Arc<[Tool]>>;

/// What was stored already, by where it is in memory. A weak reference lets it go, but nothing else can come to be there.
pub(super) struct Seen<T: ?Sized, V>(HashMap<usize, (Weak<T>, Known<V>)>);

#[derive(Clone)]
pub(super) struct Known<V> {
    pub digest: Arc<str>,
    /// What is stored in its place, where something had to be hidden.
    pub instead: Option<V>,
}

impl Store {
    pub(super) fn new(secrets: Arc<Mutex<Secrets>>) -> Self {
        Store { secrets, settings: Seen::default(), offers: HashMap::new(), tools: HashMap::new() }
    }

    pub(super) fn secrets(&self) -> MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settings(
        &mut self,
        settings: &Arc<Settings>,
        writer: &mut Writer,
    ) -> Result<Stored<Arc<Settings>>, Lost> {
        if let Some(known) = self.settings.get(settings)
            && writer.has(Part::Settings, &known.digest)?
        {
            return Ok(known.stored(settings));
        }
        let (json, hidden) = self.clean(&SettingsShape::from(&**settings));
        let read = |json: &str| Settings::try_from(serde_json::from_str::<SettingsShape>(json).ok()?).ok();
        let instead = if hidden { Some(Arc::new(read(&json).ok_or(Lost::Withheld)?)) } else { None };
        let known = Known { digest: put(Part::Settings, &json, writer)?, instead };
        self.settings.insert(settings, known.clone());
        Ok(known.stored(settings))
    }

    pub(super) fn offers(
        &mut self,
        offers: &Offers,
        masks: &mut ToolMasks<'_>,
        writer: &mut Writer,
    ) -> Result<Stored<Offers>, Lost> {
        if self.offers.len() > MOST_MASKS {
            self.offers.clear();
            self.tools.clear();
        }
        // Whatever it is made of was stored before it.
        if let Some(known) = self.offers.entry(Arc::clone(&masks.key)).or_default().get(offers)
            && writer.has(Part::Catalog, &known.digest)?
        {
            return Ok(known.stored(offers));
        }
        let mut servers: Vec<(String, String)> = Vec::with_capacity(offers.len());
        let mut value = Vec::with_capacity(offers.len());
        let mut changed = false;
        for (server, tools) in offers.iter() {
            let tools = self.tools(server, tools, masks, writer)?;
            changed |= tools.hidden;
            servers.push((server.clone(), tools.shared.key.to_string()));
            value.push((server.clone(), tools.shared.value));
        }
        let (json, hidden) = self.clean(&servers);
        if hidden {
            return Err(Lost::Withheld);
        }
        let instead = changed.then(|| Arc::new(value));
        let known = Known { digest: put(Part::Catalog, &json, writer)?, instead };
        self.offers.entry(Arc::clone(&masks.key)).or_default().insert(offers, known.clone());
        Ok(known.stored(offers))
    }

    fn tools(
        &mut self,
        server: &str,
        tools: &Arc<[Tool]>,
        masks: &mut ToolMasks<'_>,
        writer: &mut Writer,
    ) -> Result<Stored<Arc<[Tool]>>, Lost> {
        if let Some(known) = self.tools.entry(Arc::clone(&masks.key)).or_default().get(tools)
            && writer.has(Part::Tools, &known.digest)?
        {
            return Ok(known.stored(tools));
        }
        let masked = masked(server, tools, masks)?;
        let shapes: Vec<ToolShape> = masked.as_deref().unwrap_or(&**tools).iter().map(ToolShape::from).collect();
        let (json, redacted) = self.clean(&shapes);
        let hidden = redacted || masked.is_some();
        let read = |json: &str| serde_json::from_str::<Vec<ToolShape>>(json).map_err(|_| Lost::Withheld);
        let instead = if hidden { Some(read(&json)?.into_iter().map(Tool::from).collect()) } else { None };
        let known = Known { digest: put(Part::Tools, &json, writer)?, instead };
        self.tools.entry(Arc::clone(&masks.key)).or_default().insert(tools, known.clone());
        Ok(known.stored(tools))
    }

    /// JSON without secrets of the configuration, and whether there were any.
    fn clean<T: serde::Serialize>(&self, value: &T) -> (String, bool) {
        let json = serde_json::to_string(value).expect("shapes have string keys only, so they are always JSON");
        let clean = match self.secrets().redact(&json) {
            Cow::Owned(clean) => Some(clean),
            Cow::Borrowed(_) => None,
        };
        let hidden = clean.is_some();
        (clean.unwrap_or(json), hidden)
    }
}

/// The tools of a server as the masks leave what it says of them, which is what clients are shown; none where they hide
/// nothing.
fn masked(server: &str, tools: &[Tool], masks: &mut ToolMasks<'_>) -> Result<Option<Vec<Tool>>, Lost> {
    if masks.key.is_empty() {
        return Ok(None);
    }
    let told = |tool: &Tool| {
        let mut told = Object::default();
        if let Some(description) = &tool.description {
            told.set("description", description);
        }
        if let Some(schema) = tool.input_schema.as_deref().and_then(|schema| serde_json::from_str(schema).ok()) {
            told.set::<Box<RawValue>>("inputSchema", &schema);
        }
        told
    };
    let before: Vec<Object> = tools.iter().map(told).collect();
    let mut after = before.clone();
    mask_tools(&mut after.iter_mut().collect::<Vec<_>>(), |json| (masks.mask)(server, json))?;
    let mut changed = false;
    let masked = tools.iter().zip(before.iter().zip(&after)).map(|(tool, (before, after))| {
        let same = |name: &str| before.get(name).map(RawValue::get) == after.get(name).map(RawValue::get);
        let mut tool = tool.clone();
        if !same("description") {
            tool.description = after.get("description").and_then(json::text);
            changed = true;
        }
        // A schema is written anew where anything in it is looked at; only what it means counts.
        if let (false, Some(before), Some(after)) =
            (same("inputSchema"), before.get("inputSchema"), after.get("inputSchema"))
            && serde_json::from_str::<serde_json::Value>(before.get()).ok() != serde_json::from_str(after.get()).ok()
        {
            tool.input_schema = Some(after.get().to_owned());
            changed = true;
        }
        tool
    });
    let masked: Vec<Tool> = masked.collect();
    Ok(changed.then_some(masked))
}

fn put(part: Part, json: &str, writer: &mut Writer) -> Result<Arc<str>, Lost> {
    let digest: Arc<str> = sha256(json.as_bytes()).into();
    writer.part(part, &digest, json.as_bytes())?;
    Ok(digest)
}

impl<V: Clone> Known<V> {
    pub(super) fn stored(&self, live: &V) -> Stored<V> {
        let value = self.instead.as_ref().unwrap_or(live).clone();
        Stored { shared: Shared { key: Arc::clone(&self.digest), value }, hidden: self.instead.is_some() }
    }
}

impl<T: ?Sized, V> Default for Seen<T, V> {
    fn default() -> Self {
        Seen(HashMap::new())
    }
}

impl<T: ?Sized, V: Clone> Seen<T, V> {
    pub(super) fn get(&self, live: &Arc<T>) -> Option<Known<V>> {
        self.0.get(&place(live)).map(|(_, known)| known.clone())
    }

    pub(super) fn insert(&mut self, live: &Arc<T>, known: Known<V>) {
        if self.0.len() >= MOST_SEEN {
            self.0.retain(|_, (seen, _)| seen.strong_count() > 0);
        }
        if self.0.len() >= MOST_SEEN {
            self.0.clear();
        }
        self.0.insert(place(live), (Arc::downgrade(live), known));
    }
}

fn place<T: ?Sized>(live: &Arc<T>) -> usize {
    Arc::as_ptr(live).cast::<()>().addr()
}

const MOST_SEEN: usize = 4096;
/// Under how many masks things are remembered as stored; each change of the configuration may bring others.
const MOST_MASKS: usize = 16;
