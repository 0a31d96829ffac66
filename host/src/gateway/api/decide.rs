//! What would be decided about a call, also in the place of another principal: nothing is called, connected or counted.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::super::Gateway;
use super::super::client::Principal;
use super::trial::CallBody;
use super::{ApiResponse, error, failed};
use crate::gate::{Gate, LOCAL};
use crate::json::JsonObject;
use crate::logic::types::execution::{Directive, Event, Failed};
use crate::logic::types::{Failure, Phase};
use crate::plan::CallPlan;
use crate::words::NamedCase;

impl Gateway {
    /// Says what would be decided about a call, what would be sent, and what the caller would be told.
    pub async fn decide_call(&self, principal: &Principal, body: &[u8]) -> Result<ApiResponse, ApiResponse> {
        let body = CallBody::read(body)?;
        let other = body.other.as_deref();
        let gate = self.gate_for(principal, other)?;
        gate.take_known();
        let decided = gate.plan_by(body.call(&self.state), |directive| match directive {
            Directive::Connect(servers) => Some(Event::Failed(Failed {
                failure: Failure::Connect(format!(
                    "{} has not listed its tools yet, and a question connects nothing: reconnect it, and ask again",
                    servers.join(", ")
                )),
                phase: Phase::NotSent,
            })),
            Directive::Circumstances(with_known) => gate.peek_circumstances(*with_known).map(Event::Circumstances),
            _ => None,
        });
        // Not `json!`, which would round large numbers.
        let mut out = JsonObject::default();
        out.set("as", other.unwrap_or(&principal.name));
        let trace = match decided.await.map_err(failed)? {
            Ok(CallPlan { tool, arguments, approval, trace }) => {
                out.set("decision", if approval.is_some() { "ask" } else { "call" });
                out.set("server", &tool.server);
                out.set("tool", &tool.tool);
                out.set("approval", &approval);
                out.set("arguments", &RawValue::from_string(arguments).ok());
                trace
            }
            Err(refused) => {
                out.set("decision", "refuse");
                out.set("code", refused.code.name());
                out.set("server", &refused.tool.as_ref().map(|tool| &tool.server));
                out.set("tool", &refused.tool.as_ref().map(|tool| &tool.tool));
                out.set("text", &refused.text);
                refused.trace
            }
        };
        out.set("trace", &trace);
        Ok(self.redacted(&out.to_text()))
    }

    /// Returns the gate of the principal, or of another one in whose place an admin asks.
    pub(super) fn gate_for(&self, principal: &Principal, other: Option<&str>) -> Result<Arc<Gate>, ApiResponse> {
        let Some(name) = other else { return self.operator_gate(principal).map_err(failed) };
        if !principal.admin {
            return Err(error(403, "only admins see what another principal would see; admin: true is needed"));
        }
        if !self.principals().contains(name) {
            return Err(error(404, &format!("no principal {name:?} is configured")));
        }
        let view = self.state.view(name).map_err(failed)?;
        self.looking_gate(&Principal { name: name.to_owned(), admin: view.agent.admin }).map_err(failed)
    }

    /// Returns the names of all principals.
    pub(super) fn principals(&self) -> BTreeSet<String> {
        let names = self.state.active().options.views.keys().cloned().collect::<BTreeSet<_>>();
        names.into_iter().chain([LOCAL.to_owned()]).collect()
    }
}
