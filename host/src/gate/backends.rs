//! What a gate is asked with: its settings, what servers offer to it, and the instances that decide for it.
//!
//! Gates of equal views share all of it, unless they have servers of their own: then they share the instances alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tracing::{info, warn};

use super::offers::ServerToolChange;
use super::settings;
use super::{GateError, GateView, failures};
use crate::config::model::Config;
use crate::decide::LogicResult;
use crate::logic::types::{catalog, execution};
use crate::logic::{Component, GateOffers, InstancePool, PoolSet};
use crate::registry::ToolList;
use crate::words::ErrorText;

/// What gates are asked with that see the same of one configuration.
pub(crate) struct GateBackend {
    pub(super) pool: Arc<InstancePool>,
    pub(super) gate_offers: Arc<GateOffers>,
    /// The configuration that it was opened with.
    pub(super) config_version: u64,
    /// How many changes of tools it has taken in.
    pub(super) tools_seen: AtomicU64,
    /// What servers listed; the component keeps only what it decides on.
    tools_by_server: Mutex<BTreeMap<String, Arc<ToolList>>>,
}

/// The cores of a registry that are in use, so that gates find one that sees what they see.
pub(crate) struct GateBackends {
    pool_set: Arc<PoolSet>,
    entries: Mutex<Vec<BackendEntry>>,
}

/// What gates of one view use.
struct BackendEntry {
    config_version: u64,
    /// Without its session.
    view: GateView,
    pool: Weak<InstancePool>,
    /// The one that gates without servers of their own share.
    backend: Weak<GateBackend>,
}

impl GateBackends {
    /// Room for the cores of gates that this component decides for.
    pub(crate) fn new(component: &Component) -> Self {
        GateBackends { pool_set: PoolSet::new(component), entries: Mutex::default() }
    }

    /// The core of a gate with this view: that of others, where it may be shared and there is one.
    pub(crate) fn open(
        &self,
        component: &Component,
        config: &Config,
        config_version: u64,
        view: &GateView,
        share: bool,
        seen: u64,
    ) -> Result<Arc<GateBackend>, GateError> {
        let view = GateView { session: None, ..view.clone() };
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
) -> Result<Arc<InstancePool>, GateError> {
    let mut logic = crate::logic::Supervisor::new(component.clone())?;
    let settings = settings::settings(&mut logic, config, view)?;
    drop(logic);
    InstancePool::open(pools, component, settings)?.map_err(|error| GateError::Settings(error.error_text()))
}

impl GateBackend {
    /// What a server listed.
    pub(super) fn tools_of(&self, server: &str) -> Option<Arc<ToolList>> {
        self.tools_by_server().get(server).cloned()
    }

    /// Whether it has taken in all changes of tools until this one.
    pub(super) fn has_seen(&self, count: u64) -> bool {
        self.tools_seen.load(Ordering::SeqCst) == count
    }

    /// Forgets what a server offers.
    pub(super) fn withdraw(&self, server: &str) -> LogicResult<()> {
        let mut offered = self.tools_by_server();
        if offered.contains_key(server) {
            self.pool.withdraw(&self.gate_offers, server)?;
            offered.remove(server);
        }
        Ok(())
    }

    /// Shows the component what a server offers, unless it knows that already. `is_current` says that the core is of the
    /// configuration that holds now.
    pub(super) fn offer(
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
                    info!(server, "{}", failures::change(&tool, change));
                    changes.push(ServerToolChange { server: server.to_owned(), tool, change });
                }
                // A configuration that calls of before still use may know nothing of a server that was added since.
                execution::OfferNote::UnknownServer(_) if !is_current => {}
                other => warn!(server, "{}", failures::note(&other)),
            }
        }
        Ok(changes)
    }

    fn tools_by_server(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ToolList>>> {
        self.tools_by_server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
