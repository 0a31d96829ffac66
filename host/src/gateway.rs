//! The gateway: one MCP server in front of all configured servers, for clients of both eras.

pub mod api;
mod bounds;
pub mod client;
mod front;
pub mod http;
mod metrics;
pub mod pages;
mod recent;
mod relay;
mod seal;
#[cfg_attr(not(unix), path = "gateway/socket/elsewhere.rs")]
pub mod socket;
pub mod stdio;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tracing::warn;

pub use front::outcome::KEY as OUTCOME;
pub use recent::{Recent, RecentCall};
pub use relay::Relay;

use self::http::Load;
use crate::config::model::Config;
use crate::gate::{self, Gate, GateError, View};
use crate::logic::types::execution::ToolResult;
use crate::logic::types::{filtering, naming};
use crate::registry::{Changes, Registry};
use crate::shadow::Shadow;
use client::{Client, House, Outlet, Principal};
use front::Front;
use front::late::Late;
use metrics::Tally;
use seal::Seal;

/// How the gateway shows itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// How tools and prompts are named; none means as the configuration says.
    pub names: Option<naming::NamingStyle>,
    /// Only this server, with its own names.
    pub expose: Option<String>,
    /// What each principal may use; who is not named here may use all.
    pub views: HashMap<String, View>,
}

/// The gateway: it lets clients in, each with a gate of its own.
pub struct Gateway {
    inside: Arc<Inside>,
    /// Clients of 2026-07-28, by principal.
    stateless: Mutex<HashMap<Principal, Arc<Front>>>,
    /// The gates of operators who try tools, by principal.
    desks: Mutex<HashMap<Principal, Arc<Gate>>>,
    /// The doors that are open.
    doors: Mutex<Vec<OpenDoor>>,
    /// What is asked beside the logic that decides.
    shadow: Mutex<Option<Arc<Shadow>>>,
    since: SystemTime,
}

/// A door that is open, as operators see it.
#[derive(Clone)]
struct OpenDoor {
    name: &'static str,
    address: String,
    load: Arc<Load>,
}

/// What all clients share.
pub(crate) struct Inside {
    registry: Arc<Registry>,
    relay: Arc<Relay>,
    /// Servers that nobody waits for, since they kept others waiting.
    late: Arc<Late>,
    /// The addresses of resources that several servers have, each with the one whose is not shown.
    doubled: Mutex<HashSet<(String, String)>>,
    recent: Recent,
    tally: Tally,
    /// Knows again what clients without a session bring back.
    seal: Seal,
    /// The one server that is shown with its own names.
    expose: Option<String>,
    shown: Mutex<Arc<Shown>>,
    /// Counts what was shown; each client looks whether it knows it.
    edition: AtomicU64,
}

/// What is shown to whom, now.
struct Shown {
    options: Options,
    /// Principals that were there once; they may use nothing.
    departed: HashSet<String>,
}

impl Gateway {
    /// A gateway over these servers. The relay must be the handler that the registry was built with, or servers have
    /// nobody to ask.
    pub fn new(registry: Arc<Registry>, relay: Arc<Relay>, options: Options) -> Self {
        let inside = Arc::new(Inside {
            registry,
            relay,
            late: Late::new(),
            doubled: Mutex::default(),
            recent: Recent::default(),
            tally: Tally::default(),
            seal: Seal::new(),
            expose: options.expose.clone(),
            shown: Mutex::new(Arc::new(Shown { options, departed: HashSet::new() })),
            edition: AtomicU64::new(0),
        });
        let (stateless, desks, doors, shadow) = Default::default();
        Gateway { inside, stateless, desks, doors, shadow, since: SystemTime::now() }
    }

