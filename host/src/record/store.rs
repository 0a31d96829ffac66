//! Stores the parts that many records share, each once, and remembers what is stored.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::value::RawValue;

use super::digest::json_sha256;
use super::digest_cache::{OfferList, PointerCache};
use super::folder::SharedPart;
use super::keyed::Keyed;
use super::replay::ReplayError;
use super::writer::RecordWriter;
use crate::config::secrets::Secrets;
use crate::contract_json::ToolJson;
use crate::json::{self, JsonObject};
use crate::lock::lock;
use crate::logic::OfferedTools;
use crate::logic::types::Tool;
use crate::logic::types::execution::Settings;
use crate::sha256::sha256_hex;
use crate::tool_texts::mask_tools;

/// The reason why a call was not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    /// The call holds a secret that cannot be removed.
    #[error("the call holds a secret that cannot be removed")]
    Withheld,
    /// The record is longer than a file may be.
    #[error("the record would have {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// A stored part, in the form that its file has.
#[derive(Clone)]
pub(super) struct StoredPart<T> {
    /// The value, with its digest as the key.
    pub shared: Keyed<T>,
    /// Whether something was masked, so that the stored part is not exactly what calls were decided on.
    pub hidden: bool,
}

/// Stores the parts that many records share.
pub(super) struct PartStore {
    secrets: Arc<Mutex<Secrets>>,
    settings: PointerCache<Settings, CachedPart<Arc<Settings>>>,
    /// The keys of the masks that settings have.
    masks: PointerCache<Settings, Arc<str>>,
    /// The offered tools that are stored, by the key of the masks that were applied.
    offers: HashMap<Arc<str>, PointerCache<OfferList, CachedPart<OfferedTools>>>,
    tools: HashMap<Arc<str>, ToolsCache>,
}

/// The tool lists that are stored already.
type ToolsCache = PointerCache<[Tool], CachedPart<Arc<[Tool]>>>;

/// The masks for tool descriptions and schemas.
pub(super) struct ToolMasks<'a> {
    /// Masks with equal keys mask the same; empty if nothing is masked.
    pub key: Arc<str>,
    /// Masks a server's JSON.
    pub mask: &'a mut dyn FnMut(&str, &str) -> Result<String, RecordError>,
}

/// A stored part, as the cache remembers it.
#[derive(Clone)]
struct CachedPart<V> {
    digest: Arc<str>,
    /// The stored value, if something had to be masked.
    replacement: Option<V>,
}

impl PartStore {
    pub(super) fn new(secrets: Arc<Mutex<Secrets>>) -> Self {
        PartStore {
            secrets,
            settings: PointerCache::default(),
            masks: PointerCache::default(),
            offers: HashMap::new(),
            tools: HashMap::new(),
        }
    }

