//! The gateway: one MCP server in front of all configured servers, for clients of both eras.

pub mod api;
mod bounds;
pub mod client;
mod client_session;
pub mod http;
mod metrics;
pub mod pages;
mod recent;
mod relay;
mod seal;
#[cfg_attr(not(unix), path = "gateway/socket/unsupported.rs")]
pub mod socket;
pub mod stdio;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tracing::warn;

pub use client_session::outcome::KEY as OUTCOME;
pub use recent::{RecentCall, RecentCalls};
pub use relay::Relay;

use self::http::LoadLimiter;
use crate::config::model::Config;
use crate::gate::{self, Gate, GateError, GateView};
use crate::logic::types::execution::ToolResult;
use crate::logic::types::{filtering, naming};
use crate::registry::{ConfigChanges, Registry};
use crate::shadow::Shadow;
use client::{ClientFactory, ClientHandler, ClientSink, Principal};
use client_session::ClientSession;
use client_session::slow_servers::SlowServers;
use metrics::ToolCallCounts;
use seal::StateSealer;

/// How the gateway shows itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatewayOptions {
    /// How tools and prompts are named; none means as the configuration says.
    pub names: Option<naming::NamingStyle>,
    /// Only this server, with its own names.
    pub expose: Option<String>,
    /// What each principal may use; who is not named here may use all.
    pub views: HashMap<String, GateView>,
}

/// The gateway: it lets clients in, each with a gate of its own.
pub struct Gateway {
    state: Arc<GatewayState>,
    /// Clients of 2026-07-28, by principal.
    stateless: Mutex<HashMap<Principal, Arc<ClientSession>>>,
    /// The gates of operators who try tools, by principal.
    operator_gates: Mutex<HashMap<Principal, Arc<Gate>>>,
    /// The doors that are open.
    listeners: Mutex<Vec<OpenListener>>,
    /// What is asked beside the logic that decides.
    shadow: Mutex<Option<Arc<Shadow>>>,
    since: SystemTime,
}

/// A door that is open, as operators see it.
#[derive(Clone)]
struct OpenListener {
    name: &'static str,
    address: String,
    load: Arc<LoadLimiter>,
}

/// What all clients share.
pub(crate) struct GatewayState {
    registry: Arc<Registry>,
    relay: Arc<Relay>,
    /// Servers that nobody waits for, since they kept others waiting.
    slow_servers: Arc<SlowServers>,
    /// The addresses of resources that several servers have, each with the one whose is not shown.
    duplicates: Mutex<HashSet<(String, String)>>,
    recent: RecentCalls,
    call_counts: ToolCallCounts,
    /// Knows again what clients without a session bring back.
    sealer: StateSealer,
    /// The one server that is shown with its own names.
    expose: Option<String>,
    active: Mutex<Arc<ActiveOptions>>,
    /// Counts what was shown; each client looks whether it knows it.
    edition: AtomicU64,
}

/// What is shown to whom, now.
struct ActiveOptions {
    options: GatewayOptions,
    /// Principals that were there once; they may use nothing.
    revoked: HashSet<String>,
}

impl Gateway {
    /// A gateway over these servers. The relay must be the handler that the registry was built with, or servers have
    /// nobody to ask.
    pub fn new(registry: Arc<Registry>, relay: Arc<Relay>, options: GatewayOptions) -> Self {
        let state = Arc::new(GatewayState {
            registry,
            relay,
            slow_servers: SlowServers::new(),
            duplicates: Mutex::default(),
            recent: RecentCalls::default(),
            call_counts: ToolCallCounts::default(),
            sealer: StateSealer::new(),
            expose: options.expose.clone(),
            active: Mutex::new(Arc::new(ActiveOptions { options, revoked: HashSet::new() })),
            edition: AtomicU64::new(0),
        });
        let (stateless, operator_gates, listeners, shadow) = Default::default();
        Gateway { state, stateless, operator_gates, listeners, shadow, since: SystemTime::now() }
    }

