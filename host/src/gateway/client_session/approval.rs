//! Asks the person at the client to approve a call, in the way of the client's era.
//!
//! A client with a session is asked on the stream of the call. A client of 2026-07-28 gets a result that asks for
//! input, and sends the call again with the answer; the client holds the sealed state in between, so the gateway
//! does not store the call.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::ClientSession;
use super::client_request::ClientRequest;
use super::era::wants_input;
use super::labels::OURS;
use super::questions::ASK_LIMIT;
use crate::gate::{ApprovalText, Approve, Consent};
use crate::gateway::seal::{ApprovalStage, RulesVersion, SealedCall, SealedState, StateSealer};
use crate::json::{JsonObject, to_raw};
use crate::logic::types::execution::Question;
use crate::session::{Era, InputResponse, Topic, missing_capability};
use crate::transport::BoxFuture;

impl Approve for ClientRequest {
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent> {
        Box::pin(async move {
            let Some(client) = self.client.upgrade() else { return Consent::NoApprover };
            match self.era {
                Era::Legacy => self.ask_person(&client, question).await,
                Era::Modern => self.resume_or_ask(&client, question),
            }
        })
    }
}

impl ClientSession {
    /// Returns the version of the rules in force.
    fn rules(&self) -> RulesVersion {
        (self.gateway.registry.config_version(), self.gateway.edition.load(Ordering::SeqCst))
    }
}

impl ClientRequest {
    /// Asks a client with a session, for as long as the call may take. If the rules changed meanwhile, an approval does
    /// not count and the call must be decided again.
    async fn ask_person(&self, client: &ClientSession, question: &Question) -> Consent {
        if !self.takes_forms() {
            return Consent::NoApprover;
        }
        let total = client.gate.link(&question.tool.server).map_or(Duration::MAX, |link| link.server().timeouts.total);
        let rules = client.rules();
        let form = form(client, question).to_string();
        match client.questions.ask(Topic::Elicitation, &form, &*self.sink, total.min(ASK_LIMIT)).await {
            Err(_) => Consent::NoApprover,
            Ok(answer) if !is_yes(&answer) => Consent::No,
            Ok(_) if client.rules() != rules => Consent::Pending,
            Ok(_) => Consent::Yes,
        }
    }

    /// Returns the decision that a client without a session sent along; without a valid one, asks for it with the
    /// result.
    fn resume_or_ask(&self, client: &ClientSession, question: &Question) -> Consent {
        let Question { tool, arguments, .. } = question;
        let seal = &client.gateway.sealer;
        let subject = SealedCall {
            principal: client.name.to_string(),
            server: tool.server.clone(),
            tool: tool.tool.clone(),
            arguments: arguments.clone(),
            rules: client.rules(),
        };
        let returned = self.approval.returned.get().filter(|returned| seal.verify(&returned.sealed, &subject));
        let approved = returned.and_then(|ReturnedState { sealed, answer }| {
            let approved = match (sealed.stage, answer) {
                (ApprovalStage::Approved, _) => true,
                (ApprovalStage::Asked, answer) => is_yes(answer.as_deref()?),
            };
            // One approval starts one call, even if it is sent several times.
            seal.spend(sealed, &subject.principal).then_some(approved)
        });
        match approved {
            Some(true) => {
                let _ = self.approval.approved.set(subject);
                Consent::Yes
            }
            Some(false) => Consent::No,
            None if !self.takes_forms() => Consent::NoApprover,
            None => {
                let Some(state) = seal.seal(ApprovalStage::Asked, &subject, None) else { return Consent::NoApprover };
                let mut params = form(client, question);
                params["mode"] = "form".into();
                let asked = json!({key(seal): {"method": Topic::Elicitation.method(), "params": params}});
                let result = json!({"resultType": "input_required", "inputRequests": asked, "requestState": state});
                let _ = self.approval.input_request.set(result.to_string());
                Consent::Pending
            }
        }
    }

    /// Reports whether the client can show a form to a person.
    fn takes_forms(&self) -> bool {
        JsonObject::read(&self.capabilities)
            .is_some_and(|declared| missing_capability(&declared, Topic::Elicitation, None).is_none())
    }
}

/// Builds the form that shows the person the call as it will be made.
fn form(client: &ClientSession, question: &Question) -> serde_json::Value {
    let message = ApprovalText::new(question, &client.gateway.registry.secrets()).in_lines();
    let approve = json!({"type": "boolean", "title": "Approve", "description": "Whether the call may be made"});
    let schema = json!({"type": "object", "properties": {"approve": approve}, "required": ["approve"]});
    json!({"message": message, "requestedSchema": schema})
}

/// Reports whether an answer approves the call. A client that shows no fields accepts without content.
fn is_yes(answer: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct ElicitResult {
        action: String,
        #[serde(default)]
        content: Option<ApprovalContent>,
    }
    #[derive(Deserialize)]
    struct ApprovalContent {
        approve: bool,
    }
    let answer = serde_json::from_str::<ElicitResult>(answer.get());
    answer.is_ok_and(|answer| answer.action == "accept" && answer.content.is_none_or(|content| content.approve))
}

