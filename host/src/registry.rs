//! The configured servers, and a connection to each that is wanted, kept alive.

#[cfg(feature = "oauth")]
mod accounts;
mod change;
mod context;
mod definition;
mod link;
mod owned_task;
mod status;
mod tools;
mod unmatched;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::sync::{broadcast, watch};

pub use change::ConfigChanges;
pub use definition::ToolDefinition;
pub use link::{Lease, Link, ResourceWatcher, Unavailable};
pub use status::{LastError, ReadinessReport, ServerStatus, Warning, state_name};
pub use tools::ToolList;
pub use unmatched::UnmatchedRule;

use crate::condense::Condenser;
use crate::config::model::{self, Config};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::decide::LogicResult;
use crate::gate::{GateBackend, GateBackends, GateError, GateView, Observe, find_problems};
use crate::logic::types::lifecycle::State;
use crate::logic::{Component, Supervisor};
#[cfg(feature = "oauth")]
use crate::oauth::{Browse, TokenStore};
use crate::queue::QueueStats;
use crate::record::Recorder;
use crate::session::{Handler, LogLevel, NullHandler, ServerEvent};
use crate::stats::CallStats;
use crate::transport::Connect;
use context::RegistryContext;

/// The configured servers. Dropping it ends every connection at once; `close` ends them in good manners.
///
/// All its methods want a tokio runtime around them.
pub struct Registry {
    component: Component,
    context: Arc<RegistryContext>,
    blocking_runner: BlockingRunner,
    state: Mutex<RegistryState>,
    /// What gates are asked with that see the same.
    backends: GateBackends,
    /// Who looks at calls when they are over.
    observer: RwLock<Option<Arc<dyn Observe>>>,
}

/// Does a piece of work that takes a while, such as masking a long answer.
pub type BlockingRunner = fn(&mut dyn FnMut());

/// What a registry is built with, beside the configuration.
pub struct RegistryOptions {
    /// What variables stand for.
    pub variables: Variables,
    /// Who answers what servers ask.
    pub handler: Arc<dyn Handler>,
    /// Where all secrets go before they are used, so that nothing that is printed shows them.
    pub secrets: Arc<Mutex<Secrets>>,
    /// Servers, by id, that are reached in a way of the embedder's own.
    pub transports: HashMap<String, Arc<dyn Connect>>,
    /// How long the registry is going to live.
    pub lifetime: RegistryLifetime,
    /// How work is done that takes a while: at once, unless told otherwise. Where several threads serve many,
    /// `tokio::task::block_in_place` keeps the others from waiting for it.
    pub blocking_runner: BlockingRunner,
    /// The folder that calls are recorded in, whatever the configuration says of that.
    pub record: Option<PathBuf>,
    /// Who brings a person where a server wants their consent; without it, such a server needs an authorization.
    #[cfg(feature = "oauth")]
    pub browse: Option<Arc<dyn Browse>>,
    /// Where tokens are kept; the user's own place, if none is given.
    #[cfg(feature = "oauth")]
    pub tokens: Option<TokenStore>,
}

/// How long a registry is going to live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RegistryLifetime {
    /// As long as it takes: servers are looked after, and those that do not start are tried again.
    #[default]
    LongRunning,
    /// For one piece of work: a server that does not start has failed.
    OneShot,
}

/// What was told unasked.
#[derive(Clone)]
pub struct LinkEvent {
    /// The server that told it, for as long as it is there; none where the configuration brought it about.
    pub link: Option<Weak<Link>>,
    /// What was told.
    pub event: ServerEvent,
}

/// The servers as they are configured now.
struct RegistryState {
    config: Arc<Config>,
    condenser: Arc<Condenser>,
    recorder: Option<Arc<Recorder>>,
    links: Arc<[Arc<Link>]>,
    /// Where each server stands among them.
    positions: BTreeMap<String, usize>,
    /// Connections for single sessions or gates; whoever uses one keeps it.
    scoped_links: HashMap<(String, LinkScope), Weak<Link>>,
    /// Connections of older configurations, on which calls may still run.
    retired: Vec<Weak<Link>>,
    /// Counts the configurations.
    config_version: u64,
    /// The last of them that has other servers than the one before.
    servers_version: u64,
}

/// What a connection that not all share is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum LinkScope {
    /// For all gates of this session, which the server is told of.
    Session(String),
    /// For this gate alone.
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
            #[cfg(feature = "oauth")]
            browse: None,
            #[cfg(feature = "oauth")]
            tokens: None,
        }
    }
}

