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

/// One configured server.
pub struct Link {
    surroundings: Arc<Surroundings>,
    /// Its place in the configuration.
    place: usize,
    state: Mutex<State>,
}

/// The session of the moment. All who want it meet in the cell, so that it is opened once for all of them.
#[derive(Default)]
struct State {
    cell: Arc<OnceCell<Arc<Session>>>,
    /// The era that the last session spoke; the next one need not ask.
    era: Option<Protocol>,
}

/// Why a server cannot be used.
#[derive(Debug, Clone)]
pub enum Unavailable {
    /// The configuration switches it off.
    Disabled,
    /// The configuration of this server is not right.
    Problem(Problem),
    /// It could not be connected.
    Failed(Failed),
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
            if state.cell.get().is_some_and(|session| Arc::ptr_eq(session, broken)) {
                state.cell = Arc::default();
            }
        }
        self.session_within(self.server().timeouts.reinitialize).await
    }

    /// The session, if there is one.
    pub fn current(&self) -> Option<Arc<Session>> {
        self.state().cell.get().cloned()
    }

    /// Ends the connection in good manners.
    pub async fn close(&self) {
        let cell = std::mem::take(&mut self.state().cell);
        if let Some(session) = cell.get() {
            session.close().await;
        }
    }

    async fn session_within(&self, limit: std::time::Duration) -> Result<Arc<Session>, Unavailable> {
        let (cell, era) = {
            let mut state = self.state();
            // A session that ended by itself is no session.
            if state.cell.get().is_some_and(|session| session.over().is_some()) {
                state.cell = Arc::default();
            }
            (Arc::clone(&state.cell), state.era)
        };
        let span = tracing::info_span!("server", id = self.id());
        let session = cell.get_or_try_init(|| self.open(limit, era).instrument(span)).await?;
        Ok(Arc::clone(session))
    }

    async fn open(&self, limit: std::time::Duration, era: Option<Protocol>) -> Result<Arc<Session>, Unavailable> {
        let server = self.server();
        if !server.enabled {
            return Err(Unavailable::Disabled);
        }
        if let Some(problem) = &server.problem {
            return Err(Unavailable::Problem(problem.clone()));
        }
        let Surroundings { config, variables, handler, starts, .. } = &*self.surroundings;
        let endpoint = resolve(server, config, variables, None).map_err(Unavailable::Problem)?;
        self.surroundings.secrets().merge(endpoint.secrets());
        let _turn = starts.acquire().await.expect("nobody closes the semaphore");
        let protocol = era.filter(|_| server.protocol == Protocol::Auto).unwrap_or(server.protocol);
        let options = Options { protocol, limit, list: server.timeouts.list, handler: Arc::clone(handler) };
        match Session::open(&endpoint, &options).await {
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

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unavailable {
    /// The same as a failure of whatever wanted the server.
    pub fn to_failed(&self) -> Failed {
        match self {
            Unavailable::Failed(failed) => Failed::unsent(failed.failure.clone()),
            other => Failed::unsent(Failure::Connect(other.to_string())),
        }
    }
}

impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Disabled => f.write_str("it is disabled in the configuration"),
            Unavailable::Problem(problem) => problem.fmt(f),
            Unavailable::Failed(failed) => failed.fmt(f),
        }
    }
}