    /// Takes another configuration, and shows itself otherwise: from its next request on, each client uses what it may
    /// now. Servers of `anew` begin anew though nothing has changed in their configuration. Who had a view of its own and
    /// has none now may use nothing; the exposed server stays the same.
    ///
    /// Nothing changes where the settings, or a view of them, cannot be used.
    pub fn reload(
        &self,
        mut config: Config,
        anew: &BTreeSet<String>,
        options: GatewayOptions,
    ) -> Result<ConfigChanges, GateError> {
        // Who could not be given less would keep what it has.
        let views = options.views.iter().map(|(name, view)| (Some(name.as_str()), view.clone()));
        let views = views.chain([(None, GateView::default())]);
        let views = views.map(|(name, view)| (name, self.state.restrict_to_exposed(view)));
        gate::check(self.state.registry.component(), &mut config, views)?;
        let changes = self.state.registry.set_servers_anew(config, anew)?;
        let before = self.state.active();
        let same = before.options.names == options.names && before.options.views == options.views;
        let once = before.revoked.iter().chain(before.options.views.keys());
        let revoked: HashSet<_> = once.filter(|name| !options.views.contains_key(*name)).cloned().collect();
        let shown = Arc::new(ActiveOptions { options, revoked });
        *self.state.active.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&shown);
        self.state.edition.fetch_add(1, Ordering::SeqCst);
        // After that, so that nobody who has departed comes in again.
        self.lock_stateless().retain(|principal, _| !shown.revoked.contains(&principal.name));
        // Calls under way keep the gates that they are made through.
        self.operator_gates.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if !same {
            self.state.registry.announce_changes();
        }
        Ok(changes)
    }

    fn lock_stateless(&self) -> MutexGuard<'_, HashMap<Principal, Arc<ClientSession>>> {
        self.stateless.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers behind the gateway.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.state.registry
    }

    /// The calls of late.
    pub fn recent(&self) -> &RecentCalls {
        &self.state.recent
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
    pub fn add_listener(&self, name: &'static str, address: String, limiter: Arc<LoadLimiter>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(OpenListener {
            name,
            address,
            load: limiter,
        });
    }

    fn listeners(&self) -> Vec<OpenListener> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The gate of an operator of this principal, with texts for people.
    fn operator_gate(&self, principal: &Principal) -> Result<Arc<Gate>, api::ApiResponse> {
        let mut desks = self.operator_gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = desks.get(principal) {
            return Ok(Arc::clone(gate));
        }
        let refused =
            |error: GateError| api::ApiResponse { status: 500, body: json!({"error": error.to_string()}).to_string() };
        let view = self.state.view(principal).map_err(refused)?;
        let view = GateView { pass_through: false, ..view };
        let gate = Arc::new(Gate::open(&self.state.registry, view).map_err(refused)?);
        desks.insert(principal.clone(), Arc::clone(&gate));
        Ok(gate)
    }
}

impl ClientFactory for Gateway {
    fn open_client(
        &self,
        principal: &Principal,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        Ok(ClientSession::open(&self.state, principal, Some(sink))?)
    }

    fn stateless_client(&self, principal: &Principal) -> Result<Arc<dyn ClientHandler>, GateError> {
        let mut stateless = self.lock_stateless();
        if let Some(client) = stateless.get(principal) {
            return Ok(Arc::clone(client) as _);
        }
        let client = ClientSession::open(&self.state, principal, None)?;
        stateless.insert(principal.clone(), Arc::clone(&client));
        Ok(client)
    }

    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>> {
        self.lock_stateless().values().map(|client| Arc::clone(client) as _).collect()
    }
}

impl GatewayState {
    /// Keeps and counts a call of this principal that is over.
    fn remember(&self, principal: &str, result: ToolResult, latency: Duration) {
        let ToolResult { call_id, name, tool, code, attempts, trace, .. } = result;
        self.call_counts.add(tool.as_ref(), code);
        let (at, principal) = (SystemTime::now(), principal.to_owned());
        self.recent.add(RecentCall { id: call_id, at, principal, name, tool, code, attempts, latency, trace });
    }

    /// Lets whoever runs the gateway know, once, that a server has an address or a name that is taken before.
    fn warn_duplicate(&self, server: &str, name: &str, owner: &str) {
        let mut doubled = self.duplicates.lock().unwrap_or_else(PoisonError::into_inner);
        if doubled.len() == MOST_DOUBLED || !doubled.insert((server.to_owned(), name.to_owned())) {
            return;
        }
        match server == owner {
            true => warn!(server, "it lists {name:?} more than once, and the first one counts"),
            false => warn!(server, "{name:?} is of server {owner:?} too, and that one's counts"),
        }
    }

    /// What a client of this principal may use now.
    fn view(&self, principal: &Principal) -> Result<GateView, GateError> {
        let shown = self.active();
        if shown.revoked.contains(&principal.name) {
            return Err(GateError::Settings(format!("{:?} may use nothing any more", principal.name)));
        }
        let view = shown.options.views.get(&principal.name).cloned().unwrap_or_default();
        Ok(GateView { pass_through: true, ..self.restrict_to_exposed(view) })
    }

    /// What of a view is of the exposed server, where there is one. Who may not use that may use nothing.
    fn restrict_to_exposed(&self, mut view: GateView) -> GateView {
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

    fn active(&self) -> Arc<ActiveOptions> {
        Arc::clone(&self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Of how many addresses that several servers have is told.
const MOST_DOUBLED: usize = 1000;