/// The state of the approval of one call.
#[derive(Default)]
pub(super) struct Approval {
    /// The state and answer that the client returned.
    pub(super) returned: OnceLock<ReturnedState>,
    /// The result that asks the client, if it must send the call again with the answer.
    pub(super) input_request: OnceLock<String>,
    /// The call, if the client returned an approval of it.
    pub(super) approved: OnceLock<SealedCall>,
}

/// The state and answer that a client returned.
pub(super) struct ReturnedState {
    pub(super) sealed: SealedState,
    pub(super) answer: Option<Box<RawValue>>,
}

impl Approval {
    /// Removes toolgate's own state and answer from the client's input; the rest is for the server, which may be a
    /// gateway that asks in the same way.
    pub(super) fn extract(&self, seal: &StateSealer, given: &mut InputResponse) {
        let Some(sealed) = given.state.as_deref().and_then(|state| seal.read(state.get())) else { return };
        given.state = sealed.inner.clone();
        let mut responses = given.responses.as_deref().and_then(|responses| JsonObject::read(responses.get()));
        let answer = responses.as_mut().and_then(|responses| responses.remove(&key(seal)));
        if sealed.stage == ApprovalStage::Asked {
            // The server has not asked anything yet, and the person has not seen any answers to it.
            given.responses = None;
        } else if let (Some(rest), true) = (responses, answer.is_some()) {
            given.responses = Some(rest).filter(|rest| !rest.is_empty()).map(|rest| to_raw(&rest));
        }
        let _ = self.returned.set(ReturnedState { sealed, answer });
    }

    /// Returns the result of the call. If the server of an approved call asks for input, its state is sealed together
    /// with the approval, which is valid for the next round.
    pub(super) fn wrap_state(&self, seal: &StateSealer, result: String) -> String {
        let Some(subject) = self.approved.get().filter(|_| wants_input(&result)) else { return result };
        let Some(mut object) = JsonObject::read(&result) else { return result };
        let inner = object.remove("requestState");
        if let Some(state) = seal.seal(ApprovalStage::Approved, subject, inner.as_deref()) {
            object.set("requestState", &state);
        }
        object.to_text()
    }
}

/// Returns the key of toolgate's own question; a gateway behind this one uses another.
pub(super) fn key(seal: &StateSealer) -> String {
    format!("{OURS}{}", seal.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (answer, expected) in [
            (r#"{"action":"accept","content":{"approve":true}}"#, true),
            (r#"{"action":"accept"}"#, true),
            (r#"{"action":"accept","content":null}"#, true),
            (r#"{"action":"accept","content":{"approve":false}}"#, false),
            (r#"{"action":"accept","content":{"approve":"true"}}"#, false),
            (r#"{"action":"accept","content":{}}"#, false),
            (r#"{"action":"decline","content":{"approve":true}}"#, false),
            (r#"{"action":"cancel"}"#, false),
            (r#"{"content":{"approve":true}}"#, false),
            ("true", false),
        ] {
            assert_eq!(is_yes(&RawValue::from_string(answer.to_owned()).unwrap()), expected, "{answer}");
        }
    }

    #[test]
    fn what_is_ours_does_not_reach_the_server_and_what_is_the_servers_does() {
        let (seal, raw) = (StateSealer::new(), |text: &str| RawValue::from_string(text.to_owned()).unwrap());
        let ours_at = |stage: &str, inner: &str| {
            use base64::Engine;
            let inner = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(inner);
            raw(&format!("\"toolgate/{}/{stage}/1/1/AA/{inner}\"", seal.name))
        };
        let ours = |inner: &str| ours_at("approved", inner);
        let state = r#""\u00e9 1.0""#;
        let answer = format!(r#"{:?}:{{"action":"accept"}}"#, key(&seal));
        let others = r#"{"toolgate-approval-x":{"action":"accept"}}"#;
        let theirs = r#""toolgate/x/asked/1/1/AA/""#;
        for (given, responses, expected, left) in [
            (ours(""), Some(format!("{{{answer}}}")), None, None),
            (ours_at("asked", ""), Some(format!(r#"{{{answer},"a":1.10}}"#)), None, None),
            (ours(state), Some(format!(r#"{{{answer},"a":1.10}}"#)), Some(state), Some(r#"{"a":1.10}"#)),
            (ours(state), Some(r#"{ "a": 1.10}"#.to_owned()), Some(state), Some(r#"{ "a": 1.10}"#)),
            (raw(state), Some(r#"{ "a": 1.10}"#.to_owned()), Some(state), Some(r#"{ "a": 1.10}"#)),
            (raw(theirs), Some(others.to_owned()), Some(theirs), Some(others)),
            (ours(theirs), Some(others.to_owned()), Some(theirs), Some(others)),
        ] {
            let mut given = InputResponse { state: Some(given), responses: responses.as_deref().map(raw) };
            Approval::default().extract(&seal, &mut given);
            assert_eq!(given.state.as_deref().map(RawValue::get), expected);
            assert_eq!(given.responses.as_deref().map(RawValue::get), left);
        }
    }
}
