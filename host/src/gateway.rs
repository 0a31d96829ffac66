//! The gateway: one MCP server in front of all configured servers, for clients of both eras.

pub mod api;
mod bounds;
mod choice;
pub mod client;
mod client_session;
pub mod http;
mod limits;
mod load;
mod metrics;
pub mod pages;
mod recent;
mod refusal;
mod seal;
mod slow_servers;
pub mod socket;
pub mod stdio;
mod visible_servers;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tracing::warn;

pub use choice::Choice;
pub use client_session::outcome::KEY as OUTCOME;
pub use client_session::relay::Relay;
pub use limits::{ConnectionTimeouts, GatewayLimits, StreamLimits};
pub use load::{LoadLimiter, LoadStats, RefusalCounts, RefusalReason};
pub use recent::{RecentCall, RecentCalls};

use crate::config::model::{Config, ListMode};
use crate::gate::{self, Gate, GateError, GateView, Listing};
use crate::lock::lock;
use crate::logic::types::execution::ToolResult;
use crate::logic::types::{ToolRef, filtering, naming};
use crate::registry::{ConfigChanges, Registry};
use crate::shadow::Shadow;
use client::{ClientFactory, ClientHandler, ClientSink, Principal};
use client_session::ClientSession;
use metrics::ToolCallCounts;
use seal::StateSealer;
use slow_servers::SlowServers;

/// Options of the gateway.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GatewayOptions {
    /// How tools and prompts are named; `None` means as configured.
    pub names: Option<naming::NamingStyle>,
    /// Exposes only this server, with its own names.
    pub expose: Option<String>,
    /// Which tools are listed for each principal, and for all others.
    pub lists: (HashMap<String, ListMode>, ListMode),
    /// What each principal may use; principals without an entry may use everything.
    pub views: HashMap<String, GateView>,
}

/// The gateway: one MCP server for many clients, each with its own gate.
pub struct Gateway {
    state: Arc<GatewayState>,
    /// The sessions shared by clients of 2026-07-28.
    stateless: Mutex<Vec<SharedSession>>,
    /// The gates for tool calls from the dashboard and the API, by principal.
    operator_gates: Mutex<HashMap<Principal, Arc<Gate>>>,
    /// The open listeners.
    listeners: Mutex<Vec<OpenListener>>,
    /// The shadow policy that judges finished calls, if there is one.
    shadow: Mutex<Option<Arc<Shadow>>>,
    since: SystemTime,
}

/// A session shared by clients of 2026-07-28 with the same principal and choice.
struct SharedSession {
    principal: Principal,
    choice: Option<Choice>,
    session: Arc<ClientSession>,
}

/// An open listener, as operators see it.
struct OpenListener {
    name: &'static str,
    address: String,
    load: Arc<LoadLimiter>,
}

/// The state that all clients share.
pub(crate) struct GatewayState {
    registry: Arc<Registry>,
    relay: Arc<Relay>,
    /// Servers that no list waits for, because they kept clients waiting.
    slow_servers: Arc<SlowServers>,
    /// Reported duplicates: the server whose resource or prompt is not used, and its URI or name.
    duplicates: Mutex<HashSet<(String, String)>>,
    recent: RecentCalls,
    call_counts: ToolCallCounts,
    /// Seals and verifies the state that clients without a session return.
    sealer: StateSealer,
    /// The only exposed server, under its own names.
    expose: Option<String>,
    active: Mutex<Arc<ActiveOptions>>,
    /// The version of the options; each client compares it with the version that it last applied.
    edition: AtomicU64,
}

/// The options in force, and the principals whose access was revoked.
struct ActiveOptions {
    options: GatewayOptions,
    /// Principals that were removed from the configuration; they may use nothing.
    revoked: HashSet<String>,
}

