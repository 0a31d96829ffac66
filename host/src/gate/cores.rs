//! What a gate is asked with: its settings, what servers offer to it, and the instances that decide for it.
//!
//! Gates of equal views share all of it, unless they have servers of their own: then they share the instances alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tracing::{info, warn};

use super::offers::ToolChange;
use super::settings;
use super::{GateError, View, failures};
use crate::config::model::Config;
use crate::decide::Answer;
use crate::logic::types::{catalog, execution};
use crate::logic::{Component, House, Opened, Pool};
use crate::registry::Tools;
use crate::words::Say;

/// What gates are asked with that see the same of one configuration.
pub(crate) struct Core {
    pub(super) pool: Arc<Pool>,
    pub(super) opened: Arc<Opened>,
    /// The configuration that it was opened with.
    pub(super) edition: u64,
    /// How many changes of tools it has taken in.
    pub(super) seen: AtomicU64,
    /// What servers listed; the component keeps only what it decides on.
    offered: Mutex<BTreeMap<String, Arc<Tools>>>,
}

/// The cores of a registry that are in use, so that gates find one that sees what they see.
pub(crate) struct Cores {
    house: Arc<House>,
    known: Mutex<Vec<Known>>,
}

/// What gates of one view use.
struct Known {
    edition: u64,
    /// Without its session.
    view: View,
    pool: Weak<Pool>,
    /// The one that gates without servers of their own share.
    core: Weak<Core>,
}

impl Cores {
    /// Room for the cores of gates that this component decides for.
    pub(crate) fn new(component: &Component) -> Self {
        Cores { house: House::new(component), known: Mutex::default() }
    }

    /// The core of a gate with this view: that of others, where it may be shared and there is one.
    pub(crate) fn open(
        &self,
        component: &Component,
        config: &Config,
        edition: u64,
        view: &View,
        share: bool,
        seen: u64,
    ) -> Result<Arc<Core>, GateError> {
        let view = View { session: None, ..view.clone() };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.pool.strong_count() > 0);
        let place = known.iter().position(|known| known.edition == edition && known.view == view);
        if share && let Some(core) = place.and_then(|place| known[place].core.upgrade()) {
            return Ok(core);
        }
        let pool = match place.and_then(|place| known[place].pool.upgrade()) {
            Some(pool) => pool,
            None => open_pool(&self.house, component, config, &view)?,
        };
        let (opened, offered) = Default::default();
        let core = Arc::new(Core { pool, opened, edition, seen: AtomicU64::new(seen), offered });
        let shared = if share { Arc::downgrade(&core) } else { Weak::new() };
        match place {
            Some(place) if share => known[place].core = shared,
            Some(_) => {}
            None => known.push(Known { edition, view, pool: Arc::downgrade(&core.pool), core: shared }),
        }
        Ok(core)
    }
}

fn open_pool(house: &Arc<House>, component: &Component, config: &Config, view: &View) -> Result<Arc<Pool>, GateError> {
    let mut logic = crate::logic::Supervisor::new(component.clone())?;
    let settings = settings::settings(&mut logic, config, view)?;
    drop(logic);
    Pool::open(house, component, settings)?.map_err(|error| GateError::Settings(error.say()))
}

impl Core {
    /// What a server listed.
    pub(super) fn tools_of(&self, server: &str) -> Option<Arc<Tools>> {
        self.offered().get(server).cloned()
    }

    /// Whether it has taken in all changes of tools until this one.
    pub(super) fn has_seen(&self, count: u64) -> bool {
        self.seen.load(Ordering::SeqCst) == count
    }

    /// Forgets what a server offers.
    pub(super) fn withdraw(&self, server: &str) -> Answer<()> {
        let mut offered = self.offered();
        if offered.contains_key(server) {
            self.pool.withdraw(&self.opened, server)?;
            offered.remove(server);
        }
        Ok(())
    }

    /// Shows the component what a server offers, unless it knows that already. `is_current` says that the core is of the
    /// configuration that holds now.
    pub(super) fn offer(&self, server: &str, tools: &Arc<Tools>, is_current: bool) -> Answer<Vec<ToolChange>> {
        let mut offered = self.offered();
        if offered.get(server).is_some_and(|known| Arc::ptr_eq(known, tools)) {
            return Ok(Vec::new());
        }
        let notes = self.pool.offer(&self.opened, server, &tools.offered)?;
        offered.insert(server.to_owned(), Arc::clone(tools));
        drop(offered);
        let mut changes = Vec::new();
        for note in notes {
            match note {
                execution::OfferNote::Changed(catalog::ToolChange { tool, change }) => {
                    info!(server, "{}", failures::change(&tool, change));
                    changes.push(ToolChange { server: server.to_owned(), tool, change });
                }
                // A configuration that calls of before still use may know nothing of a server that was added since.
                execution::OfferNote::UnknownServer(_) if !is_current => {}
                other => warn!(server, "{}", failures::note(&other)),
            }
        }
        Ok(changes)
    }

    fn offered(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Tools>>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
