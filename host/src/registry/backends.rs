//! Backends of gates: settings, offered tools, and component instances.
//!
//! Gates with equal views share a backend. Gates with servers of their own share only the instances.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use serde_json::value::RawValue;
use tracing::{info, warn};

use super::{ToolList, resource_tools};
use crate::config::model::Config;
use crate::decide::{Decide, LogicResult};
use crate::gate_settings::{GateView, RESOURCE_SERVER, offers_resource_tools, settings, settings_error};
use crate::json::JsonObject;
use crate::lock::lock;
use crate::logic::types::masking::Masks;
use crate::logic::types::{ToolRef, catalog, execution, naming, rules};
use crate::logic::{Component, GateOffers, InstancePool, LogicError, PoolSet, Supervisor};
use crate::tool_texts::mask_tools;
use crate::words::ErrorText;

/// An error of opening the backend of a gate.
#[derive(Debug)]
pub(crate) enum BackendError {
    /// The configuration cannot be used.
    Settings(String),
    /// The component failed.
    Logic(LogicError),
}

impl From<LogicError> for BackendError {
    fn from(error: LogicError) -> Self {
        BackendError::Logic(error)
    }
}

/// A changed tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerToolChange {
    /// The server of the tool.
    pub server: String,
    /// The tool's name on its server.
    pub tool: String,
    /// The kind of change.
    pub change: catalog::Change,
}

/// The state that gates with the same view of one configuration share.
pub(crate) struct GateBackend {
    pub(crate) pool: Arc<InstancePool>,
    pub(crate) gate_offers: Arc<GateOffers>,
    /// The newest configuration that it was opened with; one that gives it the same settings opens it again.
    config_version: AtomicU64,
    /// How many changes of tools it includes.
    pub(crate) tools_seen: AtomicU64,
    /// The full lists of servers; the component keeps only what it needs to decide.
    tools_by_server: Mutex<BTreeMap<String, Arc<ToolList>>>,
}

/// The backends of a registry that are in use, so that gates can share them.
pub(crate) struct GateBackends {
    pool_set: Arc<PoolSet>,
    entries: Mutex<Vec<BackendEntry>>,
}

/// The shared parts of gates with one view.
struct BackendEntry {
    config_version: u64,
    /// The view without its session and its agent.
    view: GateView,
    pool: Weak<InstancePool>,
    /// The backend of gates that have no servers of their own.
    backend: Weak<GateBackend>,
}

impl GateBackends {
    /// Creates an empty set of backends for this component.
    pub(crate) fn new(component: &Component) -> Self {
        GateBackends { pool_set: PoolSet::new(component), entries: Mutex::default() }
    }

    /// Returns a backend for this view: an existing one if it may be shared, else a new one.
    pub(crate) fn open(
        &self,
        component: &Component,
        config: &Config,
        config_version: u64,
        view: &GateView,
        share: bool,
        seen: u64,
    ) -> Result<Arc<GateBackend>, BackendError> {
        let view = view.anonymous();
        let mut entries = lock(&self.entries);
        entries.retain(|entry| entry.pool.strong_count() > 0);
        let known = find(&entries, |entry, _| entry.config_version == config_version && entry.view == view);
        let (place, pool) = match known {
            Some(known) => known,
            None => {
                let settings = settings(&mut Supervisor::new(component.clone())?, config, &view)?;
                // Most changes of a configuration change nothing for most views.
                let unchanged = find(&entries, |entry, pool| entry.view == view && **pool.settings() == settings);
                if let Some((place, _)) = unchanged {
                    entries[place].follow(config_version);
                }
                match unchanged {
                    Some(unchanged) => unchanged,
                    None => {
                        let pool = open_pool(&self.pool_set, component, config, settings)?;
                        let (of_pool, backend) = (Arc::downgrade(&pool), Weak::new());
                        entries.push(BackendEntry { config_version, view: view.clone(), pool: of_pool, backend });
                        (entries.len() - 1, pool)
                    }
                }
            }
        };
        if share && let Some(backend) = entries[place].backend.upgrade() {
            return Ok(backend);
        }
        let backend = Arc::new(GateBackend {
            pool,
            gate_offers: Arc::default(),
            config_version: AtomicU64::new(config_version),
            tools_seen: AtomicU64::new(seen),
            tools_by_server: Mutex::default(),
        });
        if offers_resource_tools(config, &view) {
            // A gate without servers does not know it, which needs no warning.
            backend.offer(RESOURCE_SERVER, &resource_tools(), false)?;
        }
        if share {
            entries[place].backend = Arc::downgrade(&backend);
        }
        Ok(backend)
    }
}

