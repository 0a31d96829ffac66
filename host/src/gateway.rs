//! The gateway: one MCP server in front of all configured servers, for clients of both eras.

pub mod api;
mod approvals;
mod bounds;
mod call_filter;
mod call_target;
mod choice;
pub mod client;
mod client_session;
mod dashboard;
mod history;
pub mod http;
mod limits;
mod load;
mod metrics;
mod operator_gates;
pub mod pages;
mod peer_message;
mod peer_seal;
mod recent;
pub(crate) mod recorded;
mod refusal;
pub mod replica;
mod rule_counts;
mod seal;
mod sealing_keys;
pub mod session_terms;
mod slow_queries;
mod slow_servers;
pub mod socket;
pub mod stdio;
mod visible_servers;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tracing::{info, warn};

pub use call_filter::CallFilter;
pub use choice::Choice;
pub use client_session::outcome::KEY as OUTCOME;
pub use client_session::relay::Relay;
pub use limits::{ConnectionTimeouts, GatewayLimits, StreamLimits};
pub use load::{LoadLimiter, LoadStats, RefusalCounts, RefusalReason};
pub use recent::{CallPage, RecentCall, RecentCalls};
pub use replica::ReplicaId;

use crate::config::model::{Config, ListMode};
use crate::config::resolve::SessionKey;
use crate::gate::{self, GateError, GateView, Listing};
use crate::lock::lock;
use crate::logic::types::execution::ToolResult;
use crate::logic::types::{ToolRef, filtering, naming};
use crate::registry::{ConfigChanges, Registry};
use crate::sha256::Sha256;
use crate::shadow::Shadow;
use api::access::AccessCache;
use approvals::WaitingCalls;
use call_target::CallTarget;
use client::{ClientFactory, ClientHandler, ClientSink, Principal, draw_session_name};
use client_session::ClientSession;
use client_session::shown_tools::SharedToolLists;
use history::{CallHistory, concerns_server};
use metrics::ToolCallCounts;
use operator_gates::OperatorGates;
use recorded::RecordQueries;
use replica::Replica;
use rule_counts::RuleCounts;
use seal::{RulesDigest, StateSealer};
use session_terms::SessionTerms;
use slow_queries::SlowQueries;
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
    /// The keys of sessions and approvals that all replicas have; without any, the gateway draws one.
    pub session_keys: Vec<SessionKey>,
    /// The folders of other gateways' records, which are listed beside those of this gateway.
    pub records: Vec<PathBuf>,
}

/// The gateway: one MCP server for many clients, each with its own gate.
pub struct Gateway {
    state: Arc<GatewayState>,
    /// The sessions shared by clients of 2026-07-28, by principal.
    stateless: Mutex<HashMap<Principal, Vec<SharedSession>>>,
    /// The gates for tool calls from the dashboard and the API.
    operator_gates: Mutex<OperatorGates>,
    /// The open listeners.
    listeners: Mutex<Vec<OpenListener>>,
    /// The shadow policy that judges finished calls, if there is one.
    shadow: Mutex<Option<Arc<Shadow>>>,
    /// Whether the gateway is about to stop.
    draining: watch::Sender<bool>,
    /// Why the configuration file is not in effect as it is now.
    not_applied: Mutex<Option<String>>,
    record_queries: RecordQueries,
    slow_queries: SlowQueries,
    access_answers: Arc<AccessCache>,
    since: SystemTime,
}

/// A session shared by clients of 2026-07-28 with the same principal and choice.
struct SharedSession {
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
    /// The calls that wait for an admin's approval.
    waiting: WaitingCalls,
    history: CallHistory,
    call_counts: ToolCallCounts,
    rule_counts: Mutex<Arc<RuleCounts>>,
    /// The lists of tools that clients are shown now.
    tool_lists: SharedToolLists,
    /// Seals and verifies the state that clients without a session return.
    sealer: StateSealer,
    /// What tells this process apart from other replicas, and what it shares with them.
    replica: Arc<Replica>,
    /// The only exposed server, under its own names.
    expose: Option<String>,
    active: Mutex<Arc<ActiveOptions>>,
    /// The version of the options; each client compares it with the version that it last applied.
    edition: AtomicU64,
}

