//! The calls that wait for an admin, for admins other than their callers.

use serde::Deserialize;
use serde_json::json;

use super::super::Gateway;
use super::super::approvals::{ShownCall, UnusableDecision};
use super::super::client::Principal;
use super::{ApiResponse, error, reply, timestamp};
use crate::gate::AdminDecision;
use crate::json::read_object;

impl Gateway {
    /// Lists the calls that wait for an admin, with everything that will be sent, the oldest first.
    pub fn approvals(&self, principal: &Principal) -> ApiResponse {
        let credentials = self.registry().secrets().credentials();
        let calls = self.state.waiting.list().into_iter().map(|call| {
            let ShownCall { id, principal: caller, text, since, until } = call;
            let mut shown = text.as_json();
            shown["id"] = id.into();
            shown["since"] = timestamp(since).into();
            shown["until"] = timestamp(until).into();
            shown["own"] = (caller == principal.name).into();
            shown["principal"] = credentials.hide(&caller).into();
            shown
        });
        let calls: Vec<_> = calls.collect();
        // Not redacted: an admin may decide by a path or a host of the configuration. The texts hide credentials.
        reply(200, &json!({"approvers": self.state.approvers().name(), "approvals": calls}))
    }

    /// Returns a count that changes with the list of calls that wait.
    pub(in crate::gateway) fn approvals_changed(&self) -> tokio::sync::watch::Receiver<u64> {
        self.state.waiting.changed()
    }

    /// Approves or declines a call that waits, for an admin who has not made it.
    pub fn decide_approval(&self, principal: &Principal, id: &str, body: &[u8]) -> ApiResponse {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            approve: bool,
        }
        let Ok(Body { approve }) = read_object(body) else {
            return error(400, "send {\"approve\": true} or {\"approve\": false}");
        };
        let decision = AdminDecision { admin: principal.name.as_str().into(), approved: approve };
        match self.state.waiting.decide(id, decision, &self.state.rules()) {
            Ok(()) => reply(200, &json!({"id": id, "approve": approve})),
            Err(UnusableDecision::Own) => {
                let name = &principal.name;
                error(403, &format!("{name:?} made this call: an admin of another name must decide it"))
            }
            Err(UnusableDecision::Unknown) => {
                error(404, "no such call waits: it was decided, its caller has gone, or its time is over")
            }
            Err(UnusableDecision::OtherRules) => {
                error(409, "the rules have changed since the call was shown, so it is decided again")
            }
        }
    }
}