/// Returns the first entry of this kind that is in use, as its place and its pool.
fn find(
    entries: &[BackendEntry],
    is_it: impl Fn(&BackendEntry, &InstancePool) -> bool,
) -> Option<(usize, Arc<InstancePool>)> {
    let in_use = entries.iter().enumerate().filter_map(|(place, entry)| Some((place, entry.pool.upgrade()?)));
    in_use.into_iter().find(|(place, pool)| is_it(&entries[*place], pool))
}

impl BackendEntry {
    /// Makes what is shared count as opened with this configuration, or a later one.
    fn follow(&mut self, config_version: u64) {
        self.config_version = self.config_version.max(config_version);
        if let Some(backend) = self.backend.upgrade() {
            backend.config_version.fetch_max(config_version, Ordering::SeqCst);
        }
    }
}

fn open_pool(
    pools: &Arc<PoolSet>,
    component: &Component,
    config: &Config,
    settings: execution::Settings,
) -> Result<Arc<InstancePool>, BackendError> {
    let opened = InstancePool::open(pools, component, settings)?;
    opened.map_err(|error| BackendError::Settings(settings_error(config, &error)))
}

impl GateBackend {
    /// Returns the settings of its gates.
    pub(crate) fn settings(&self) -> &Arc<execution::Settings> {
        self.pool.settings()
    }

    /// Returns the number of the newest configuration that it was opened with.
    pub(crate) fn config_version(&self) -> u64 {
        self.config_version.load(Ordering::SeqCst)
    }

    /// Reports whether there are rules that look at more than the names of tools, or results have a meaning.
    pub(crate) fn has_rules(&self) -> bool {
        let rules = &self.settings().rules;
        !(rules.lists.is_empty() && rules.results.is_empty())
    }

    /// Returns a number that differs whenever the tools that servers offer do.
    pub(crate) fn offers_version(&self) -> u64 {
        self.gate_offers.version()
    }

    /// Returns the tools that its gates may use; with circumstances, without those of which rules refuse every call.
    pub(crate) fn tools(
        &self,
        style: &naming::NamingStyle,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        self.pool.ask_gate(&self.gate_offers, 0, |logic, id| logic.tools(id, style, circumstances))
    }

    /// Returns a tool's full definition as its server wrote it.
    pub(crate) fn definition(&self, tool: &ToolRef) -> Option<Arc<RawValue>> {
        Some(Arc::clone(&self.tools_of(&tool.server)?.definition(&tool.tool)?.raw))
    }

    /// Masks the descriptions of tools, each given with its server; tools of one server must be adjacent.
    pub(crate) fn mask_descriptions(&self, tools: &mut [(String, JsonObject)]) -> LogicResult<()> {
        for of_server in tools.chunk_by_mut(|(one, _), (other, _)| one == other) {
            let Some(server) = of_server.first().map(|(server, _)| server.clone()) else { continue };
            if !self.masks(&server) {
                continue;
            }
            let mut tools: Vec<&mut JsonObject> = of_server.iter_mut().map(|(_, tool)| tool).collect();
            let mask = |json: &str| {
                let ask = |logic: &mut Supervisor, id| logic.mask_json(id, &server, json);
                self.pool.ask_gate(&self.gate_offers, json.len(), ask)
            };
            mask_tools(&mut tools, mask)?;
        }
        Ok(())
    }

    /// Reports whether anything is masked in what a server says.
    fn masks(&self, server: &str) -> bool {
        let settings = self.settings();
        let own = settings.server_settings.iter().filter(|own| own.server == server).map(|own| &own.masks);
        let is_empty = |masks: &Masks| masks.groups.is_empty() && masks.patterns.is_empty() && masks.custom.is_empty();
        !own.chain([&settings.masks]).all(is_empty)
    }

    /// Returns the tools of a server.
    pub(crate) fn tools_of(&self, server: &str) -> Option<Arc<ToolList>> {
        self.tools_by_server().get(server).cloned()
    }

    /// Reports whether it includes all changes of tools up to this one.
    pub(crate) fn has_seen(&self, count: u64) -> bool {
        self.tools_seen.load(Ordering::SeqCst) == count
    }

    /// Removes the tools of a server.
    pub(crate) fn withdraw(&self, server: &str) -> LogicResult<()> {
        let mut offered = self.tools_by_server();
        if offered.contains_key(server) {
            self.pool.withdraw(&self.gate_offers, server)?;
            offered.remove(server);
        }
        Ok(())
    }

