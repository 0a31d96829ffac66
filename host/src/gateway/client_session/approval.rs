//! Asks the person at the client to approve a call, in the way of the client's era.
//!
//! A client with a session is asked on the stream of the call. A client of 2026-07-28 gets a result that asks for
//! input, and sends the call again with the answer; the client holds the sealed state in between, so the gateway
//! does not store the call. If admins may decide, the call waits for them too.

use std::future::pending;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::ClientSession;
use super::approval_state::{ReturnedState, key};
use super::client_request::ClientRequest;
use crate::gate::{ApprovalText, Approve, Consent};
use crate::gateway::approvals::time_to_decide;
use crate::gateway::seal::ApprovalStage;
use crate::json::{JsonObject, Object, read_object};
use crate::logic::types::execution::Question;
use crate::session::{Era, Topic, missing_capability};
use crate::transport::BoxFuture;

impl Approve for ClientRequest {
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent> {
        Box::pin(async move {
            let Some(client) = self.client.upgrade() else { return Consent::NoApprover };
            let max_bytes = client.gateway.registry.config().settings.ask_max_bytes;
            if let Some(meta) = self.unseen_meta.as_ref().filter(|meta| meta.len() as u64 > max_bytes) {
                let bytes = meta.len();
                return Consent::Failed(format!(
                    "its _meta has {bytes} bytes, more than a person is shown (ask_max_bytes: {max_bytes})"
                ));
            }
            match self.era {
                Era::Legacy => self.ask_person(&client, question).await,
                Era::Modern => self.resume_or_ask(&client, question).await,
            }
        })
    }
}

impl ClientRequest {
    /// Asks a client with a session, an admin, or both, for as long as the call may take. If the rules changed since the
    /// call was decided, an approval does not count and it must be decided again.
    async fn ask_person(&self, client: &ClientSession, question: &Question) -> Consent {
        let (gateway, approvers) = (&client.gateway, client.gateway.approvers());
        let limit = time_to_decide(&client.gate, question);
        let by_form = async {
            match approvers.has_client() && self.can_show_forms() {
                true => self.ask_by_form(client, question, limit).await,
                false => Consent::NoApprover,
            }
        };
        if !approvers.has_admins() {
            return by_form.await;
        }
        let asked = match gateway.show_to_admins(&client.name, question, self.meta(), limit, self.rules()) {
            Ok(asked) => asked,
            Err(Consent::Pending) => return Consent::Pending,
            // The list of the admins is full: the client still may decide.
            Err(refused) => {
                return match by_form.await {
                    Consent::NoApprover => refused,
                    decided => decided,
                };
            }
        };
        let by_client = async {
            match by_form.await {
                // It cannot be asked, or not any more: admins decide for as long as it waits.
                Consent::NoApprover => {
                    self.sink.closed().await;
                    Consent::Failed("its caller has gone".to_owned())
                }
                decided => decided,
            }
        };
        asked.decision(by_client).await
    }

    async fn ask_by_form(&self, client: &ClientSession, question: &Question, limit: Duration) -> Consent {
        let is_outdated = || client.gateway.rules() != self.rules();
        if is_outdated() {
            return Consent::Pending;
        }
        let form = self.form(client, question).to_string();
        match client.questions.ask(Topic::Elicitation, &form, &*self.sink, limit).await {
            Err(_) => Consent::NoApprover,
            Ok(answer) if !is_yes(&answer) => Consent::No,
            Ok(_) if is_outdated() => Consent::Pending,
            Ok(_) => Consent::Yes,
        }
    }

    /// Returns the decision that a client without a session sent along; without a valid one, asks for it with the
    /// result, or asks an admin.
    async fn resume_or_ask(&self, client: &ClientSession, question: &Question) -> Consent {
        let (gateway, approvers) = (&client.gateway, client.gateway.approvers());
        let subject = gateway.subject(&client.name, question, self.meta());
        let answered = self.approval.returned.get().and_then(|ReturnedState { sealed, answer }| {
            let approved = match (sealed.stage, answer) {
                (ApprovalStage::Approved, _) => true,
                (ApprovalStage::Asked, answer) => is_yes(answer.as_deref()?),
            };
            Some((sealed, approved))
        });
        let decided = match answered {
            None => None,
            Some((sealed, approved)) => match gateway.use_answer(sealed, &subject, approved).await {
                Ok(decided) => decided,
                Err(failed) => return failed,
            },
        };
        match decided {
            Some(true) => {
                let _ = self.approval.approved.set(subject);
                Consent::Yes
            }
            Some(false) => Consent::No,
            None if approvers.has_client() && self.can_show_forms() => {
                let seal = &gateway.sealer;
                let Some(state) = seal.seal(ApprovalStage::Asked, &subject, None) else { return Consent::NoApprover };
                let mut params = self.form(client, question);
                params["mode"] = "form".into();
                let asked = json!({key(&seal.name()): {"method": Topic::Elicitation.method(), "params": params}});
                let result = json!({"resultType": "input_required", "inputRequests": asked, "requestState": state});
                let _ = self.approval.input_request.set(result.to_string());
                Consent::Pending
            }
            None if approvers.has_admins() => {
                let limit = time_to_decide(&client.gate, question);
                let consent = match gateway.show_to_admins(&client.name, question, self.meta(), limit, self.rules()) {
                    // When the client goes, its call is dropped.
                    Ok(asked) => asked.decision(pending()).await,
                    Err(refused) => refused,
                };
                if matches!(&consent, Consent::Admin(decision) if decision.approved) {
                    // For the next rounds of a server that asks for input.
                    let _ = self.approval.approved.set(subject);
                }
                consent
            }
            None => Consent::NoApprover,
        }
    }

    /// Builds the form that shows the person the call as it will be made.
    fn form(&self, client: &ClientSession, question: &Question) -> serde_json::Value {
        let message = ApprovalText::new(question, self.meta(), &client.gateway.registry.secrets()).in_lines();
        let approve = json!({"type": "boolean", "title": "Approve", "description": "Whether the call may be made"});
        let schema = json!({"type": "object", "properties": {"approve": approve}, "required": ["approve"]});
        json!({"message": message, "requestedSchema": schema})
    }

    /// Returns the members of `_meta` that a person must see, as one JSON object.
    fn meta(&self) -> Option<&str> {
        self.unseen_meta.as_deref()
    }

    /// Reports whether the client can show a form to a person.
    fn can_show_forms(&self) -> bool {
        JsonObject::read(&self.capabilities)
            .is_some_and(|declared| missing_capability(&declared, Topic::Elicitation, None).is_none())
    }
}

/// Reports whether an answer approves the call. A client that shows no fields accepts without content.
fn is_yes(answer: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct ElicitResult {
        action: String,
        #[serde(default)]
        content: Option<Object<ApprovalContent>>,
    }
    #[derive(Deserialize)]
    struct ApprovalContent {
        approve: bool,
    }
    let Ok(ElicitResult { action, content }) = read_object(answer.get()) else { return false };
    action == "accept" && content.is_none_or(|Object(content)| content.approve)
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
            (r#"{"action":"accept","content":[true]}"#, false),
            (r#"{"action":"accept","content":[]}"#, false),
            (r#"["accept"]"#, false),
            (r#"["accept",{"approve":true}]"#, false),
            ("true", false),
        ] {
            assert_eq!(is_yes(&RawValue::from_string(answer.to_owned()).unwrap()), expected, "{answer}");
        }
    }
}
