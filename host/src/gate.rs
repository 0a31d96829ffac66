//! One agent's view of the servers: the tools it may use, and its calls.

mod addresses;
mod approval;
mod call;
mod call_json;
mod call_options;
mod call_runner;
mod circumstances;
mod contents;
mod events;
mod failures;
mod fetch;
mod forwarded;
mod instructions;
mod observed_call;
mod offers;
mod output_check;
mod queueing;
mod resource_tools;
mod running_calls;
mod tool_costs;
mod written;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::value::RawValue;

pub(crate) use addresses::EXEMPT;
pub use approval::{APPROVAL, ApprovalText};
pub use call_json::CallJson;
pub use call_options::{AdminDecision, Approve, CallOptions, CallOutcome, Consent};
pub(crate) use call_runner::{is_kept_back, outcome};
pub(crate) use contents::MOST_URI;
pub use contents::{ContentError, GateListing, ListedItem, ServerContent};
pub use events::{CallEvent, OnEvent};
pub(crate) use fetch::FetchError;
pub use offers::RefreshOutcome;
pub(crate) use queueing::enter_queues;
pub use tool_costs::{ListCost, ServerCost, ToolCost, ToolCosts};

pub use crate::finished_call::{FinishedCall, Observe};
pub use crate::gate_settings::{GateView, LOCAL, Listing, find_problems, shown_style, views};
pub(crate) use crate::gate_settings::{RESOURCE_SERVER, offers_resource_tools, settings, style};
pub use crate::registry::ServerToolChange;

use crate::agent::Agent;
use crate::config::model::Config;
use crate::decide::{Decide, GateId, LogicResult};
use crate::gate_settings;
use crate::logic::types::{ToolRef, catalog, naming, search};
use crate::logic::{Component, LogicError, Supervisor};
use crate::registry::{BackendError, GateBackend, Link, Registry};
use crate::rpc;
use crate::words::ErrorText;
use running_calls::{EndReason, RunningCalls};

/// One agent's view of the servers.
///
/// Gates with equal settings share a few instances of the component. Any number of calls may run at the same time.
pub struct Gate {
    registry: Arc<Registry>,
    /// Distinguishes this gate from all others.
    number: u64,
    /// The value of `{{.SESSION_ID}}`.
    session: Option<String>,
    /// Whether results are wanted as their servers wrote them.
    pass_through: bool,
    view: Mutex<Arc<GateView>>,
    current: Mutex<CurrentBackend>,
    /// The number of the current view.
    view_version: AtomicU64,
    /// How often servers had announced other tools when all of this gate's servers had last listed theirs.
    announced_tools: AtomicU64,
    /// Backends of older configurations and views on which calls still run.
    retired: Mutex<Vec<Weak<GateBackend>>>,
    /// Connections of this gate or its session alone.
    scoped_links: Mutex<HashMap<String, Arc<Link>>>,
    calls: RunningCalls,
}

/// The backend that the gate uses now.
struct CurrentBackend {
    backend: Arc<GateBackend>,
    /// The number of the view it was opened for.
    view_version: u64,
}

/// An error of opening or using a gate.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The component failed.
    #[error(transparent)]
    Logic(#[from] LogicError),
    /// The gate was closed.
    #[error("the gate is closed")]
    Closed,
    /// A person was asked and has not answered yet: nothing was done or recorded, and the client repeats the call.
    #[error("approval is pending; repeat the call with the answer")]
    Pending,
}

impl From<BackendError> for GateError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Settings(text) => GateError::Settings(text),
            BackendError::Logic(error) => GateError::Logic(error),
        }
    }
}

/// How to close a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// Waits up to this long for running calls, then cancels them.
    Wait(Duration),
    /// Cancels running calls.
    Cancel,
}

impl Gate {
    /// Opens a gate without connecting any server.
    pub fn open(registry: &Arc<Registry>, view: GateView) -> Result<Self, GateError> {
        let gate = |backend: Arc<GateBackend>| Gate {
            registry: Arc::clone(registry),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            session: view.session.clone(),
            pass_through: view.pass_through,
            current: Mutex::new(CurrentBackend { backend, view_version: 0 }),
            view_version: AtomicU64::new(0),
            announced_tools: AtomicU64::new(0),
            retired: Mutex::default(),
            scoped_links: Mutex::default(),
            calls: RunningCalls::default(),
            view: Mutex::new(Arc::new(view.clone())),
        };
        Ok(gate(registry.open_backend(&view)?))
    }