/// The options in force, and the principals whose access was revoked.
struct ActiveOptions {
    options: GatewayOptions,
    /// A digest of the rules by which calls are decided.
    rules: RulesDigest,
    /// Principals that were removed from the configuration; they may use nothing.
    revoked: HashSet<String>,
}

impl Gateway {
    /// Creates a gateway for these servers. `relay` must be the handler that the registry was built with; otherwise
    /// servers cannot ask clients anything.
    pub fn new(registry: Arc<Registry>, relay: Arc<Relay>, options: GatewayOptions) -> Self {
        let replica = Replica::new(&options.session_keys, registry.store().clone());
        let rules = rules_digest(&registry, &options);
        let rule_counts = Mutex::new(Arc::new(RuleCounts::new(&registry.config())));
        let state = Arc::new(GatewayState {
            registry,
            relay,
            slow_servers: Arc::default(),
            duplicates: Mutex::default(),
            recent: RecentCalls::default(),
            waiting: WaitingCalls::default(),
            history: CallHistory::default(),
            call_counts: ToolCallCounts::default(),
            rule_counts,
            tool_lists: SharedToolLists::default(),
            sealer: StateSealer::new(Arc::clone(&replica)),
            replica,
            expose: options.expose.clone(),
            active: Mutex::new(Arc::new(ActiveOptions { options, rules, revoked: HashSet::new() })),
            edition: AtomicU64::new(0),
        });
        let (stateless, operator_gates, listeners, shadow, record_queries) = Default::default();
        let (slow_queries, access_answers) = Default::default();
        Gateway {
            state,
            stateless,
            operator_gates,
            listeners,
            shadow,
            record_queries,
            slow_queries,
            access_answers,
            draining: watch::Sender::new(false),
            not_applied: Mutex::default(),
            since: SystemTime::now(),
        }
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
        *lock(&self.state.rule_counts) = Arc::new(RuleCounts::new(&self.registry().config()));
        let before = self.state.active();
        let options = GatewayOptions { expose: before.options.expose.clone(), ..options };
        let same = before.options == options;
        if before.options.session_keys != options.session_keys {
            self.state.replica.set_keys(&options.session_keys);
        }
        let once = before.revoked.iter().chain(before.options.views.keys());
        let revoked: HashSet<_> = once.filter(|name| !options.views.contains_key(*name)).cloned().collect();
        let rules = rules_digest(self.registry(), &options);
        let shown = Arc::new(ActiveOptions { options, rules, revoked });
        {
            // Who sees the new rules sees the new edition too, and gets no older gate.
            let mut gates = lock(&self.operator_gates);
            let mut active = lock(&self.state.active);
            *active = Arc::clone(&shown);
            self.state.edition.fetch_add(1, Ordering::SeqCst);
            drop(active);
            gates.retire();
        }
        self.state.waiting.withdraw_others(&rules);
        // Only after the revocation is in force, or a revoked principal could open a session again.
        lock(&self.stateless).retain(|principal, _| !shown.revoked.contains(&principal.name));
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

    /// Tells admins why the configuration file is not in effect as it is now; `None` if it is.
    pub fn set_not_applied(&self, why: Option<String>) {
        *lock(&self.not_applied) = why;
    }

    /// Says from now on that the gateway is not ready because it is about to stop; it serves as before.
    pub fn start_draining(&self) {
        if !self.draining.send_replace(true) {
            info!("the gateway is about to stop, and says that it is not ready");
        }
    }

    /// Reports whether the gateway is about to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Returns a channel that changes when the gateway is about to stop.
    fn draining_changed(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Ends the calls of the API and the dashboard because the gateway stops; each gets an answer that says so.
    fn stop_operator_calls(&self) {
        lock(&self.operator_gates).stop_calls();
    }

    /// Hears what operators tell the gateway through other replicas, until it is dropped. A listener over HTTP does so
    /// itself.
    pub async fn listen_to_replicas(&self) {
        http::peers::listen_without_sessions(Arc::clone(&self.state.replica)).await;
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
        session: &str,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        // Sessions come and go; this one stays, and keeps what they share.
        self.stateless_client(principal, None)?;
        Ok(ClientSession::open(&self.state, principal, session, Some(sink))?)
    }

    fn resume_client(
        &self,
        principal: &Principal,
        session: &str,
        terms: &SessionTerms,
        sink: Arc<dyn ClientSink>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        self.stateless_client(principal, None)?;
        let client = ClientSession::open(&self.state, principal, session, Some(sink))?;
        client.resume(terms)?;
        Ok(client)
    }

    fn stateless_client(
        &self,
        principal: &Principal,
        choice: Option<Choice>,
    ) -> Result<Arc<dyn ClientHandler>, GateError> {
        let mut stateless = lock(&self.stateless);
        let known = stateless.get(principal).into_iter().flatten().find(|shared| shared.choice == choice);
        if let Some(known) = known {
            return Ok(Arc::clone(&known.session) as _);
        }
        let session = ClientSession::open(&self.state, principal, &draw_session_name().unwrap_or_default(), None)?;
        choice.clone().map(|choice| session.choose(choice)).transpose()?;
        let own = stateless.entry(principal.clone()).or_default();
        if own.iter().filter(|shared| shared.choice.is_some()).count() >= MOST_CHOICES {
            // Clients can choose in many ways, so sessions for choices that nobody uses now end.
            own.retain(|shared| shared.choice.is_none() || Arc::strong_count(&shared.session) > 1);
        }
        own.push(SharedSession { choice, session: Arc::clone(&session) });
        Ok(session)
    }

    fn stateless_clients(&self) -> Vec<Arc<dyn ClientHandler>> {
        lock(&self.stateless).values().flatten().map(|shared| Arc::clone(&shared.session) as _).collect()
    }

    fn replica(&self) -> &Arc<Replica> {
        &self.state.replica
    }
}

impl GatewayState {
    /// Records and counts a finished call of this principal.
    fn remember(&self, principal: &str, result: ToolResult, latency: Duration) {
        let ToolResult { call_id, name, tool, code, attempts, trace, .. } = result;
        let link = tool.as_ref().and_then(|tool| self.registry.link(&tool.server));
        let is_listed = |tool: &ToolRef| {
            let listed = link.as_ref().and_then(|link| link.known_tools());
            listed.is_some_and(|tools| tools.definition(&tool.tool).is_some())
        };
        let links = self.registry.links();
        let target = CallTarget::new(tool.as_ref(), &name, links.iter().map(|link| link.id()));
        self.call_counts.add(principal, target, tool.as_ref().is_some_and(is_listed), code);
        let (at, principal) = (SystemTime::now(), principal.to_owned());
        let rule_counts = Arc::clone(&lock(&self.rule_counts));
        rule_counts.count(&principal, tool.as_ref().map(|tool| tool.server.as_str()), &trace, at);
        // A name that no server has comes from a client.
        let outcome = gate::outcome(code);
        let server = link.as_ref().map(|link| link.id()).filter(|_| concerns_server(attempts, code));
        self.history.add(server, outcome, latency, at);
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

/// Returns a digest of the rules by which calls are decided. Replicas with the same configuration have the same one.
fn rules_digest(registry: &Registry, options: &GatewayOptions) -> RulesDigest {
    let config = registry.config();
    let mut digest = Sha256::new();
    match config.digest {
        Some(text) => digest.update(text),
        // It comes from no file, so nobody else has it.
        None => digest.update(registry.config_version().to_be_bytes()),
    }
    let (views, lists): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (options.views.iter().collect(), options.lists.0.iter().collect());
    digest.update(format!("{views:?} {lists:?} {:?} {:?} {:?}", options.lists.1, options.names, options.expose));
    digest.finish()
}

/// The number of sessions for choices of one principal's clients that are kept although nobody uses them.
const MOST_CHOICES: usize = 20;
/// The maximum number of duplicates that are reported.
const MOST_DOUBLED: usize = 1000;
