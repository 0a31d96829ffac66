//! What one store may reach: nothing, unless it is granted.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{Failed, Failure};
use crate::gate::{CallOptions, Gate, GateError, View};
use crate::logic::types::filtering::SelectedServer;
use crate::registry::{Link, Registry};
use crate::session::Session;

/// What one store may reach.
#[derive(Clone, Default)]
pub struct ToolgateCtx {
    pub(super) servers: Option<Arc<Servers>>,
    pub(super) tools: Option<Arc<Tools>>,
}

/// The servers that a store may send requests to.
pub(super) struct Servers {
    gate: Gate,
    granted: Vec<String>,
    /// What last went wrong with each: a new session is opened in place of this one, for this reason.
    broken: Mutex<HashMap<String, Broken>>,
}

/// A request that failed.
pub(super) struct Broken {
    pub session: Arc<Session>,
    pub failed: Failed,
}

/// The tools that a store may call.
pub(super) struct Tools {
    pub gate: Arc<Gate>,
    pub options: CallOptions,
}

impl ToolgateCtx {
    /// A store that reaches nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the store send any request to these servers (`toolgate:client/transport`): for a component that makes the
    /// decisions itself, as that of world `client` does. The rules for single tools are not asked.
    pub fn with_servers<S: Into<String>>(
        self,
        registry: &Arc<Registry>,
        servers: impl IntoIterator<Item = S>,
    ) -> Result<Self, GateError> {
        let granted: Vec<String> = servers.into_iter().map(Into::into).collect();
        if granted.is_empty() {
            return Ok(Self { servers: None, ..self });
        }
        let selected = |id: &String| SelectedServer { id: id.clone(), tools: Vec::new() };
        let view = View { selection: Some(granted.iter().map(selected).collect()), ..View::default() };
        let gate = Gate::open(registry, view)?;
        Ok(Self { servers: Some(Arc::new(Servers { gate, granted, broken: Mutex::default() })), ..self })
    }

    /// Lets the store list and call tools as this gate decides (`toolgate:client/tools`): for plugins. All its calls are
    /// made with these options.
    pub fn with_tools(self, gate: Arc<Gate>, options: CallOptions) -> Self {
        Self { tools: Some(Arc::new(Tools { gate, options })), ..self }
    }

    /// The servers that the store may reach, if this is one of them.
    pub(super) fn reach(&self, server: &str) -> Result<Arc<Servers>, Failed> {
        let granted = self.servers.as_ref().filter(|servers| servers.granted.iter().any(|granted| granted == server));
        granted.cloned().ok_or_else(|| {
            let all = match &self.servers {
                Some(servers) => format!("only {}", servers.granted.join(", ")),
                None => "no server at all".to_owned(),
            };
            Failed::unsent(Failure::NeedsAuth(format!("this component was granted {all}")))
        })
    }
}

impl Servers {
    /// A server, as this store has it.
    pub fn link(&self, server: &str) -> Result<Arc<Link>, Failed> {
        let missing = || Failed::unsent(Failure::Connect(format!("no server {server:?} is configured any more")));
        self.gate.link(server).ok_or_else(missing)
    }

    /// Notes that a request over this session failed.
    pub fn broke(&self, server: &str, session: &Arc<Session>, failed: &Failed) {
        let broken = Broken { session: Arc::clone(session), failed: failed.clone() };
        self.broken().insert(server.to_owned(), broken);
    }

    /// What last went wrong with a server and nobody has mended yet.
    pub fn take_broken(&self, server: &str) -> Option<Broken> {
        self.broken().remove(server)
    }

    fn broken(&self) -> MutexGuard<'_, HashMap<String, Broken>> {
        // Each change leaves it whole.
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ToolgateCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = self.servers.as_ref().map(|servers| &servers.granted);
        f.debug_struct("ToolgateCtx").field("servers", &granted).field("tools", &self.tools.is_some()).finish()
    }
}
