//! One configured server and the connection to it, opened when it is first wanted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tracing::Instrument;

use super::Surroundings;
use crate::config::model::{Problem, Server};
use crate::config::resolve::resolve;
use crate::failure::{Failed, Failure};
use crate::session::{Options, Protocol, Session};
use crate::transport::endpoint::Endpoint;

/// One configured server.
pub struct Link {
    surroundings: Arc<Surroundings>,
    /// Its place in the configuration.
    place: usize,
    state: Mutex<State>,
}

/// The session of the moment. All who want it meet in the cell: it is opened once, or fails once, for all of them.
#[derive(Default)]
struct State {
    cell: Arc<Cell>,
    /// Nothing is opened any more.
    closed: bool,
    /// The era that the last session spoke; the next one need not ask.
    era: Option<Protocol>,
}

/// The outcome of one opening, for all who wait for it.
type Cell = OnceCell<Result<Arc<Session>, Unavailable>>;

/// Why a server cannot be used.
#[derive(Debug, Clone)]
pub enum Unavailable {
    /// The configuration switches it off.
    Disabled,
    /// The configuration of this server is not right.
    Problem(Problem),
    /// It could not be connected.
    Failed(Failed),
    /// The registry was closed.
    Closed,
}

impl Link {
    pub(super) fn new(surroundings: Arc<Surroundings>, place: usize) -> Self {
        Link { surroundings, place, state: Mutex::default() }
    }

    /// The id of the server.
    pub fn id(&self) -> &str {
        &self.server().id
    }

    /// What the configuration says of it.
    pub fn server(&self) -> &Server {
        &self.surroundings.config.servers[self.place]
    }

    /// The session, opened now if there is none. Any number may ask at the same time.
    pub async fn session(&self) -> Result<Arc<Session>, Unavailable> {
        let limit = self.server().timeouts.initialize;
        self.session_within(limit).await
    }

    /// A new session in place of one that is no longer good; whoever comes second finds the new one.
    pub async fn reconnect(&self, broken: &Arc<Session>) -> Result<Arc<Session>, Unavailable> {
        {
            let mut state = self.state();
            if state.session().is_some_and(|session| Arc::ptr_eq(&session, broken)) {
                state.cell = Arc::default();
            }
        }
        self.session_within(self.server().timeouts.reinitialize).await
    }

    /// The session, if there is one.
    pub fn current(&self) -> Option<Arc<Session>> {
        self.state().session()
    }

    /// Ends the connection in good manners.
    pub async fn close(&self) {
        let session = {
            let mut state = self.state();
            state.closed = true;
            state.session()
        };
        if let Some(session) = session {
            session.close().await;
        }
    }

    async fn session_within(&self, limit: std::time::Duration) -> Result<Arc<Session>, Unavailable> {
        let (cell, era) = {
            let mut state = self.state();
            if state.closed {
                return Err(Unavailable::Closed);
            }
            // A session that ended by itself is no session.
            if state.session().is_some_and(|session| session.over().is_some()) {
                state.cell = Arc::default();
            }
            (Arc::clone(&state.cell), state.era)
        };
        let span = tracing::error_span!("server", server = self.id());
        let outcome = cell.get_or_init(|| self.open(limit, era).instrument(span)).await.clone();
        let mut state = self.state();
        match &outcome {
            // Who comes later may try again; who waited has waited long enough.
            Err(_) if Arc::ptr_eq(&state.cell, &cell) => state.cell = Arc::default(),
            // It was closed meanwhile; whoever drops the session last ends it.
            Ok(_) if state.closed => return Err(Unavailable::Closed),
            _ => {}
        }
        outcome
    }

    async fn open(&self, limit: std::time::Duration, era: Option<Protocol>) -> Result<Arc<Session>, Unavailable> {
        let server = self.server();
        if !server.enabled {
            return Err(Unavailable::Disabled);
        }
        if let Some(problem) = &server.problem {
            return Err(Unavailable::Problem(problem.clone()));
        }
        let Surroundings { handler, starts, .. } = &*self.surroundings;
        let endpoint = self.endpoint().await.map_err(Unavailable::Problem)?;
        self.surroundings.secrets().merge(endpoint.secrets());
        let _turn = starts.acquire().await.expect("nobody closes the semaphore");
        let remembered = era.filter(|_| server.protocol == Protocol::Auto);
        let protocol = remembered.unwrap_or(server.protocol);
        let options = Options { protocol, limit, list: server.timeouts.list, handler: Arc::clone(handler) };
        let mut opened = Session::open(&endpoint, &options).await;
        if let (Err(failed), Some(_)) = (&opened, remembered)
            && !matches!(failed.failure, Failure::Connect(_) | Failure::NotReady { .. })
        {
            // It may be another server now, of the other era.
            opened = Session::open(&endpoint, &Options { protocol: Protocol::Auto, ..options }).await;
        }
        match opened {
            Ok(session) => {
                self.state().era = Some(session.peer().era.into());
                Ok(Arc::new(session))
            }
            Err(failed) => {
                self.state().era = None;
                Err(Unavailable::Failed(failed))
            }
        }
    }

    /// Where the server is, with everything filled in anew: files and variables may have changed.
    async fn endpoint(&self) -> Result<Endpoint, Problem> {
        let (surroundings, place) = (Arc::clone(&self.surroundings), self.place);
        let settings = &self.surroundings.config.settings;
        let may_block = settings.allow_commands || !settings.inputs.is_empty();
        let fill = move || {
            let Surroundings { config, variables, .. } = &*surroundings;
            resolve(&config.servers[place], config, variables, None)
        };
        if !may_block {
            return fill();
        }
        // A command may take its time and so may a person; the other servers go on meanwhile.
        match tokio::task::spawn_blocking(fill).await {
            Ok(endpoint) => endpoint,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn session(&self) -> Option<Arc<Session>> {
        self.cell.get()?.as_ref().ok().cloned()
    }
}

impl Unavailable {
    /// The same as a failure of whatever wanted the server.
    pub fn to_failed(&self) -> Failed {
        match self {
            Unavailable::Failed(Failed { failure, .. }) => match failure {
                Failure::Exited(_) | Failure::Connect(_) | Failure::NotReady { .. } => Failed::unsent(failure.clone()),
                Failure::Http(error) if error.wants_authorization() => Failed::unsent(failure.clone()),
                // An error to the handshake is no answer to what the server was wanted for.
                other => Failed::unsent(Failure::Connect(other.to_string())),
            },
            other => Failed::unsent(Failure::Connect(other.to_string())),
        }
    }
}

impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Closed => f.write_str("all connections are being closed"),
            Unavailable::Disabled => f.write_str("it is disabled in the configuration"),
            Unavailable::Problem(problem) => problem.fmt(f),
            Unavailable::Failed(failed) => failed.fmt(f),
        }
    }
}