    /// Passes the tools of a server to the component if they are new; `is_current` says whether this backend has the
    /// current configuration.
    pub(crate) fn offer(
        &self,
        server: &str,
        tools: &Arc<ToolList>,
        is_current: bool,
    ) -> LogicResult<Vec<ServerToolChange>> {
        let mut offered = self.tools_by_server();
        if offered.get(server).is_some_and(|known| Arc::ptr_eq(known, tools)) {
            return Ok(Vec::new());
        }
        let notes = self.pool.offer(&self.gate_offers, server, &tools.offered)?;
        offered.insert(server.to_owned(), Arc::clone(tools));
        drop(offered);
        let mut changes = Vec::new();
        for note in notes {
            match note {
                execution::OfferNote::Changed(catalog::ToolChange { tool, change }) => {
                    changes.push(ServerToolChange { server: server.to_owned(), tool, change });
                }
                // An older configuration that calls still use may not know a server that was added later.
                execution::OfferNote::UnknownServer(_) if !is_current => {}
                other => warn!(server, "{}", describe_note(&other)),
            }
        }
        if !changes.is_empty() && tools.begin_telling() {
            log_changes(server, &changes);
        }
        Ok(changes)
    }

    fn tools_by_server(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ToolList>>> {
        lock(&self.tools_by_server)
    }
}

/// Logs what changed with a list of tools. A new or changed tool may be an attack, so the command line shows this target
/// by default.
fn log_changes(server: &str, changes: &[ServerToolChange]) {
    for ServerToolChange { tool, change, .. } in changes.iter().take(MAX_TOLD_CHANGES) {
        info!(target: "toolgate::tools", server, "{}", describe_change(tool, *change));
    }
    if changes.len() > MAX_TOLD_CHANGES {
        info!(target: "toolgate::tools", server, "{} more tools changed", changes.len() - MAX_TOLD_CHANGES);
    }
}

/// The most changes of one list that are logged one by one.
const MAX_TOLD_CHANGES: usize = 20;

/// Describes a note on a list of tools.
fn describe_note(note: &execution::OfferNote) -> String {
    match note {
        execution::OfferNote::Changed(changed) => describe_change(&changed.tool, changed.change),
        execution::OfferNote::Duplicate(tool) => format!("tool {tool:?} is listed twice; the first one counts"),
        execution::OfferNote::Unusable(tool) => {
            format!("skipped a tool whose name is empty or longer than 512 bytes: {:?}", shortened(tool))
        }
        execution::OfferNote::AmbiguousGrant(grant) => grant.error_text(),
        execution::OfferNote::UnknownServer(server) => format!("no server {server:?} is configured"),
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(60).collect()
}

/// Describes a change of a tool.
fn describe_change(tool: &str, change: catalog::Change) -> String {
    let how = match change {
        catalog::Change::Added => "is new",
        catalog::Change::Removed => "is gone",
        catalog::Change::Description => "has another description",
        catalog::Change::Schema => "has another schema",
        catalog::Change::Annotations => "has other annotations",
    };
    format!("tool {tool:?} {how}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Registry, RegistryOptions};
    use super::*;
    use crate::config;
    use crate::gate_settings::views;
    use crate::logic::ComponentOptions;

    const TOKENS: &str = "gateway:
  tokens:
    - {principal: ann, token: x, servers: [a], rules: [{name: r, tools: [a.b], then: deny}]}
    - {principal: bob, token: x, groups: [g], servers: [a], rules: [
        {name: r, tools: [a.b], then: deny}]}
    - {principal: eve, token: x, servers: [a]}";

    fn parse(more: &str) -> Config {
        let text = format!("{TOKENS}\n{more}\nservers: {{a: {{command: none}}, b: {{command: none}}}}");
        config::parse(&text, Path::new("toolgate.yaml")).unwrap()
    }

    /// Returns the backends of all principals by the current configuration.
    fn open(registry: &Registry) -> Vec<Arc<GateBackend>> {
        let views = views(&registry.config()).into_iter();
        views.map(|(_, view)| registry.open_backend(&view.in_new_session()).unwrap()).collect()
    }

    #[tokio::test]
    async fn principals_of_equal_rights_share_a_backend_until_a_configuration_changes_them() {
        let component = Component::embedded(&ComponentOptions::default()).unwrap();
        let registry = Registry::new(&component, parse(""), RegistryOptions::default()).unwrap();
        let before = open(&registry);
        assert!(Arc::ptr_eq(&before[0], &before[1]), "who they are and where it is written makes no difference");
        assert!(!Arc::ptr_eq(&before[0], &before[2]), "she has no rules");

        // Another token says nothing about these.
        registry.set_servers(parse("    - {principal: dan, token: x, servers: [b]}")).unwrap();
        let after = open(&registry);
        assert!(before.iter().zip(&after).all(|(before, after)| Arc::ptr_eq(before, after)));
        assert!(after.iter().all(|backend| backend.config_version() == registry.config_version()));

        registry.set_servers(parse("rules: [{name: s, tools: [a.c], then: deny}]")).unwrap();
        let other = open(&registry);
        assert!(before.iter().zip(&other).all(|(before, other)| !Arc::ptr_eq(before, other)));
        assert!(Arc::ptr_eq(&other[0], &other[1]));
        assert!(before[0].config_version() < registry.config_version(), "running calls keep it");
        registry.close().await;
    }
}