    /// Takes another configuration, and shows itself otherwise: from its next request on, each client uses what it may
    /// now. Servers of `anew` begin anew though nothing has changed in their configuration. Who had a view of its own and
    /// has none now may use nothing; the exposed server stays the same.
    ///
    /// Nothing changes where the settings, or a view of them, cannot be used.
    pub fn reload(&self, mut config: Config, anew: &BTreeSet<String>, options: Options) -> Result<Changes, GateError> {
        // Who could not be given less would keep what it has.
        let views = options.views.iter().map(|(name, view)| (Some(name.as_str()), view.clone()));
        let views = views.chain([(None, View::default())]);
        let views = views.map(|(name, view)| (name, self.inside.of_exposed(view)));
        gate::check(self.inside.registry.component(), &mut config, views)?;
        let changes = self.inside.registry.set_servers_anew(config, anew)?;
        let before = self.inside.shown();
        let same = before.options.names == options.names && before.options.views == options.views;
        let once = before.departed.iter().chain(before.options.views.keys());
        let departed: HashSet<_> = once.filter(|name| !options.views.contains_key(*name)).cloned().collect();
        let shown = Arc::new(Shown { options, departed });
        *self.inside.shown.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&shown);
        self.inside.edition.fetch_add(1, Ordering::SeqCst);
        // After that, so that nobody who has departed comes in again.
        self.lock_stateless().retain(|principal, _| !shown.departed.contains(&principal.name));
        // Calls under way keep the gates that they are made through.
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if !same {
            self.inside.registry.show_others();
        }
        Ok(changes)
    }

    fn lock_stateless(&self) -> MutexGuard<'_, HashMap<Principal, Arc<Front>>> {
        self.stateless.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers behind the gateway.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inside.registry
    }

    /// The calls of late.
    pub fn recent(&self) -> &Recent {
        &self.inside.recent
    }

    /// Has a candidate asked beside the logic that decides, in place of the one before; none means that nothing is.
    pub fn set_shadow(&self, shadow: Option<Arc<Shadow>>) {
        self.registry().set_observer(shadow.clone().map(|shadow| shadow as _));
        *self.shadow.lock().unwrap_or_else(PoisonError::into_inner) = shadow;
    }

    /// What is asked beside the logic that decides.
    pub fn shadow(&self) -> Option<Arc<Shadow>> {
        self.shadow.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows operators what a door carries; its name is one of few, since figures are kept by it.
    pub fn show_door(&self, name: &'static str, address: String, load: Arc<Load>) {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).push(OpenDoor { name, address, load });
    }

    fn doors(&self) -> Vec<OpenDoor> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The gate of an operator of this principal, with texts for people.
    fn desk(&self, principal: &Principal) -> Result<Arc<Gate>, api::Reply> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = desks.get(principal) {
            return Ok(Arc::clone(gate));
        }
        let refused =
            |error: GateError| api::Reply { status: 500, body: json!({"error": error.to_string()}).to_string() };
        let view = self.inside.view(principal).map_err(refused)?;
        let view = View { pass_through: false, ..view };
        let gate = Arc::new(Gate::open(&self.inside.registry, view).map_err(refused)?);
        desks.insert(principal.clone(), Arc::clone(&gate));
        Ok(gate)
    }
}

impl House for Gateway {
    fn open(&self, principal: &Principal, outlet: Arc<dyn Outlet>) -> Result<Arc<dyn Client>, GateError> {
        Ok(Front::open(&self.inside, principal, Some(outlet))?)
    }

    fn stateless(&self, principal: &Principal) -> Result<Arc<dyn Client>, GateError> {
        let mut stateless = self.lock_stateless();
        if let Some(front) = stateless.get(principal) {
            return Ok(Arc::clone(front) as _);
        }
        let front = Front::open(&self.inside, principal, None)?;
        stateless.insert(principal.clone(), Arc::clone(&front));
        Ok(front)
    }

    fn all_stateless(&self) -> Vec<Arc<dyn Client>> {
        self.lock_stateless().values().map(|front| Arc::clone(front) as _).collect()
    }
}

impl Inside {
    /// Keeps and counts a call of this principal that is over.
    fn remember(&self, principal: &str, result: ToolResult, latency: Duration) {
        let ToolResult { call_id, name, tool, code, attempts, trace, .. } = result;
        self.tally.add(tool.as_ref(), code);
        let (at, principal) = (SystemTime::now(), principal.to_owned());
        self.recent.add(RecentCall { id: call_id, at, principal, name, tool, code, attempts, latency, trace });
    }

    /// Lets whoever runs the gateway know, once, that a server has an address or a name that is taken before.
    fn note_doubled(&self, server: &str, name: &str, owner: &str) {
        let mut doubled = self.doubled.lock().unwrap_or_else(PoisonError::into_inner);
        if doubled.len() == MOST_DOUBLED || !doubled.insert((server.to_owned(), name.to_owned())) {
            return;
        }
        match server == owner {
            true => warn!(server, "it lists {name:?} more than once, and the first one counts"),
            false => warn!(server, "{name:?} is of server {owner:?} too, and that one's counts"),
        }
    }

    /// What a client of this principal may use now.
    fn view(&self, principal: &Principal) -> Result<View, GateError> {
        let shown = self.shown();
        if shown.departed.contains(&principal.name) {
            return Err(GateError::Settings(format!("{:?} may use nothing any more", principal.name)));
        }
        let view = shown.options.views.get(&principal.name).cloned().unwrap_or_default();
        Ok(View { pass_through: true, ..self.of_exposed(view) })
    }

    /// What of a view is of the exposed server, where there is one. Who may not use that may use nothing.
    fn of_exposed(&self, mut view: View) -> View {
        let Some(server) = &self.expose else { return view };
        let selected = view.selection.take().map(|mut selected| {
            selected.retain(|selected| selected.id == *server);
            selected
        });
        if selected.as_ref().is_some_and(Vec::is_empty) {
            // A selection names a server at least; what takes all of it away is that nothing is granted.
            view.capabilities = Some(Vec::new());
        }
        let whole = || vec![filtering::SelectedServer { id: server.clone(), tools: Vec::new() }];
        view.selection = Some(selected.filter(|selected| !selected.is_empty()).unwrap_or_else(whole));
        view
    }

    fn shown(&self) -> Arc<Shown> {
        Arc::clone(&self.shown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of how many addresses that several servers have is told.
const MOST_DOUBLED: usize = 1000;
