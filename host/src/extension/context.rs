//! What one store may reach: nothing, unless you grant it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::{Failure, RequestError};
use crate::gate::{CallOptions, Gate, GateError, GateView};
use crate::logic::types::filtering::SelectedServer;
use crate::registry::{Link, Registry};
use crate::session::Session;

/// What one store may reach.
#[derive(Clone, Default)]
pub struct ToolgateCtx {
    pub(super) servers: Option<Arc<GrantedServers>>,
    pub(super) tools: Option<Arc<GrantedTools>>,
}

/// The servers that a store may send requests to.
pub(super) struct GrantedServers {
    gate: Gate,
    granted: Vec<String>,
    /// The last failed request to each server; it says which session `reconnect` replaces, and why.
    failed_requests: Mutex<HashMap<String, FailedRequest>>,
}

/// A request that failed, and its session.
pub(super) struct FailedRequest {
    pub session: Arc<Session>,
    pub failed: RequestError,
}

/// The tools that a store may call.
pub(super) struct GrantedTools {
    pub gate: Arc<Gate>,
    pub options: CallOptions,
}

impl ToolgateCtx {
    /// Creates a context that reaches nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the store send any request to these servers (`toolgate:client/transport`), for a component that decides
    /// itself, as that of world `client` does. Rules for single tools do not apply.
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
        let view = GateView { selection: Some(granted.iter().map(selected).collect()), ..GateView::default() };
        let gate = Gate::open(registry, view)?;
        Ok(Self {
            servers: Some(Arc::new(GrantedServers { gate, granted, failed_requests: Mutex::default() })),
            ..self
        })
    }

    /// Lets the store list and call tools as this gate decides (`toolgate:client/tools`), for plugins. All its calls
    /// use these options.
    pub fn with_tools(self, gate: Arc<Gate>, options: CallOptions) -> Self {
        Self { tools: Some(Arc::new(GrantedTools { gate, options })), ..self }
    }

    /// Returns the granted servers if this server is one of them.
    pub(super) fn granted_servers(&self, server: &str) -> Result<Arc<GrantedServers>, RequestError> {
        let granted = self.servers.as_ref().filter(|servers| servers.granted.iter().any(|granted| granted == server));
        granted.cloned().ok_or_else(|| {
            let all = match &self.servers {
                Some(servers) => format!("only {}", servers.granted.join(", ")),
                None => "no server at all".to_owned(),
            };
            RequestError::unsent(Failure::NeedsAuth(format!("this component was granted {all}")))
        })
    }
}

impl GrantedServers {
    /// Returns the link to a server.
    pub(super) fn link(&self, server: &str) -> Result<Arc<Link>, RequestError> {
        let missing = || RequestError::unsent(Failure::Connect(format!("no server {server:?} is configured any more")));
        self.gate.link(server).ok_or_else(missing)
    }

    /// Remembers that a request over this session failed.
    pub(super) fn note_failure(&self, server: &str, session: &Arc<Session>, failed: &RequestError) {
        let broken = FailedRequest { session: Arc::clone(session), failed: failed.clone() };
        self.failed_requests().insert(server.to_owned(), broken);
    }

    /// Returns and forgets the last failed request to a server.
    pub(super) fn take_failure(&self, server: &str) -> Option<FailedRequest> {
        self.failed_requests().remove(server)
    }

    fn failed_requests(&self) -> MutexGuard<'_, HashMap<String, FailedRequest>> {
        // Every change leaves the map consistent, so a panic elsewhere does not matter.
        self.failed_requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ToolgateCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = self.servers.as_ref().map(|servers| &servers.granted);
        f.debug_struct("ToolgateCtx").field("servers", &granted).field("tools", &self.tools.is_some()).finish()
    }
}