    /// Changes the servers, tools and capabilities of the agent from its next call on. Running calls are not affected;
    /// the session, the form of results, whether the agent is an administrator and whether the gate only looks stay.
    pub fn set_view(&self, view: GateView) {
        let mut current = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let agent = Agent { admin: current.agent.admin, ..view.agent };
        let (session, only_looks) = (self.session.clone(), current.only_looks);
        let view = GateView { session, pass_through: self.pass_through, agent, only_looks, ..view };
        if **current == view {
            return;
        }
        *current = Arc::new(view);
        // The next use opens another backend.
        self.view_version.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns what the gate may use now.
    pub(crate) fn view(&self) -> Arc<GateView> {
        Arc::clone(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number that distinguishes this gate from all others.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name of the session, which is the value of `{{.SESSION_ID}}`.
    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Reports whether servers were started for this gate or its session alone.
    pub(crate) fn has_own_servers(&self) -> bool {
        !self.scoped_links().is_empty()
    }

    /// Returns the servers behind the gate.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns this gate's connection to a server; a gate that only looks has none of its own.
    pub fn link(&self, server: &str) -> Option<Arc<Link>> {
        let session = self.session.as_deref();
        if let Some(link) = self.registry.shared_link(server, session) {
            return Some(link);
        }
        if self.view().only_looks {
            return None;
        }
        let link = self.registry.scoped_link(server, self.number, session)?;
        self.scoped_links().insert(server.to_owned(), Arc::clone(&link));
        Some(link)
    }

    /// Returns the servers that this gate may use, in the order of the configuration.
    pub fn links(&self) -> Vec<Arc<Link>> {
        let view = self.view();
        let lists = [&view.selection, &view.choice].into_iter().flatten();
        let lists: Vec<_> = lists.map(|list| gate_settings::server_ids(list)).collect();
        let usable = |id: &str| lists.iter().all(|ids| ids.contains(id));
        let links = self.registry.links();
        let enabled = links.iter().filter(|link| link.server().enabled && usable(link.id()));
        enabled.filter_map(|link| self.link(link.id())).collect()
    }

    /// Reports whether the view excludes anything.
    pub(crate) fn is_bounded(&self) -> bool {
        let view = self.view();
        view.selection.is_some() || view.choice.is_some() || view.capabilities.is_some()
    }

    /// Returns the tools that the agent may use, of all servers that have listed any.
    pub fn tools(&self, style: &naming::NamingStyle) -> LogicResult<Vec<catalog::ExposedTool>> {
        let backend = self.sync();
        let circumstances = backend.has_rules().then(|| self.circumstances("", None, false));
        backend.tools(style, circumstances.as_ref())
    }

    /// Finds tools that the agent may use by what they do, the best first.
    pub fn find_tools(&self, query: &str, limit: usize) -> LogicResult<Vec<search::FoundTool>> {
        let backend = self.sync();
        let circumstances = self.has_rules().then(|| self.circumstances("", None, false));
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let ask = |logic: &mut Supervisor, id| logic.find_tools(id, query, limit, circumstances.as_ref());
        backend.pool.ask_gate(&backend.gate_offers, query.len(), ask)
    }

    /// Returns a tool's full definition as its server wrote it.
    pub fn definition(&self, tool: &ToolRef) -> Option<Arc<RawValue>> {
        self.backend().definition(tool)
    }

    /// Returns the default style of tool names.
    pub fn style(&self) -> naming::NamingStyle {
        gate_settings::style(self.registry.config().settings.names)
    }

    /// Parses a text as arguments, by a JSON Schema if there is one, and returns a JSON object.
    pub fn arguments(&self, text: &str, schema: Option<&str>) -> Result<String, GateError> {
        let schema = schema.map(str::to_owned);
        let parsed = self.backend().pool.ask(text.len(), |logic| logic.parse_arguments(text, schema.as_ref()))?;
        parsed.map(|parsed| parsed.arguments).map_err(|refusal| GateError::Settings(refusal.error_text()))
    }

    /// Returns the text of a content block; a block that is not text becomes one line, as in a tool's result.
    pub fn text_of(&self, block: &str) -> LogicResult<String> {
        let result = format!(r#"{{"content":[{block}]}}"#);
        let extracted = self.backend().pool.ask(result.len(), |logic| logic.extract(&result))?;
        Ok(extracted.map(|extracted| extracted.text).unwrap_or_default())
    }

    /// Reports whether results of a server are masked.
    pub(crate) fn masks(&self, server: &str) -> bool {
        gate_settings::masks(&self.registry.config(), server)
    }

    /// Masks JSON from a server like its tools' results, and keeps it valid JSON.
    pub fn mask(&self, server: &str, json: &str) -> LogicResult<String> {
        if !self.masks(server) {
            return Ok(json.to_owned());
        }
        let backend = self.backend();
        backend.pool.ask_gate(&backend.gate_offers, json.len(), |logic, id| logic.mask_json(id, server, json))
    }

    /// Masks a plain text from a server like its tools' results.
    pub fn mask_text(&self, server: &str, text: &str) -> LogicResult<String> {
        let masked = self.mask(server, &rpc::quote(text))?;
        // A masked JSON string is still a JSON string.
        Ok(serde_json::from_str(&masked).unwrap_or(masked))
    }

    /// Cuts a text to the size that a tool's result may have.
    pub fn cut(&self, text: &str) -> LogicResult<String> {
        let limit = self.max_result_bytes();
        let why = "the answer is larger than the limit";
        self.backend().pool.ask(text.len(), |logic| logic.truncate(text, limit, why))
    }

    /// Returns the memory of the component's instances for all gates with these settings.
    pub fn memory_bytes(&self) -> usize {
        self.backend().pool.memory_bytes()
    }

    /// Cancels the calls with this id, and returns whether there were any; each ends with the code `cancelled`.
    pub fn cancel(&self, call: &str) -> bool {
        self.calls.cancel(call)
    }

    /// Cancels all calls; each ends with the code `cancelled`.
    pub fn cancel_all(&self) {
        self.calls.end_all(EndReason::Cancelled);
    }

    /// Ends all calls because the gateway stops while their callers wait: each ends as if its deadline had passed, so
    /// that a tool that may have run is not taken for one that has not.
    pub fn stop_calls(&self) {
        self.calls.end_all(EndReason::Stopped);
    }

    /// Returns the number of running calls.
    pub fn running(&self) -> usize {
        self.calls.count()
    }

    /// Rejects new calls, ends the running ones, and releases the servers.
    pub async fn close(&self, how: CloseMode) {
        match how {
            CloseMode::Cancel => {}
            CloseMode::Wait(limit) => {
                // The calls that are left are cancelled below.
                let _ = tokio::time::timeout(limit, self.calls.close()).await;
            }
        }
        self.cancel_all();
        self.calls.close().await;
        let apart: Vec<_> = std::mem::take(&mut *self.scoped_links()).into_values().collect();
        // Another gate of the same session may still use it.
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

/// Checks whether gates with these views, each with its principal, could be opened, and notes problems of single
/// servers in the configuration.
pub(crate) fn check<'v>(
    component: &Component,
    config: &mut Config,
    views: impl IntoIterator<Item = (Option<&'v str>, GateView)>,
) -> Result<(), GateError> {
    let mut logic = Supervisor::new(component.clone())?;
    find_problems(&mut logic, config)?;
    // Many principals may have the same rights.
    let mut checked: Vec<GateView> = Vec::new();
    for (name, view) in views {
        let view = view.anonymous();
        if checked.contains(&view) {
            continue;
        }
        let id = open_with(&mut logic, config, &view).map_err(|error| match (error, name) {
            (GateError::Settings(text), Some(name)) => {
                GateError::Settings(format!("rights of principal {name:?}: {text}"))
            }
            (error, _) => error,
        })?;
        logic.close_gate(id)?;
        checked.push(view);
    }
    Ok(())
}

fn open_with(logic: &mut Supervisor, config: &Config, view: &GateView) -> Result<GateId, GateError> {
    let settings = gate_settings::settings(logic, config, view)?;
    logic.open_gate(&settings)?.map_err(|error| GateError::Settings(gate_settings::settings_error(config, &error)))
}

static NEXT: AtomicU64 = AtomicU64::new(0);
