//! The configured servers, with a live connection to each one in use.

#[cfg(feature = "oauth")]
mod accounts;
mod backends;
mod change;
mod cleanup;
mod context;
mod definition;
mod link;
mod notices;
mod owned_task;
mod resource_tools;
mod rule_notes;
mod server_log;
mod status;
mod tools;
mod unmatched;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::sync::{broadcast, watch};

pub use backends::ServerToolChange;
pub(crate) use backends::{BackendError, GateBackend};
pub use change::ConfigChanges;
pub use definition::ToolDefinition;
pub use link::{Lease, Link, ResourceWatcher, Unavailable};
pub(crate) use resource_tools::resource_tools;
pub use server_log::{LogLine, LogPage, LogSource, StateChange};
pub use status::{ConnectionScope, LastError, ReadinessReport, ServerStatus, Warning, state_name};
pub use tools::ToolList;
pub use unmatched::UnmatchedRule;

use crate::condense::Condenser;
use crate::config::model::{self, Config};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::decide::LogicResult;
use crate::finished_call::Observe;
use crate::gate_settings::{GateView, find_problems, server_ids};
use crate::logic::{Component, Supervisor};
#[cfg(feature = "oauth")]
use crate::oauth::{Browse, TokenStore};
use crate::queue::QueueStats;
use crate::record::Recorder;
use crate::session::{Handler, LogLevel, NullHandler, ServerEvent};
use crate::stats::CallStats;
use crate::store::Store;
use crate::transport::Connect;
use backends::GateBackends;
use context::RegistryContext;

/// The configured servers. Dropping it cuts every connection; `close` ends them in an orderly way.
///
/// Call its methods within a tokio runtime.
pub struct Registry {
    component: Component,
    context: Arc<RegistryContext>,
    blocking_runner: BlockingRunner,
    state: Mutex<RegistryState>,
    /// Backends that gates with the same view share.
    backends: GateBackends,
    /// Receives calls when they are over.
    observer: RwLock<Option<Arc<dyn Observe>>>,
    /// How often calls fitted rules with limits, and what agents have seen.
    store: Store,
}

/// Runs work that takes a while, such as masking a long result.
pub type BlockingRunner = fn(&mut dyn FnMut());

/// The options of a registry that are not in the configuration.
pub struct RegistryOptions {
    /// The values of variables.
    pub variables: Variables,
    /// Answers the requests of servers.
    pub handler: Arc<dyn Handler>,
    /// Collects all secrets before they are used, so that no output shows them.
    pub secrets: Arc<Mutex<Secrets>>,
    /// The embedder's own transports, by server id.
    pub transports: HashMap<String, Arc<dyn Connect>>,
    /// How long the registry is going to live.
    pub lifetime: RegistryLifetime,
    /// Runs work that takes a while; the default runs it in place. On a multi-threaded runtime,
    /// `tokio::task::block_in_place` keeps other tasks from waiting for it.
    pub blocking_runner: BlockingRunner,
    /// The folder for recorded calls; overrides the configuration.
    pub record: Option<PathBuf>,
    /// What the replicas of a gateway share; the memory of this process by default.
    pub store: Store,
    /// Takes a person to the page where a server asks for consent; without it, such a server ends in `needs-auth`.
    #[cfg(feature = "oauth")]
    pub browse: Option<Arc<dyn Browse>>,
    /// Where tokens are stored; the user's own folder by default.
    #[cfg(feature = "oauth")]
    pub tokens: Option<TokenStore>,
}

/// How long a registry is going to live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RegistryLifetime {
    /// Until it is closed: servers are monitored, and failed starts are retried.
    #[default]
    LongRunning,
    /// For one task: a server that does not start has failed.
    OneShot,
}

/// A notification from a server, or a change of lists after a new configuration.
#[derive(Clone)]
pub struct LinkEvent {
    /// The server that sent it, while it exists; none if the configuration caused the event.
    pub link: Option<Weak<Link>>,
    /// The event itself.
    pub event: ServerEvent,
}

/// The servers as they are configured now.
struct RegistryState {
    config: Arc<Config>,
    condenser: Arc<Condenser>,
    recorder: Option<Arc<Recorder>>,
    links: Arc<[Arc<Link>]>,
    /// The index of each server in `links`, by id.
    positions: BTreeMap<String, usize>,
    /// Connections of single sessions or gates, which own them.
    scoped_links: HashMap<(String, LinkScope), Weak<Link>>,
    /// Connections of older configurations, on which calls may still run.
    retired: Vec<Weak<Link>>,
    /// The number of the current configuration.
    config_version: u64,
    /// The number of the last configuration that changed the servers.
    servers_version: u64,
}

