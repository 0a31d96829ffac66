//! The gates by which the API and the dashboard list and call tools, one for each principal.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::Gateway;
use super::client::Principal;
use crate::gate::{Gate, GateError, GateView};
use crate::lock::lock;

/// The gates of operators, by principal.
#[derive(Default)]
pub(super) struct OperatorGates {
    current: HashMap<Principal, Arc<Gate>>,
    /// Those of older configurations, on which calls may still run.
    retired: Vec<Weak<Gate>>,
}

impl OperatorGates {
    /// Has the next call of each principal open a gate anew; running calls keep theirs.
    pub(super) fn retire(&mut self) {
        self.retired.retain(|gate| gate.strong_count() > 0);
        self.retired.extend(self.current.drain().map(|(_, gate)| Arc::downgrade(&gate)));
    }

    /// Ends all calls because the gateway stops.
    pub(super) fn stop_calls(&self) {
        let retired = self.retired.iter().filter_map(Weak::upgrade);
        self.current.values().cloned().chain(retired).for_each(|gate| gate.stop_calls());
    }
}

impl Gateway {
    /// Returns the gate for API calls of this principal; its texts are written for people.
    pub(super) fn operator_gate(&self, principal: &Principal) -> Result<Arc<Gate>, GateError> {
        let mut gates = lock(&self.operator_gates);
        if let Some(gate) = gates.current.get(principal) {
            return Ok(Arc::clone(gate));
        }
        let gate = Arc::new(Gate::open(&self.state.registry, self.operator_view(principal)?)?);
        gates.current.insert(principal.clone(), Arc::clone(&gate));
        Ok(gate)
    }

    /// Opens a gate that says what this principal may use, and does nothing in its place.
    pub(super) fn looking_gate(&self, principal: &Principal) -> Result<Arc<Gate>, GateError> {
        let view = GateView { only_looks: true, ..self.operator_view(principal)? };
        Ok(Arc::new(Gate::open(&self.state.registry, view)?))
    }

    fn operator_view(&self, principal: &Principal) -> Result<GateView, GateError> {
        let mut view = GateView { pass_through: false, listing: None, ..self.state.view(&principal.name)? };
        // Who shows no token has the name of the user who runs the gateway, but not the rights of an administrator.
        view.agent.admin = principal.admin;
        Ok(view.in_new_session())
    }
}
