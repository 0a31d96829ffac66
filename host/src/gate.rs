//! One agent's view of the servers: the tools that it may use, and its calls, as the component decides them.

mod addresses;
mod approval;
mod backends;
mod call;
mod call_json;
mod call_runner;
mod descriptions;
mod events;
mod failures;
mod fetch;
mod finished_call;
mod forwarded;
mod instructions;
mod offers;
mod queueing;
mod running_calls;
mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::value::RawValue;

pub(crate) use addresses::EXEMPT;
pub use approval::{APPROVAL, ApprovalText};
pub(crate) use backends::{GateBackend, GateBackends};
pub use call::{Approve, CallOptions, CallOutcome, Consent};
pub use call_json::CallJson;
pub(crate) use call_json::millis;
pub(crate) use descriptions::mask_tools;
pub use events::{CallEvent, OnEvent};
pub(crate) use fetch::FetchError;
pub use finished_call::{FinishedCall, Observe};
pub use offers::{RefreshOutcome, ServerToolChange};
pub(crate) use queueing::enter_queues;
pub use settings::{GateView, LOCAL, find_problems, shown_style, views};
pub(crate) use settings::{policies_about, settings};

use crate::config::model::Config;
use crate::decide::{Decide, GateId, LogicResult};
use crate::logic::types::{ToolRef, catalog, naming};
use crate::logic::{Component, LogicError, Supervisor};
use crate::registry::{Link, Registry};
use crate::rpc;
use crate::words::ErrorText;
use running_calls::RunningCalls;

/// One agent's view of the servers.
///
/// It shares a few instances of the component with all gates of equal settings. Any number of calls may run at the same time.
pub struct Gate {
    registry: Arc<Registry>,
    /// Tells this gate from all others.
    number: u64,
    /// What `{{.SESSION_ID}}` stands for.
    session: Option<String>,
    /// Answers are wanted as their servers wrote them.
    pass_through: bool,
    view: Mutex<Arc<GateView>>,
    current: Mutex<CurrentBackend>,
    /// Counts its views.
    view_version: AtomicU64,
    /// Cores of older configurations and views, for as long as calls run on them.
    retired: Mutex<Vec<Weak<GateBackend>>>,
    /// Connections that this gate does not share with all others.
    scoped_links: Mutex<HashMap<String, Arc<Link>>>,
    calls: RunningCalls,
}

/// What a gate is asked with now.
struct CurrentBackend {
    backend: Arc<GateBackend>,
    /// The number of the view that it was opened for.
    view_version: u64,
}

/// Why a gate cannot be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The component gave no answer.
    #[error(transparent)]
    Logic(#[from] LogicError),
    /// The gate was closed.
    #[error("the gate is closed")]
    Closed,
    /// A person was asked and has not answered: nothing was done or recorded, and the call is to be made again.
    #[error("a person was asked, and the call must be made again with the answer")]
    Pending,
}

/// How a gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// Calls under way come to their end, for at most this long; then they are cancelled.
    Wait(Duration),
    /// Calls under way are cancelled.
    Cancel,
}

impl Gate {
    /// Opens a gate; no server is connected yet.
    pub fn open(registry: &Arc<Registry>, view: GateView) -> Result<Self, GateError> {
        let gate = |backend: Arc<GateBackend>| Gate {
            registry: Arc::clone(registry),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            session: view.session.clone(),
            pass_through: view.pass_through,
            current: Mutex::new(CurrentBackend { backend, view_version: 0 }),
            view_version: AtomicU64::new(0),
            retired: Mutex::default(),
            scoped_links: Mutex::default(),
            calls: RunningCalls::default(),
            view: Mutex::new(Arc::new(view.clone())),
        };
        registry.open_backend(&view).map(gate)
    }

    /// Lets the agent use something else from now on: other servers and tools, or with other capabilities. Calls under
    /// way end as they began. Its session and the form of its answers stay.
    pub fn set_view(&self, view: GateView) {
        let view = GateView { session: self.session.clone(), pass_through: self.pass_through, ..view };
        let mut current = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if **current == view {
            return;
        }
        *current = Arc::new(view);
        // The next use opens anew.
        self.view_version.fetch_add(1, Ordering::SeqCst);
    }