    pub(super) fn secrets(&self) -> MutexGuard<'_, Secrets> {
        lock(&self.secrets)
    }

    pub(super) fn settings(
        &mut self,
        settings: &Arc<Settings>,
        writer: &mut RecordWriter,
    ) -> Result<StoredPart<Arc<Settings>>, RecordError> {
        if let Some(known) = self.settings.get(settings)
            && writer.has_part(SharedPart::Settings, &known.digest)?
        {
            return Ok(known.stored(settings));
        }
        let (json, hidden) = self.redact(&**settings);
        let replacement = if hidden { Some(Arc::new(read(&json)?)) } else { None };
        let known = CachedPart { digest: put(SharedPart::Settings, &json, writer)?, replacement };
        self.settings.insert(settings, known.clone());
        Ok(known.stored(settings))
    }

    /// Returns a key for the masks in these settings; equal keys mean equal masks.
    pub(super) fn masks_key(&mut self, settings: &Arc<Settings>) -> Arc<str> {
        self.masks.get_or_insert(settings, || json_sha256(&(&settings.masks, &settings.server_settings)).into())
    }

    pub(super) fn offers(
        &mut self,
        offers: &OfferedTools,
        masks: &mut ToolMasks<'_>,
        writer: &mut RecordWriter,
    ) -> Result<StoredPart<OfferedTools>, RecordError> {
        if self.offers.len() > MOST_MASKS {
            self.offers.clear();
            self.tools.clear();
        }
        // The catalog is stored after its parts, so they exist if it does.
        if let Some(known) = self.offers.entry(Arc::clone(&masks.key)).or_default().get(offers)
            && writer.has_part(SharedPart::Catalog, &known.digest)?
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
        let (json, hidden) = self.redact(&servers);
        if hidden {
            return Err(RecordError::Withheld);
        }
        let replacement = changed.then(|| Arc::new(value));
        let known = CachedPart { digest: put(SharedPart::Catalog, &json, writer)?, replacement };
        self.offers.entry(Arc::clone(&masks.key)).or_default().insert(offers, known.clone());
        Ok(known.stored(offers))
    }

    fn tools(
        &mut self,
        server: &str,
        tools: &Arc<[Tool]>,
        masks: &mut ToolMasks<'_>,
        writer: &mut RecordWriter,
    ) -> Result<StoredPart<Arc<[Tool]>>, RecordError> {
        if let Some(known) = self.tools.entry(Arc::clone(&masks.key)).or_default().get(tools)
            && writer.has_part(SharedPart::Tools, &known.digest)?
        {
            return Ok(known.stored(tools));
        }
        let masked = masked_tools(server, tools, masks)?;
        let (json, redacted) = self.redact(masked.as_deref().unwrap_or(&**tools));
        let replacement = match redacted || masked.is_some() {
            true => Some(read::<Vec<ToolJson>>(&json)?.into_iter().map(ToolJson::into_recorded_tool).collect()),
            false => None,
        };
        let known = CachedPart { digest: put(SharedPart::Tools, &json, writer)?, replacement };
        self.tools.entry(Arc::clone(&masks.key)).or_default().insert(tools, known.clone());
        Ok(known.stored(tools))
    }

    /// Returns the value as JSON without secrets of the configuration, and whether it had any.
    fn redact<T: serde::Serialize + ?Sized>(&self, value: &T) -> (String, bool) {
        let json = serde_json::to_string(value).expect("shapes have string keys only, so they are always JSON");
        match self.secrets().redact(&json) {
            Cow::Owned(clean) => (clean, true),
            Cow::Borrowed(_) => (json, false),
        }
    }
}

/// Masks the descriptions and schemas of a server's tools as clients see them; returns `None` if nothing is masked.
fn masked_tools(server: &str, tools: &[Tool], masks: &mut ToolMasks<'_>) -> Result<Option<Vec<Tool>>, RecordError> {
    if masks.key.is_empty() {
        return Ok(None);
    }
    let listed = |tool: &Tool| {
        let mut listed = JsonObject::default();
        if let Some(description) = &tool.description {
            listed.set("description", description);
        }
        if let Some(schema) = tool.input_schema.as_deref().and_then(|schema| serde_json::from_str(schema).ok()) {
            listed.set::<Box<RawValue>>("inputSchema", &schema);
        }
        listed
    };
    let before: Vec<JsonObject> = tools.iter().map(listed).collect();
    let mut after = before.clone();
    mask_tools(&mut after.iter_mut().collect::<Vec<_>>(), |json| (masks.mask)(server, json))?;
    let mut changed = false;
    let masked = tools.iter().zip(before.iter().zip(&after)).map(|(tool, (before, after))| {
        let same = |name: &str| before.get(name).map(RawValue::get) == after.get(name).map(RawValue::get);
        let mut tool = tool.clone();
        if !same("description") {
            tool.description = after.get("description").and_then(json::string_value);
            changed = true;
        }
        // Masking may rewrite a schema, so only a change of its meaning counts.
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

fn put(part: SharedPart, json: &str, writer: &mut RecordWriter) -> Result<Arc<str>, RecordError> {
    let digest: Arc<str> = sha256_hex(json.as_bytes()).into();
    writer.store_part(part, &digest, json.as_bytes())?;
    Ok(digest)
}

/// Reads a part after secrets were removed from it.
fn read<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RecordError> {
    serde_json::from_str(json).map_err(|_| RecordError::Withheld)
}

impl<V: Clone> CachedPart<V> {
    fn stored(&self, live: &V) -> StoredPart<V> {
        let value = self.replacement.as_ref().unwrap_or(live).clone();
        StoredPart { shared: Keyed { key: Arc::clone(&self.digest), value }, hidden: self.replacement.is_some() }
    }
}

/// The number of different masks for which the cache remembers what is stored; a new configuration may bring new ones.
const MOST_MASKS: usize = 16;