/// The owner of a connection that not everyone shares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum LinkScope {
    /// All gates of this session, whose id the server receives.
    Session(String),
    /// This gate alone.
    Gate(u64),
}

impl Default for RegistryOptions {
    fn default() -> Self {
        RegistryOptions {
            variables: Variables::from_process(),
            handler: Arc::new(NullHandler),
            secrets: Arc::default(),
            transports: HashMap::new(),
            lifetime: RegistryLifetime::LongRunning,
            blocking_runner: |work| work(),
            record: None,
            store: Store::default(),
            #[cfg(feature = "oauth")]
            browse: None,
            #[cfg(feature = "oauth")]
            tokens: None,
        }
    }
}

impl Registry {
    /// Builds the servers of a configuration, and starts only the eager ones.
    pub fn new(component: &Component, mut config: Config, options: RegistryOptions) -> LogicResult<Arc<Self>> {
        let mut logic = Supervisor::new(component.clone())?;
        find_problems(&mut logic, &mut config)?;
        let config = Arc::new(config);
        let (blocking_runner, store) = (options.blocking_runner, options.store.clone());
        let context = Arc::new(RegistryContext::new(logic, &config, options));
        let links = (0..config.servers.len())
            .map(|place| Link::new(Arc::clone(&context), Arc::clone(&config), place, None, CallStats::default()))
            .collect::<LogicResult<Arc<[_]>>>()?;
        links.iter().for_each(|link| link.start_if_eager());
        let positions = positions_by_id(&links);
        let condenser = context.condenser(&config);
        let recorder = context.recorder(component, &config, None);
        let state = Mutex::new(RegistryState {
            config,
            condenser,
            recorder,
            links,
            positions,
            scoped_links: HashMap::new(),
            retired: Vec::new(),
            config_version: 0,
            servers_version: 0,
        });
        let observer = RwLock::default();
        let (component, backends) = (component.clone(), GateBackends::new(component));
        Ok(Arc::new(Registry { component, context, blocking_runner, state, backends, observer, store }))
    }

    /// Returns the component that decides.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Returns the backend for gates with this view, by the current configuration.
    pub(crate) fn open_backend(&self, view: &GateView) -> Result<Arc<GateBackend>, BackendError> {
        // Read before the lists, so that a change in between is not missed.
        let seen = self.tools_count();
        let (config, edition, share) = {
            let state = self.state();
            let session = view.session.as_deref();
            // Servers that belong to one gate or one session list their tools for it alone.
            let selected = view.selection.as_ref().map(|selection| server_ids(selection));
            let is_selected = |id: &str| selected.as_ref().is_none_or(|ids| ids.contains(id));
            let used = |link: &&Arc<Link>| link.server().enabled && is_selected(link.id());
            let share = state.links.iter().filter(used).all(|link| link.is_shared_for(session));
            (Arc::clone(&state.config), state.config_version, share)
        };
        self.backends.open(&self.component, &config, edition, view, share, seen)
    }

    /// Returns what the replicas of a gateway share.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the runner for work that takes a while.
    pub(crate) fn blocking_runner(&self) -> BlockingRunner {
        self.blocking_runner
    }

