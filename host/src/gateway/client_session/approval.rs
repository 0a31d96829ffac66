//! Asks the person at the client to approve a call, in the way of the client's era.
//!
//! A client with a session is asked on the stream of the call. A client of 2026-07-28 gets a result that asks for
//! input, and sends the call again with the answer; the client holds the sealed state in between, so the gateway
//! does not store the call.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tracing::debug;

use super::ClientSession;
use super::approval_state::{ReturnedState, key};
use super::client_request::ClientRequest;
use super::questions::ASK_LIMIT;
use crate::config::model::StoreFailurePolicy;
use crate::gate::{ApprovalText, Approve, Consent};
use crate::gateway::seal::{ApprovalStage, RulesDigest, SealedCall};
use crate::json::JsonObject;
use crate::logic::types::execution::Question;
use crate::session::{Era, Topic, missing_capability};
use crate::store::UNREACHABLE;
use crate::transport::BoxFuture;

impl Approve for ClientRequest {
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent> {
        Box::pin(async move {
            let Some(client) = self.client.upgrade() else { return Consent::NoApprover };
            match self.era {
                Era::Legacy => self.ask_person(&client, question).await,
                Era::Modern => self.resume_or_ask(&client, question).await,
            }
        })
    }
}

impl ClientSession {
    /// Returns a digest of the rules in force.
    fn rules(&self) -> RulesDigest {
        self.gateway.active().rules
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
    async fn resume_or_ask(&self, client: &ClientSession, question: &Question) -> Consent {
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
        let answered = returned.and_then(|ReturnedState { sealed, answer }| match (sealed.stage, answer) {
            (ApprovalStage::Approved, _) => Some((sealed, true)),
            (ApprovalStage::Asked, answer) => Some((sealed, is_yes(answer.as_deref()?))),
        });
        // One approval starts one call, even if it is sent several times.
        let approved = match answered {
            None => None,
            Some((sealed, approved)) => match seal.spend(sealed, &subject.principal).await {
                Ok(unused) => unused.then_some(approved),
                Err(error) => match client.gateway.registry.config().settings.gateway.on_store_failure {
                    StoreFailurePolicy::Closed => {
                        debug!("an approval does not count: {error}");
                        return Consent::Failed(UNREACHABLE.to_owned());
                    }
                    StoreFailurePolicy::Open => seal.spend_here(sealed, &subject.principal).then_some(approved),
                },
            },
        };
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
                let asked = json!({key(&seal.name()): {"method": Topic::Elicitation.method(), "params": params}});
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
}