impl Registry {
    /// The servers of a configuration; only eager ones are started.
    pub fn new(component: &Component, mut config: Config, options: RegistryOptions) -> LogicResult<Arc<Self>> {
        let mut logic = Supervisor::new(component.clone())?;
        find_problems(&mut logic, &mut config)?;
        let config = Arc::new(config);
        let blocking_runner = options.blocking_runner;
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
        let observer = Default::default();
        let (component, backends) = (component.clone(), GateBackends::new(component));
        Ok(Arc::new(Registry { component, context, blocking_runner, state, backends, observer }))
    }

    /// The component that decides.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// What a gate with this view is asked with, by the configuration of now.
    pub(crate) fn open_backend(&self, view: &GateView) -> Result<Arc<GateBackend>, GateError> {
        // Before the lists are looked at, so that a change between the two is not missed.
        let seen = self.tools_count();
        let (config, edition, share) = {
            let book = self.state();
            let session = view.session.as_deref();
            // Servers of a gate's own, or of its session, offer to it alone.
            let selected = |id: &str| {
                let selection = view.selection.as_ref();
                selection.is_none_or(|selection| selection.iter().any(|selected| selected.id == id))
            };
            let used = |link: &&Arc<Link>| link.server().enabled && selected(link.id());
            let share = book.links.iter().filter(used).all(|link| link.is_shared_for(session));
            (Arc::clone(&book.config), book.config_version, share)
        };
        self.backends.open(&self.component, &config, edition, view, share, seen)
    }

    /// How work is done that takes a while.
    pub(crate) fn blocking_runner(&self) -> BlockingRunner {
        self.blocking_runner
    }

