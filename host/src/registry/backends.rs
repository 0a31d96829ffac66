//! Backends of gates: settings, offered tools, and component instances.
//!
//! Gates with equal views share a backend. Gates with servers of their own share only the instances.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tracing::{info, warn};

use super::{ToolList, resource_tools};
use crate::agent::Agent;
use crate::config::model::Config;
use crate::decide::LogicResult;
use crate::gate_settings::{GateView, RESOURCE_SERVER, offers_resource_tools, settings, settings_error};
use crate::logic::types::{catalog, execution};
use crate::logic::{Component, GateOffers, InstancePool, LogicError, PoolSet, Supervisor};
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
    /// The configuration it was opened with.
    pub(crate) config_version: u64,
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
        let view = GateView { session: None, agent: Agent::default(), ..view.clone() };
        let mut known = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.pool.strong_count() > 0);
        let place = known.iter().position(|known| known.config_version == config_version && known.view == view);
        if share && let Some(backend) = place.and_then(|place| known[place].backend.upgrade()) {
            return Ok(backend);
        }
        let pool = match place.and_then(|place| known[place].pool.upgrade()) {
            Some(pool) => pool,
            None => open_pool(&self.pool_set, component, config, &view)?,
        };
        let (gate_offers, tools_by_server) = Default::default();
        let backend = Arc::new(GateBackend {
            pool,
            gate_offers,
            config_version,
            tools_seen: AtomicU64::new(seen),
            tools_by_server,
        });
        if offers_resource_tools(config, &view) {
            // A gate without servers does not know it, which needs no warning.
            backend.offer(RESOURCE_SERVER, &resource_tools(), false)?;
        }
        let shared = if share { Arc::downgrade(&backend) } else { Weak::new() };
        match place {
            Some(place) if share => known[place].backend = shared,
            Some(_) => {}
            None => {
                known.push(BackendEntry { config_version, view, pool: Arc::downgrade(&backend.pool), backend: shared })
            }
        }
        Ok(backend)
    }
}

fn open_pool(
    pools: &Arc<PoolSet>,
    component: &Component,
    config: &Config,
    view: &GateView,
) -> Result<Arc<InstancePool>, BackendError> {
    let mut logic = Supervisor::new(component.clone())?;
    let settings = settings(&mut logic, config, view)?;
    drop(logic);
    let opened = InstancePool::open(pools, component, settings)?;
    opened.map_err(|error| BackendError::Settings(settings_error(config, &error)))
}

impl GateBackend {
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
                    info!(server, "{}", describe_change(&tool, change));
                    changes.push(ServerToolChange { server: server.to_owned(), tool, change });
                }
                // An older configuration that calls still use may not know a server that was added later.
                execution::OfferNote::UnknownServer(_) if !is_current => {}
                other => warn!(server, "{}", describe_note(&other)),
            }
        }
        Ok(changes)
    }

    fn tools_by_server(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ToolList>>> {
        self.tools_by_server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
