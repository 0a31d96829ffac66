//! The configured servers, and a connection to each that is wanted, kept alive.

#[cfg(feature = "oauth")]
mod accounts;
mod change;
mod definition;
mod link;
mod status;
mod surroundings;
mod task;
mod tools;
mod unmatched;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use tokio::sync::{broadcast, watch};

pub use change::Changes;
pub use definition::Definition;
pub use link::{Lease, Link, Unavailable, Watcher};
pub use status::{LastError, Readiness, Status, Warning, state_name};
pub use tools::Tools;
pub use unmatched::UnmatchedRule;

use crate::condense::Condenser;
use crate::config::model::{self, Config};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::decide::Answer;
use crate::gate::{Core, Cores, GateError, Observe, View, find_problems};
use crate::logic::types::lifecycle::State;
use crate::logic::{Component, Supervisor};
#[cfg(feature = "oauth")]
use crate::oauth::{Browse, Store};
use crate::queue::QueueStats;
use crate::record::Recorder;
use crate::session::{Handler, LogLevel, News, Nobody};
use crate::stats::CallStats;
use crate::transport::Connect;
use surroundings::Surroundings;

/// The configured servers. Dropping it ends every connection at once; `close` ends them in good manners.
///
/// All its methods want a tokio runtime around them.
pub struct Registry {
    component: Component,
    surroundings: Arc<Surroundings>,
    aside: Aside,
    book: Mutex<Book>,
    /// What gates are asked with that see the same.
    cores: Cores,
    /// Who looks at calls when they are over.
    observer: RwLock<Option<Arc<dyn Observe>>>,
}

/// Does a piece of work that takes a while, such as masking a long answer.
pub type Aside = fn(&mut dyn FnMut());

/// What a registry is built with, beside the configuration.
pub struct Options {
    /// What variables stand for.
    pub variables: Variables,
    /// Who answers what servers ask.
    pub handler: Arc<dyn Handler>,
    /// Where all secrets go before they are used, so that nothing that is printed shows them.
    pub secrets: Arc<Mutex<Secrets>>,
    /// Servers, by id, that are reached in a way of the embedder's own.
    pub transports: HashMap<String, Arc<dyn Connect>>,
    /// How long the registry is going to live.
    pub stay: Stay,
    /// How work is done that takes a while: at once, unless told otherwise. Where several threads serve many,
    /// `tokio::task::block_in_place` keeps the others from waiting for it.
    pub aside: Aside,
    /// The folder that calls are recorded in, whatever the configuration says of that.
    pub record: Option<PathBuf>,
    /// Who brings a person where a server wants their consent; without it, such a server needs an authorization.
    #[cfg(feature = "oauth")]
    pub browse: Option<Arc<dyn Browse>>,
    /// Where tokens are kept; the user's own place, if none is given.
    #[cfg(feature = "oauth")]
    pub tokens: Option<Store>,
}

/// How long a registry is going to live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stay {
    /// As long as it takes: servers are looked after, and those that do not start are tried again.
    #[default]
    Long,
    /// For one piece of work: a server that does not start has failed.
    Once,
}

/// What was told unasked.
#[derive(Clone)]
pub struct Told {
    /// The server that told it, for as long as it is there; none where the configuration brought it about.
    pub link: Option<Weak<Link>>,
    /// What was told.
    pub news: News,
}

/// The servers as they are configured now.
struct Book {
    config: Arc<Config>,
    condenser: Arc<Condenser>,
    recorder: Option<Arc<Recorder>>,
    links: Arc<[Arc<Link>]>,
    /// Where each server stands among them.
    places: BTreeMap<String, usize>,
    /// Connections for single sessions or gates; whoever uses one keeps it.
    apart: HashMap<(String, Apart), Weak<Link>>,
    /// Connections of older configurations, on which calls may still run.
    retired: Vec<Weak<Link>>,
    /// Counts the configurations.
    edition: u64,
    /// The last of them that has other servers than the one before.
    roster: u64,
}

/// What a connection that not all share is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Apart {
    /// For all gates of this session, which the server is told of.
    Session(String),
    /// For this gate alone.
    Gate(u64),
}