impl Gateway {
    /// Creates a gateway for these servers. `relay` must be the handler that the registry was built with; otherwise
    /// servers cannot ask clients anything.
    pub fn new(registry: Arc<Registry>, relay: Arc<Relay>, options: GatewayOptions) -> Self {
        let state = Arc::new(GatewayState {
            registry,
            relay,
            slow_servers: Arc::default(),
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

    /// Applies a new configuration and new options, which clients use from their next request on.
    ///
    /// Servers in `anew` restart even if their configuration is unchanged. A principal that had a view and has none now
    /// may use nothing. The exposed server stays the same. If the settings or a view are invalid, nothing changes.
    pub fn reload(
        &self,
        mut config: Config,
        anew: &BTreeSet<String>,
        options: GatewayOptions,
    ) -> Result<ConfigChanges, GateError> {
        // Check every view first: a client whose new view is invalid would keep its old access.
        let views = options.views.iter().map(|(name, view)| (Some(name.as_str()), view.clone()));
        let views = views.chain([(None, GateView::default())]);
        let views = views.map(|(name, view)| (name, self.state.restrict_to_exposed(view)));
        gate::check(self.state.registry.component(), &mut config, views)?;
        let changes = self.state.registry.set_servers_anew(config, anew)?;
        let before = self.state.active();
        let same = before.options == GatewayOptions { expose: before.options.expose.clone(), ..options.clone() };
        let once = before.revoked.iter().chain(before.options.views.keys());
        let revoked: HashSet<_> = once.filter(|name| !options.views.contains_key(*name)).cloned().collect();
        let shown = Arc::new(ActiveOptions { options, revoked });
        *lock(&self.state.active) = Arc::clone(&shown);
        self.state.edition.fetch_add(1, Ordering::SeqCst);
        // Only after the revocation is in force, or a revoked principal could open a session again.
        lock(&self.stateless).retain(|shared| !shown.revoked.contains(&shared.principal.name));
        // Running calls keep their gates.
        lock(&self.operator_gates).clear();
        if !same {
            self.state.registry.announce_changes();
        }
        Ok(changes)
    }

    /// Returns the registry of the servers behind the gateway.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.state.registry
    }

    /// Returns the most recent calls.
    pub fn recent(&self) -> &RecentCalls {
        &self.state.recent
    }

    /// Sets the shadow policy, or removes it with `None`.
    pub fn set_shadow(&self, shadow: Option<Arc<Shadow>>) {
        self.registry().set_observer(shadow.clone().map(|shadow| shadow as _));
        *lock(&self.shadow) = shadow;
    }

    /// Returns the shadow policy, if there is one.
    pub fn shadow(&self) -> Option<Arc<Shadow>> {
        lock(&self.shadow).clone()
    }

    /// Registers a listener for the dashboard and the metrics. `name` is a metric label, so there must be few of them.
    pub fn add_listener(&self, name: &'static str, address: String, limiter: Arc<LoadLimiter>) {
        lock(&self.listeners).push(OpenListener { name, address, load: limiter });
    }
}

impl ClientFactory for Gateway {
    fn open_client(
        &self,
        principal: &Principal,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        Ok(ClientSession::open(&self.state, principal, Some(sink), None)?)
    }

    fn stateless_client(
        &self,
        principal: &Principal,
        choice: Option<Choice>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        let mut stateless = lock(&self.stateless);
        let known = stateless.iter().find(|shared| shared.principal == *principal && shared.choice == choice);
        if let Some(known) = known {
            return Ok(Arc::clone(&known.session) as _);
        }
        let is_choice = |shared: &SharedSession| shared.principal == *principal && shared.choice.is_some();
        if stateless.iter().filter(|shared| is_choice(shared)).count() >= MOST_CHOICES {
            // Clients can choose in many ways, so sessions for choices that nobody uses now end.
            stateless.retain(|shared| !is_choice(shared) || Arc::strong_count(&shared.session) > 1);
        }
        let session = ClientSession::open(&self.state, principal, None, choice.clone())?;
        stateless.push(SharedSession { principal: principal.clone(), choice, session: Arc::clone(&session) });
        Ok(session)
    }

    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>> {
        lock(&self.stateless).iter().map(|shared| Arc::clone(&shared.session) as _).collect()
    }
}

impl GatewayState {
    /// Records and counts a finished call of this principal.
    fn remember(&self, principal: &str, result: ToolResult, latency: Duration) {
        let ToolResult { call_id, name, tool, code, attempts, trace, .. } = result;
        let is_listed = |tool: &ToolRef| {
            let listed = self.registry.link(&tool.server).and_then(|link| link.known_tools());
            listed.is_some_and(|tools| tools.definition(&tool.tool).is_some())
        };
        self.call_counts.add(principal, tool.as_ref(), tool.as_ref().is_some_and(is_listed), code);
        let (at, principal) = (SystemTime::now(), principal.to_owned());
        self.recent.add(RecentCall { id: call_id, at, principal, name, tool, code, attempts, latency, trace });
    }

    /// Returns the full name of a tool, with the exposed server in front if there is one.
    fn full_name(&self, name: String) -> String {
        match &self.expose {
            Some(server) => format!("{server}.{name}"),
            None => name,
        }
    }

    /// Warns once that a server lists a URI or name that is already taken.
    fn warn_duplicate(&self, server: &str, name: &str, owner: &str) {
        let mut doubled = lock(&self.duplicates);
        if doubled.len() == MOST_DOUBLED || !doubled.insert((server.to_owned(), name.to_owned())) {
            return;
        }
        match server == owner {
            true => warn!(server, "the server lists {name:?} more than once; only the first is used"),
            false => warn!(server, "server {owner:?} also lists {name:?}; that one is used"),
        }
    }

    /// Returns what a client of this principal may use now, or an error if its access was revoked.
    fn view(&self, principal: &str) -> Result<GateView, GateError> {
        let shown = self.active();
        if shown.revoked.contains(principal) {
            return Err(GateError::Settings(format!("the access of {principal:?} was revoked")));
        }
        let view = shown.options.views.get(principal).cloned().unwrap_or_default();
        let (lists, of_others) = &shown.options.lists;
        let mode = lists.get(principal).copied().unwrap_or(*of_others);
        let style =
            || shown.options.names.clone().unwrap_or_else(|| gate::style(self.registry.config().settings.names));
        let listing = Listing { mode, style: self.expose.is_none().then(style) };
        let listing = Some(listing).filter(|_| mode != ListMode::All);
        Ok(GateView { pass_through: true, listing, ..self.restrict_to_exposed(view) })
    }

    /// Restricts a view to the exposed server, if there is one; a view without that server allows nothing.
    fn restrict_to_exposed(&self, mut view: GateView) -> GateView {
        let Some(server) = &self.expose else { return view };
        // Its clients see its own names, and read its resources themselves.
        view.without_resource_tools = true;
        let whole = || filtering::SelectedServer { id: server.clone(), tools: Vec::new() };
        let selected = view.selection.get_or_insert_with(|| vec![whole()]);
        selected.retain(|selected| selected.id == *server);
        if selected.is_empty() {
            // A selection must name a server; granting no capabilities denies everything.
            selected.push(whole());
            view.capabilities = Some(Vec::new());
        }
        view
    }

    fn active(&self) -> Arc<ActiveOptions> {
        Arc::clone(&lock(&self.active))
    }
}

/// The number of sessions for choices of one principal's clients that are kept although nobody uses them.
const MOST_CHOICES: usize = 20;
/// The maximum number of duplicates that are reported.
const MOST_DOUBLED: usize = 1000;