    /// The configuration of now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.state().config)
    }

    /// All servers, in the order of the configuration.
    pub fn links(&self) -> Arc<[Arc<Link>]> {
        Arc::clone(&self.state().links)
    }

    /// The server of this id.
    pub fn link(&self, id: &str) -> Option<Arc<Link>> {
        self.state().link(id).cloned()
    }

    /// The server of this id, where all gates share its connection.
    pub(crate) fn shared_link(&self, id: &str, session: Option<&str>) -> Option<Arc<Link>> {
        let book = self.state();
        book.link(id).filter(|link| link.is_shared_for(session)).cloned()
    }

    /// The server of this id, for a gate or a session that does not share its connection with all others.
    pub(crate) fn scoped_link(&self, id: &str, gate: u64, session: Option<&str>) -> Option<Arc<Link>> {
        let mut book = self.state();
        let place = *book.positions.get(id)?;
        let shared = Arc::clone(&book.links[place]);
        let session = session.filter(|_| shared.uses_session()).map(str::to_owned);
        let apart = match &session {
            Some(session) if shared.server().lifecycle.shared => LinkScope::Session(session.clone()),
            _ => LinkScope::Gate(gate),
        };
        let key = (id.to_owned(), apart);
        // One that its last gate is closing this moment serves nobody any more.
        let known = book.scoped_links.get(&key).and_then(Weak::upgrade).filter(|link| !link.is_closed());
        if known.is_some() {
            return known;
        }
        book.scoped_links.retain(|_, link| link.strong_count() > 0);
        let stats = shared.stats().clone();
        let off = shared.is_switched_off();
        let link = Link::new(Arc::clone(&self.context), Arc::clone(&book.config), place, session, stats).ok()?;
        book.scoped_links.insert(key, Arc::downgrade(&link));
        // What an operator has switched is so for all.
        match off {
            true => link.set_enabled(false),
            false if link.is_disabled() => link.set_enabled(true),
            false => link.start_if_eager(),
        }
        Some(link)
    }

    /// Has somebody look at calls when they are over, or nobody; of calls under way, at the next ones of their gates.
    pub fn set_observer(&self, observer: Option<Arc<dyn Observe>>) {
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
    }

    /// Who wants to look at a call that begins now when it is over: whoever records it, and whoever else was set.
    pub(crate) fn observers(&self) -> Vec<Arc<dyn Observe>> {
        let recorder = self.recorder().map(|recorder| recorder as Arc<dyn Observe>);
        let observer = self.observer.read().unwrap_or_else(PoisonError::into_inner).clone();
        recorder.into_iter().chain(observer).filter(|observer| observer.wants()).collect()
    }

    /// Who keeps and summarises results that are too long.
    pub(crate) fn condenser(&self) -> Arc<Condenser> {
        Arc::clone(&self.state().condenser)
    }

    /// Who records calls, where they are recorded.
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.state().recorder.clone()
    }

    /// Which configuration this is; gates look whether they know it.
    pub(crate) fn config_version(&self) -> u64 {
        self.state().config_version
    }

    /// Which configuration last brought other servers.
    pub(crate) fn servers_version(&self) -> u64 {
        self.state().servers_version
    }

    /// How all servers are, in the order of the configuration, with the connections of single gates and sessions.
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.links().iter().map(|link| self.status_of(link)).collect()
    }

    /// How one server is.
    pub fn status(&self, id: &str) -> Option<ServerStatus> {
        self.link(id).map(|link| self.status_of(&link))
    }

    fn status_of(&self, link: &Link) -> ServerStatus {
        let apart = self.state().scoped_links_of(link.id());
        apart.iter().fold(link.status(), |status, other| status.with(other.status()))
    }

    /// Switches a server on, with all its connections; who waits for it need not ask again. False where there is none.
    pub fn enable(&self, id: &str) -> bool {
        self.for_each_link(id, |link| link.set_enabled(true))
    }

    /// Switches a server off; calls under way lose it, and nobody is shown its tools. False where there is none.
    pub fn disable(&self, id: &str) -> bool {
        self.for_each_link(id, |link| link.set_enabled(false))
    }

    /// Ends the connections to a server and begins anew, also where it was given up. False where there is none.
    pub fn reconnect(&self, id: &str) -> bool {
        self.for_each_link(id, Link::reconnect)
    }

    /// Does something to all connections of a server.
    fn for_each_link(&self, id: &str, what: impl Fn(&Link)) -> bool {
        let (shared, apart) = {
            let book = self.state();
            let Some(shared) = book.link(id).cloned() else { return false };
            (shared, book.scoped_links_of(id))
        };
        what(&shared);
        apart.iter().for_each(|link| what(link));
        self.context.tools_changed();
        true
    }

    /// Whether the registry can be used, by the configured measure, and what does not work.
    pub fn readiness(&self) -> ReadinessReport {
        let statuses = self.statuses();
        let counted = |status: &&ServerStatus| status.state != State::Disabled || status.problem.is_some();
        let ready = match self.config().settings.readiness {
            model::ReadinessRule::All => statuses.iter().filter(counted).all(|status| status.ready),
            model::ReadinessRule::Any => true,
        };
        ReadinessReport { ready, warnings: statuses.iter().filter_map(ServerStatus::warning).collect() }
    }

    /// The rules that fit no tool of their server, of all servers whose tools are known.
    pub fn unmatched_rules(&self) -> Vec<UnmatchedRule> {
        self.context.unmatched_rules()
    }

    /// How the named queues are.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.context.queues.stats()
    }

    /// Counts the changes of tools of all servers: who waits for it to change hears of each new list.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.context.tools()
    }

    /// Counts the changes of servers' states: who waits for it to change hears of each.
    pub fn states_changed(&self) -> watch::Receiver<u64> {
        self.context.states()
    }

    /// What servers tell of their prompts and resources, and the lines of their logs that are wanted, from now on.
    pub fn events(&self) -> broadcast::Receiver<LinkEvent> {
        self.context.events.subscribe()
    }

    /// Whoever is shown tools, prompts or resources is shown others now.
    pub(crate) fn announce_changes(&self) {
        self.context.tools_changed();
        self.context.announce_list_changes();
    }

    /// Somebody wants lines of servers' logs from this level on, or none any more; servers that are connected are told the
    /// least grave level that anybody wants, and others when they are.
    pub async fn want_logs(&self, who: u64, level: Option<LogLevel>) {
        self.context.want_level(who, level);
        let links: Vec<_> = {
            let book = self.state();
            book.links.iter().cloned().chain(book.scoped_links.values().filter_map(Weak::upgrade)).collect()
        };
        futures_util::future::join_all(links.iter().map(|link| link.send_log_level())).await;
    }

    /// How many changes of tools there were.
    pub(crate) fn tools_count(&self) -> u64 {
        self.context.tools_count()
    }

    /// The secrets that were filled in so far; nothing that is printed may show them.
    pub fn secrets(&self) -> Secrets {
        self.context.secrets().clone()
    }

    /// Ends every connection in good manners, side by side.
    pub async fn close(&self) {
        let (links, others) = {
            let mut book = self.state();
            self.context.begin_shutdown();
            let (apart, retired) = (std::mem::take(&mut book.scoped_links), std::mem::take(&mut book.retired));
            let others: Vec<_> = apart.into_values().chain(retired).filter_map(|link| link.upgrade()).collect();
            (Arc::clone(&book.links), others)
        };
        futures_util::future::join_all(links.iter().chain(&others).map(|link| link.close())).await;
        self.context.wait_closed().await;
        if let Some(recorder) = self.recorder() {
            // The disk is waited for on another thread, and not for ever.
            let _ = tokio::task::spawn_blocking(move || recorder.flush(FLUSH)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // What ends a connection in good manners may keep it, and with it all that is kept here.
        self.context.abort_cleanup();
    }
}

impl RegistryState {
    /// The connections of single gates and sessions to a server.
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

/// How long the last calls may take to be recorded.
const FLUSH: std::time::Duration = std::time::Duration::from_secs(5);