impl Default for Options {
    fn default() -> Self {
        Options {
            variables: Variables::of_process(),
            handler: Arc::new(Nobody),
            secrets: Arc::default(),
            transports: HashMap::new(),
            stay: Stay::Long,
            aside: |work| work(),
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
    pub fn new(component: &Component, mut config: Config, options: Options) -> Answer<Arc<Self>> {
        let mut logic = Supervisor::new(component.clone())?;
        find_problems(&mut logic, &mut config)?;
        let config = Arc::new(config);
        let aside = options.aside;
        let surroundings = Arc::new(Surroundings::new(logic, &config, options));
        let links = (0..config.servers.len())
            .map(|place| Link::new(Arc::clone(&surroundings), Arc::clone(&config), place, None, CallStats::default()))
            .collect::<Answer<Arc<[_]>>>()?;
        links.iter().for_each(|link| link.begin());
        let places = places(&links);
        let condenser = surroundings.condenser(&config);
        let recorder = surroundings.recorder(component, &config, None);
        let book = Mutex::new(Book {
            config,
            condenser,
            recorder,
            links,
            places,
            apart: HashMap::new(),
            retired: Vec::new(),
            edition: 0,
            roster: 0,
        });
        let observer = Default::default();
        let (component, cores) = (component.clone(), Cores::new(component));
        Ok(Arc::new(Registry { component, surroundings, aside, book, cores, observer }))
    }

    /// The component that decides.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// What a gate with this view is asked with, by the configuration of now.
    pub(crate) fn open_core(&self, view: &View) -> Result<Arc<Core>, GateError> {
        // Before the lists are looked at, so that a change between the two is not missed.
        let seen = self.tools_count();
        let (config, edition, share) = {
            let book = self.book();
            let session = view.session.as_deref();
            // Servers of a gate's own, or of its session, offer to it alone.
            let selected = |id: &str| {
                let selection = view.selection.as_ref();
                selection.is_none_or(|selection| selection.iter().any(|selected| selected.id == id))
            };
            let used = |link: &&Arc<Link>| link.server().enabled && selected(link.id());
            let share = book.links.iter().filter(used).all(|link| link.is_for_all(session));
            (Arc::clone(&book.config), book.edition, share)
        };
        self.cores.open(&self.component, &config, edition, view, share, seen)
    }

    /// How work is done that takes a while.
    pub(crate) fn aside(&self) -> Aside {
        self.aside
    }

    /// The configuration of now.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.book().config)
    }

    /// All servers, in the order of the configuration.
    pub fn links(&self) -> Arc<[Arc<Link>]> {
        Arc::clone(&self.book().links)
    }

    /// The server of this id.
    pub fn link(&self, id: &str) -> Option<Arc<Link>> {
        self.book().link(id).cloned()
    }

    /// The server of this id, where all gates share its connection.
    pub(crate) fn shared_link(&self, id: &str, session: Option<&str>) -> Option<Arc<Link>> {
        let book = self.book();
        book.link(id).filter(|link| link.is_for_all(session)).cloned()
    }

    /// The server of this id, for a gate or a session that does not share its connection with all others.
    pub(crate) fn link_apart(&self, id: &str, gate: u64, session: Option<&str>) -> Option<Arc<Link>> {
        let mut book = self.book();
        let place = *book.places.get(id)?;
        let shared = Arc::clone(&book.links[place]);
        let session = session.filter(|_| shared.uses_session()).map(str::to_owned);
        let apart = match &session {
            Some(session) if shared.server().lifecycle.shared => Apart::Session(session.clone()),
            _ => Apart::Gate(gate),
        };
        let key = (id.to_owned(), apart);
        // One that its last gate is closing this moment serves nobody any more.
        let known = book.apart.get(&key).and_then(Weak::upgrade).filter(|link| !link.is_closed());
        if known.is_some() {
            return known;
        }
        book.apart.retain(|_, link| link.strong_count() > 0);
        let stats = shared.stats().clone();
        let off = shared.is_switched_off();
        let link = Link::new(Arc::clone(&self.surroundings), Arc::clone(&book.config), place, session, stats).ok()?;
        book.apart.insert(key, Arc::downgrade(&link));
        // What an operator has switched is so for all.
        match off {
            true => link.switch(false),
            false if link.is_disabled() => link.switch(true),
            false => link.begin(),
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
        Arc::clone(&self.book().condenser)
    }

    /// Who records calls, where they are recorded.
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.book().recorder.clone()
    }

    /// Which configuration this is; gates look whether they know it.
    pub(crate) fn edition(&self) -> u64 {
        self.book().edition
    }

    /// Which configuration last brought other servers.
    pub(crate) fn roster(&self) -> u64 {
        self.book().roster
    }

    /// How all servers are, in the order of the configuration, with the connections of single gates and sessions.
    pub fn statuses(&self) -> Vec<Status> {
        self.links().iter().map(|link| self.status_of(link)).collect()
    }

    /// How one server is.
    pub fn status(&self, id: &str) -> Option<Status> {
        self.link(id).map(|link| self.status_of(&link))
    }

    fn status_of(&self, link: &Link) -> Status {
        let apart = self.book().apart_of(link.id());
        apart.iter().fold(link.status(), |status, other| status.with(other.status()))
    }

    /// Switches a server on, with all its connections; who waits for it need not ask again. False where there is none.
    pub fn enable(&self, id: &str) -> bool {
        self.each(id, |link| link.switch(true))
    }

    /// Switches a server off; calls under way lose it, and nobody is shown its tools. False where there is none.
    pub fn disable(&self, id: &str) -> bool {
        self.each(id, |link| link.switch(false))
    }

    /// Ends the connections to a server and begins anew, also where it was given up. False where there is none.
    pub fn reconnect(&self, id: &str) -> bool {
        self.each(id, Link::reconnect)
    }

    /// Does something to all connections of a server.
    fn each(&self, id: &str, what: impl Fn(&Link)) -> bool {
        let (shared, apart) = {
            let book = self.book();
            let Some(shared) = book.link(id).cloned() else { return false };
            (shared, book.apart_of(id))
        };
        what(&shared);
        apart.iter().for_each(|link| what(link));
        self.surroundings.tools_changed();
        true
    }

    /// Whether the registry can be used, by the configured measure, and what does not work.
    pub fn readiness(&self) -> Readiness {
        let statuses = self.statuses();
        let counted = |status: &&Status| status.state != State::Disabled || status.problem.is_some();
        let ready = match self.config().settings.readiness {
            model::Readiness::All => statuses.iter().filter(counted).all(|status| status.ready),
            model::Readiness::Any => true,
        };
        Readiness { ready, warnings: statuses.iter().filter_map(Status::warning).collect() }
    }

    /// The rules that fit no tool of their server, of all servers whose tools are known.
    pub fn unmatched_rules(&self) -> Vec<UnmatchedRule> {
        self.surroundings.unmatched_rules()
    }

    /// How the named queues are.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.surroundings.queues.all()
    }

