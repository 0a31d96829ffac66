//! The gateway: one MCP server in front of all configured servers, for clients of both eras.

pub mod api;
pub mod client;
mod front;
pub mod http;
mod metrics;
pub mod pages;
mod recent;
mod relay;
pub mod stdio;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::json;

pub use recent::{Recent, RecentCall};
pub use relay::Relay;

use crate::gate::{Called, Gate, GateError, View};
use crate::logic::types::{filtering, naming};
use crate::registry::Registry;
use client::{Client, House, Outlet, Principal};
use front::Front;
use metrics::Tally;

/// How the gateway shows itself.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How tools and prompts are named; none means as the configuration says.
    pub names: Option<naming::NamingStyle>,
    /// Only this server, with its own names.
    pub expose: Option<String>,
    /// What each principal may use; who is not named here may use all.
    pub views: HashMap<String, View>,
}

/// The gateway: it lets clients in, each with a gate of its own.
pub struct Gateway {
    inside: Arc<Inside>,
    /// Clients of 2026-07-28, by principal.
    stateless: Mutex<HashMap<Principal, Arc<Front>>>,
    /// The gates of operators who try tools, by principal.
    desks: Mutex<HashMap<Principal, Arc<Gate>>>,
}

/// What all clients share.
pub(crate) struct Inside {
    registry: Arc<Registry>,
    relay: Arc<Relay>,
    recent: Recent,
    tally: Tally,
    options: Options,
}

impl Gateway {
    /// A gateway over these servers. The relay must be the handler that the registry was built with, or servers have
    /// nobody to ask.
    pub fn new(registry: Arc<Registry>, relay: Arc<Relay>, options: Options) -> Self {
        let inside = Arc::new(Inside { registry, relay, recent: Recent::default(), tally: Tally::default(), options });
        Gateway { inside, stateless: Mutex::default(), desks: Mutex::default() }
    }

    /// The servers behind the gateway.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.inside.registry
    }

    /// The calls of late.
    pub fn recent(&self) -> &Recent {
        &self.inside.recent
    }

    /// The gate of an operator of this principal, with texts for people.
    fn desk(&self, principal: &Principal) -> Result<Arc<Gate>, api::Reply> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = desks.get(principal) {
            return Ok(Arc::clone(gate));
        }
        let view = View { pass_through: false, ..self.inside.view(principal) };
        let refused =
            |error: GateError| api::Reply { status: 500, body: json!({"error": error.to_string()}).to_string() };
        let gate = Arc::new(Gate::open(&self.inside.registry, view).map_err(refused)?);
        desks.insert(principal.clone(), Arc::clone(&gate));
        Ok(gate)
    }
}

impl House for Gateway {
    fn open(&self, principal: &Principal, outlet: Arc<dyn Outlet>) -> Result<Arc<dyn Client>, String> {
        let front = Front::open(&self.inside, principal, Some(outlet)).map_err(|error| error.to_string())?;
        Ok(front)
    }

    fn stateless(&self, principal: &Principal) -> Result<Arc<dyn Client>, String> {
        let mut stateless = self.stateless.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(front) = stateless.get(principal) {
            return Ok(Arc::clone(front) as _);
        }
        let front = Front::open(&self.inside, principal, None).map_err(|error| error.to_string())?;
        stateless.insert(principal.clone(), Arc::clone(&front));
        Ok(front)
    }
}

impl Inside {
    /// Keeps and counts a call that is over.
    fn remember(&self, principal: &Principal, called: &Called) {
        let result = &called.result;
        self.tally.add(result.tool.as_ref(), result.code);
        self.recent.add(RecentCall {
            id: result.call_id.clone(),
            at: SystemTime::now(),
            principal: principal.name.clone(),
            name: result.name.clone(),
            tool: result.tool.clone(),
            code: result.code,
            attempts: result.attempts,
            latency: called.latency,
            trace: result.trace.clone(),
        });
    }

    /// What a client of this principal may use.
    fn view(&self, principal: &Principal) -> View {
        let mut view = self.options.views.get(&principal.name).cloned().unwrap_or_default();
        if let Some(server) = &self.options.expose {
            view.selection = Some(vec![filtering::SelectedServer { id: server.clone(), tools: Vec::new() }]);
        }
        View { pass_through: true, ..view }
    }
}