    fn view(&self) -> Arc<GateView> {
        Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells this gate from all others.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The servers behind the gate.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The server of this id, as this gate has it.
    pub fn link(&self, server: &str) -> Option<Arc<Link>> {
        let session = self.session.as_deref();
        if let Some(link) = self.registry.shared_link(server, session) {
            return Some(link);
        }
        let link = self.registry.scoped_link(server, self.number, session)?;
        self.scoped_links().insert(server.to_owned(), Arc::clone(&link));
        Some(link)
    }

    /// The servers that this gate may use, in the order of the configuration.
    pub fn links(&self) -> Vec<Arc<Link>> {
        let view = self.view();
        let usable = |id: &str| {
            let selection = view.selection.as_ref();
            selection.is_none_or(|selection| selection.iter().any(|selected| selected.id == id))
        };
        let links = self.registry.links();
        let enabled = links.iter().filter(|link| link.server().enabled && usable(link.id()));
        enabled.filter_map(|link| self.link(link.id())).collect()
    }

    /// Whether its view leaves anything out.
    pub(crate) fn is_bounded(&self) -> bool {
        let view = self.view();
        view.selection.is_some() || view.capabilities.is_some()
    }

    /// The tools that may be used, of the servers that have offered any.
    pub fn tools(&self, style: &naming::NamingStyle) -> LogicResult<Vec<catalog::ExposedTool>> {
        let backend = self.sync();
        backend.pool.ask_gate(&backend.gate_offers, 0, |logic, id| logic.tools(id, style))
    }

    /// How its server describes a tool, whole.
    pub fn definition(&self, tool: &ToolRef) -> Option<Box<RawValue>> {
        Some(self.backend().tools_of(&tool.server)?.definition(&tool.tool)?.raw.clone())
    }

    /// How the names of tools are shown where nothing else is asked for.
    pub fn style(&self) -> naming::NamingStyle {
        settings::style(self.registry.config().settings.names)
    }

    /// Reads a person's or a model's text as arguments, by a JSON Schema where there is one: a JSON object.
    pub fn arguments(&self, text: &str, schema: Option<&str>) -> Result<String, GateError> {
        let schema = schema.map(str::to_owned);
        let parsed = self.backend().pool.ask(text.len(), |logic| logic.parse_arguments(text, schema.as_ref()))?;
        parsed.map(|parsed| parsed.arguments).map_err(|refusal| GateError::Settings(refusal.error_text()))
    }

    /// What a content block says as text: one that is none leaves a line, as in the answer of a tool.
    pub fn text_of(&self, block: &str) -> LogicResult<String> {
        let result = format!(r#"{{"content":[{block}]}}"#);
        let extracted = self.backend().pool.ask(result.len(), |logic| logic.extract(&result))?;
        Ok(extracted.map(|extracted| extracted.text).unwrap_or_default())
    }

    /// Whether anything is masked in what a server says.
    pub(crate) fn masks(&self, server: &str) -> bool {
        settings::masks(&self.registry.config(), server)
    }

    /// JSON that a server wrote, with all masked that its tools' answers would have masked; it stays JSON.
    pub fn mask(&self, server: &str, json: &str) -> LogicResult<String> {
        if !self.masks(server) {
            return Ok(json.to_owned());
        }
        let backend = self.backend();
        backend.pool.ask_gate(&backend.gate_offers, json.len(), |logic, id| logic.mask_json(id, server, json))
    }

    /// The same for a text that is no JSON.
    pub fn mask_text(&self, server: &str, text: &str) -> LogicResult<String> {
        let masked = self.mask(server, &rpc::quote(text))?;
        // What was a string stays one.
        Ok(serde_json::from_str(&masked).unwrap_or(masked))
    }

    /// A text cut to the size that the answer of a tool may have.
    pub fn cut(&self, text: &str) -> LogicResult<String> {
        let limit = self.max_result_bytes();
        let why = "the answer is larger than the limit";
        self.backend().pool.ask(text.len(), |logic| logic.truncate(text, limit, why))
    }

    /// How much memory the component has for this gate and all that have equal settings.
    pub fn memory_bytes(&self) -> usize {
        self.backend().pool.memory_bytes()
    }

    /// Cancels the calls of this id; says whether there were any. Each ends with a result that says so.
    pub fn cancel(&self, call: &str) -> bool {
        self.calls.cancel(call)
    }

    /// Cancels all calls; each ends with a result that says so.
    pub fn cancel_all(&self) {
        self.calls.cancel_all();
    }

    /// How many calls are under way.
    pub fn running(&self) -> usize {
        self.calls.count()
    }

    /// Takes no more calls, brings those under way to their end, and lets go of the servers.
    pub async fn close(&self, how: CloseMode) {
        match how {
            CloseMode::Cancel => {}
            CloseMode::Wait(limit) => {
                // Those that are left are cancelled.
                let _ = tokio::time::timeout(limit, self.calls.close()).await;
            }
        }
        self.calls.cancel_all();
        self.calls.close().await;
        let apart: Vec<_> = std::mem::take(&mut *self.scoped_links()).into_values().collect();
        // Another gate of the same session may still use one.
        let own = apart.iter().filter(|link| Arc::strong_count(link) == 1);
        futures_util::future::join_all(own.map(|link| link.close())).await;
    }

    fn backend(&self) -> Arc<GateBackend> {
        Arc::clone(&self.current().backend)
    }

    fn current(&self) -> MutexGuard<'_, CurrentBackend> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scoped_links(&self) -> MutexGuard<'_, HashMap<String, Arc<Link>>> {
        self.scoped_links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether gates with these views, each with the name of its principal, could be opened with a configuration, in which
/// problems of single servers are noted.
pub(crate) fn check<'v>(
    component: &Component,
    config: &mut Config,
    views: impl IntoIterator<Item = (Option<&'v str>, GateView)>,
) -> Result<(), GateError> {
    let mut logic = Supervisor::new(component.clone())?;
    find_problems(&mut logic, config)?;
    for (name, view) in views {
        let id = open_with(&mut logic, config, &view).map_err(|error| match (error, name) {
            (GateError::Settings(text), Some(name)) => {
                GateError::Settings(format!("what the principal {name:?} may use: {text}"))
            }
            (error, _) => error,
        })?;
        logic.close_gate(id)?;
    }
    Ok(())
}

fn open_with(logic: &mut Supervisor, config: &Config, view: &GateView) -> Result<GateId, GateError> {
    let settings = settings::settings(logic, config, view)?;
    logic.open_gate(&settings)?.map_err(|error| GateError::Settings(error.error_text()))
}

static NEXT: AtomicU64 = AtomicU64::new(0);