    /// Counts the changes of tools of all servers: who waits for it to change hears of each new list.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.surroundings.tools()
    }

    /// Counts the changes of servers' states: who waits for it to change hears of each.
    pub fn states_changed(&self) -> watch::Receiver<u64> {
        self.surroundings.states()
    }

    /// What servers tell of their prompts and resources, and the lines of their logs that are wanted, from now on.
    pub fn news(&self) -> broadcast::Receiver<Told> {
        self.surroundings.news.subscribe()
    }

    /// Whoever is shown tools, prompts or resources is shown others now.
    pub(crate) fn show_others(&self) {
        self.surroundings.tools_changed();
        self.surroundings.others_changed();
    }

    /// Somebody wants lines of servers' logs from this level on, or none any more; servers that are connected are told the
    /// least grave level that anybody wants, and others when they are.
    pub async fn want_logs(&self, who: u64, level: Option<LogLevel>) {
        self.surroundings.want_level(who, level);
        let links: Vec<_> = {
            let book = self.book();
            book.links.iter().cloned().chain(book.apart.values().filter_map(Weak::upgrade)).collect()
        };
        futures_util::future::join_all(links.iter().map(|link| link.tell_level())).await;
    }

    /// How many changes of tools there were.
    pub(crate) fn tools_count(&self) -> u64 {
        self.surroundings.tools_count()
    }

    /// The secrets that were filled in so far; nothing that is printed may show them.
    pub fn secrets(&self) -> Secrets {
        self.surroundings.secrets().clone()
    }

    /// Ends every connection in good manners, side by side.
    pub async fn close(&self) {
        let (links, others) = {
            let mut book = self.book();
            self.surroundings.end();
            let (apart, retired) = (std::mem::take(&mut book.apart), std::mem::take(&mut book.retired));
            let others: Vec<_> = apart.into_values().chain(retired).filter_map(|link| link.upgrade()).collect();
            (Arc::clone(&book.links), others)
        };
        futures_util::future::join_all(links.iter().chain(&others).map(|link| link.close())).await;
        self.surroundings.closed().await;
        if let Some(recorder) = self.recorder() {
            // The disk is waited for on another thread, and not for ever.
            let _ = tokio::task::spawn_blocking(move || recorder.flush(FLUSH)).await;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // What ends a connection in good manners may keep it, and with it all that is kept here.
        self.surroundings.abandon();
    }
}

impl Book {
    /// The connections of single gates and sessions to a server.
    fn apart_of(&self, id: &str) -> Vec<Arc<Link>> {
        let of_server = self.apart.iter().filter(|((server, _), _)| server == id);
        of_server.filter_map(|(_, link)| link.upgrade()).filter(|link| !link.is_closed()).collect()
    }

    fn link(&self, id: &str) -> Option<&Arc<Link>> {
        self.places.get(id).map(|place| &self.links[*place])
    }
}

fn places(links: &[Arc<Link>]) -> BTreeMap<String, usize> {
    links.iter().enumerate().map(|(place, link)| (link.id().to_owned(), place)).collect()
}

/// How long the last calls may take to be recorded.
const FLUSH: std::time::Duration = std::time::Duration::from_secs(5);