    /// Returns the current configuration.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.state().config)
    }

    /// Returns all servers, in the order of the configuration.
    pub fn links(&self) -> Arc<[Arc<Link>]> {
        Arc::clone(&self.state().links)
    }

    /// Returns the server with this id.
    pub fn link(&self, id: &str) -> Option<Arc<Link>> {
        self.state().link(id).cloned()
    }

    /// Returns the server with this id if all gates share its connection.
    pub(crate) fn shared_link(&self, id: &str, session: Option<&str>) -> Option<Arc<Link>> {
        let state = self.state();
        state.link(id).filter(|link| link.is_shared_for(session)).cloned()
    }

    /// Returns the server with this id for a gate or a session that has a connection of its own.
    pub(crate) fn scoped_link(&self, id: &str, gate: u64, session: Option<&str>) -> Option<Arc<Link>> {
        let mut state = self.state();
        let place = *state.positions.get(id)?;
        let shared = Arc::clone(&state.links[place]);
        let session = session.filter(|_| shared.uses_session()).map(str::to_owned);
        let apart = match &session {
            Some(session) if shared.server().lifecycle.shared => LinkScope::Session(session.clone()),
            _ => LinkScope::Gate(gate),
        };
        let key = (id.to_owned(), apart);
        // Its last gate may be closing it right now.
        let known = state.scoped_links.get(&key).and_then(Weak::upgrade).filter(|link| !link.is_closed());
        if known.is_some() {
            return known;
        }
        state.scoped_links.retain(|_, link| link.strong_count() > 0);
        let stats = shared.stats().clone();
        let off = shared.is_switched_off();
        let link = Link::new(Arc::clone(&self.context), Arc::clone(&state.config), place, session, stats).ok()?;
        state.scoped_links.insert(key, Arc::downgrade(&link));
        // A server that an operator has switched on or off stays so for everyone.
        match off {
            true => link.set_enabled(false),
            false if link.is_disabled() => link.set_enabled(true),
            false => link.start_if_eager(),
        }
        Some(link)
    }

    /// Sets or removes the observer of finished calls; running gates use it from their next call on.
    pub fn set_observer(&self, observer: Option<Arc<dyn Observe>>) {
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
    }

    /// Returns the observers of a call that begins now: the recorder and the one that was set.
    pub(crate) fn observers(&self) -> Vec<Arc<dyn Observe>> {
        let recorder = self.recorder().map(|recorder| recorder as Arc<dyn Observe>);
        let observer = self.observer.read().unwrap_or_else(PoisonError::into_inner).clone();
        recorder.into_iter().chain(observer).filter(|observer| observer.wants()).collect()
    }

    /// Returns the condenser, which stores and summarises results that are too long.
    pub(crate) fn condenser(&self) -> Arc<Condenser> {
        Arc::clone(&self.state().condenser)
    }

    /// Returns the recorder, if calls are recorded.
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.state().recorder.clone()
    }

    /// Returns the number of the current configuration, so that gates notice a new one.
    pub(crate) fn config_version(&self) -> u64 {
        self.state().config_version
    }

    /// Returns the number of the last configuration that changed the servers.
    pub(crate) fn servers_version(&self) -> u64 {
        self.state().servers_version
    }

    /// Returns the status of all servers, in the order of the configuration, including connections of single gates and
    /// sessions.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.links().iter().map(|link| self.status_of(link)).collect()
    }

    /// Returns the status of one server.
    pub fn status(&self, id: &str) -> Option<ServerStatus> {
        self.link(id).map(|link| self.status_of(&link))
    }

    fn status_of(&self, link: &Link) -> ServerStatus {
        let apart = self.state().scoped_links_of(link.id());
        apart.iter().fold(link.status(), |status, other| status.with(other.status()))
    }

    /// Enables a server on all its connections, and wakes callers that wait for it; false if there is no such server.
    pub fn enable(&self, id: &str) -> bool {
        self.for_each_link(id, |link| link.set_enabled(true))
    }

    /// Disables a server: running calls lose it, and its tools disappear; false if there is no such server.
    pub fn disable(&self, id: &str) -> bool {
        self.for_each_link(id, |link| link.set_enabled(false))
    }

    /// Closes the connections to a server and opens new ones, even after it has failed; false if there is no such
    /// server.
    pub fn reconnect(&self, id: &str) -> bool {
        self.for_each_link(id, Link::reconnect)
    }

    /// Applies a function to all connections of a server.
    fn for_each_link(&self, id: &str, what: impl Fn(&Link)) -> bool {
        let (shared, apart) = {
            let state = self.state();
            let Some(shared) = state.link(id).cloned() else { return false };
            (shared, state.scoped_links_of(id))
        };
        what(&shared);
        apart.iter().for_each(|link| what(link));
        self.context.notices.tools_changed();
        true
    }

    /// Reports whether the registry is ready by the configured rule, and what does not work.
    pub fn readiness(&self) -> ReadinessReport {
        let statuses = self.statuses();
        let waits_for: Vec<_> = match self.config().settings.readiness {
            model::ReadinessRule::All => statuses.iter().filter_map(ServerStatus::wait_reason).collect(),
            model::ReadinessRule::Any => Vec::new(),
        };
        let warnings = statuses.iter().filter_map(ServerStatus::warning).collect();
        ReadinessReport { ready: waits_for.is_empty(), waits_for, warnings }
    }

    /// Starts each server once, if the configuration waits for all of them: otherwise servers that nobody has called
    /// would keep the registry from becoming ready.
    pub fn become_ready(&self) {
        if self.context.prove_servers() {
            self.links().iter().for_each(|link| link.check_start());
        }
    }

    /// Returns the rules that match no tool, for all servers whose tools are known.
    pub fn unmatched_rules(&self) -> Vec<UnmatchedRule> {
        let notes = self.context.rule_notes.all().into_iter();
        let notes = notes.map(|warning| UnmatchedRule { principal: None, warning });
        self.context.unmatched.all().into_iter().chain(notes).collect()
    }

    /// Returns the state of the named queues.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.context.queues.stats()
    }

    /// Returns a counter of tool list changes on all servers; wait for it to learn of each new list.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.context.notices.tools()
    }

    /// Returns a counter of server state changes; wait for it to learn of each.
    pub fn states_changed(&self) -> watch::Receiver<u64> {
        self.context.notices.states()
    }

    /// Returns the last lines that a server wrote to its standard error, and what became of it, after the line with
    /// this number; none if no such server is configured. Secrets and what the server's masks hide are removed.
    pub fn server_log(&self, id: &str, after: u64) -> Option<LogPage> {
        let link = self.link(id)?;
        let secrets = self.secrets();
        let mask = |text: &str| self.context.mask(link.server(), secrets.redact(text).into_owned());
        Some(self.context.logs.of(id).page(after, &mask))
    }

    /// Returns the last states that a server entered, oldest first; none for a server with a connection for each client,
    /// which has no state of its own.
    pub fn server_states(&self, id: &str) -> Vec<StateChange> {
        self.context.logs.of(id).states()
    }

    /// Returns a counter of the lines in all servers' logs; wait for it to learn of each.
    pub fn logs_changed(&self) -> watch::Receiver<u64> {
        self.context.logs.changed()
    }

    /// Subscribes to servers' events: changes of prompts and resources, and the log messages that somebody asked for.
    pub fn events(&self) -> broadcast::Receiver<LinkEvent> {
        self.context.notices.events.subscribe()
    }

    /// Announces that lists of tools, prompts and resources may have changed.
    pub(crate) fn announce_changes(&self) {
        self.context.notices.tools_changed();
        self.context.notices.announce_list_changes();
    }

    /// Asks for servers' log messages from this level on, or cancels that. Connected servers receive the lowest level
    /// that anybody wants; others receive it when they connect.
    pub async fn want_logs(&self, who: u64, level: Option<LogLevel>) {
        self.context.notices.want_level(who, level);
        let links: Vec<_> = {
            let state = self.state();
            state.links.iter().cloned().chain(state.scoped_links.values().filter_map(Weak::upgrade)).collect()
        };
        futures_util::future::join_all(links.iter().map(|link| link.send_log_level())).await;
    }

    /// Returns how often servers announced other tools.
    pub(crate) fn announced_tools(&self) -> u64 {
        self.context.notices.announced_tools()
    }

    /// Returns the number of tool list changes so far.
    pub(crate) fn tools_count(&self) -> u64 {
        self.context.notices.tools_count()
    }

    /// Returns the secrets resolved so far, which no output may show.
    pub fn secrets(&self) -> Secrets {
        self.context.secrets().clone()
    }

    /// Ends every connection in an orderly way, all at the same time.
    pub async fn close(&self) {
        let (links, others) = {
            let mut state = self.state();
            self.context.cleanup.begin_shutdown();
            let (apart, retired) = (std::mem::take(&mut state.scoped_links), std::mem::take(&mut state.retired));
            let others: Vec<_> = apart.into_values().chain(retired).filter_map(|link| link.upgrade()).collect();
            (Arc::clone(&state.links), others)
        };
        futures_util::future::join_all(links.iter().chain(&others).map(|link| link.close())).await;
        self.context.cleanup.wait_closed().await;
        if let Some(recorder) = self.recorder() {
            // Waiting for the disk blocks, so it happens on another thread and with a limit.
            let _ = tokio::task::spawn_blocking(move || recorder.flush(FLUSH)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // A cleanup task may keep a connection, which keeps this context.
        self.context.cleanup.abort();
    }
}

impl RegistryState {
    /// Returns the connections of single gates and sessions to a server.
    fn scoped_links_of(&self, id: &str) -> Vec<Arc<Link>> {
        let of_server = self.scoped_links.iter().filter(|((server, _), _)| server == id);
        of_server.filter_map(|(_, link)| link.upgrade()).filter(|link| !link.is_closed()).collect()
    }

    fn link(&self, id: &str) -> Option<&Arc<Link>> {
        self.positions.get(id).map(|place| &self.links[*place])
    }
}

fn positions_by_id(links: &[Arc<Link>]) -> BTreeMap<String, usize> {
    links.iter().enumerate().map(|(place, link)| (link.id().to_owned(), place)).collect()
}

/// How long `close` waits for the last calls to be recorded.
const FLUSH: std::time::Duration = std::time::Duration::from_secs(5);
