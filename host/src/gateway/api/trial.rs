//! Tool calls of operators, who are asked themselves where a rule wants a person.

use std::future::pending;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::approvals::time_to_decide;
use super::super::client::Principal;
use super::super::seal::{ApprovalStage, RulesDigest};
use super::super::{Gateway, GatewayState, bounds};
use super::{ApiResponse, error, failed};
use crate::gate::{ApprovalText, Approve, CallEvent, CallOptions, Consent, Gate, GateError, OnEvent};
use crate::json::{Object, read_object, to_raw};
use crate::logic::types::execution::{Question, ToolCall};
use crate::rpc;
use crate::transport::BoxFuture;

/// The name and the arguments of a call, as an operator sends them.
#[derive(Deserialize)]
pub(super) struct CallBody {
    name: String,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    /// The principal in whose place a call is decided.
    #[serde(default, rename = "as")]
    pub(super) other: Option<String>,
    /// Whether a person can be asked for approval.
    #[serde(default)]
    ask: bool,
    /// What that person answered to the question of an earlier response.
    #[serde(default)]
    approval: Option<Object<GivenApproval>>,
}

/// The answer of a person to the question about a call.
#[derive(Deserialize)]
struct GivenApproval {
    /// The state that came with the question.
    state: String,
    approve: bool,
}

impl CallBody {
    pub(super) fn read(body: &[u8]) -> Result<Self, ApiResponse> {
        let wrong = |_| error(400, "send {\"name\": …, \"arguments\": an object or text}");
        let body: CallBody = read_object(body).map_err(wrong)?;
        bounds::check_tool_name(&body.name).map_err(|refused| error(400, &refused.message))?;
        Ok(body)
    }

    pub(super) fn call(&self, state: &GatewayState) -> ToolCall {
        let text = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
        let arguments = self.arguments.as_deref().map_or_else(String::new, text);
        ToolCall::new(state.full_name(self.name.clone()), arguments)
    }
}

impl Gateway {
    /// Calls a tool for an operator who tries it out. If a rule wants a person, the response is a question for the
    /// operator if it can be asked and may decide; the same call with the answer is then made.
    pub async fn try_call(&self, principal: &Principal, body: &[u8]) -> Result<ApiResponse, ApiResponse> {
        let body = CallBody::read(body)?;
        if body.other.is_some() {
            return Err(error(400, "no call is made as another principal: POST mcp/decide says what would be decided"));
        }
        loop {
            // Noted before the gate is taken, so what it uses is never older.
            let rules = self.state.rules();
            let gate = self.operator_gate(principal).map_err(failed)?;
            let asker = Arc::new(OperatorQuestion {
                state: Arc::clone(&self.state),
                gate: Arc::clone(&gate),
                principal: principal.name.clone(),
                rules,
                can_ask: body.ask,
                given: body.approval.as_ref().map(|Object(given)| (rpc::quote(&given.state), given.approve)),
                question: OnceLock::new(),
            });
            let options = self.trial_options(principal, &asker);
            let called = match gate.call(body.call(&self.state), &options).await {
                Ok(called) => called,
                Err(GateError::Pending) => match asker.question.get() {
                    // Whole, because the operator decides by it; credentials are hidden.
                    Some(question) => return Ok(ApiResponse { status: 200, body: question.to_string() }),
                    // The rules changed while an admin decided, so the call is decided again.
                    None => continue,
                },
                Err(error) => return Err(failed(error)),
            };
            let response = to_raw(&called.as_json());
            self.state.remember(&principal.name, called.result, called.latency);
            return Ok(self.redacted(response.get()));
        }
    }

    fn trial_options(&self, principal: &Principal, asker: &Arc<OperatorQuestion>) -> CallOptions {
        let (state, name, track) =
            (Arc::clone(&self.state), principal.name.clone(), self.state.relay.track_work(&principal.name));
        let events: OnEvent = Arc::new(move |event| match event {
            CallEvent::Abandoned { result, latency } => state.remember(&name, *result, latency),
            event => track(event),
        });
        CallOptions {
            principal: Some(principal.name.as_str().into()),
            events: Some(events),
            approve: Some(Arc::clone(asker) as _),
            ..CallOptions::default()
        }
    }
}

/// The question about an operator's call, and its answer.
struct OperatorQuestion {
    state: Arc<GatewayState>,
    gate: Arc<Gate>,
    principal: String,
    /// The rules by which the call is decided.
    rules: RulesDigest,
    can_ask: bool,
    /// The sealed state of an earlier question, as JSON, and what the person answered.
    given: Option<(String, bool)>,
    /// The response that asks the person.
    question: OnceLock<Value>,
}

impl OperatorQuestion {
    async fn ask_admins(&self, question: &Question) -> Consent {
        let limit = time_to_decide(&self.gate, question);
        match self.state.show_to_admins(&self.principal, question, None, limit, self.rules) {
            // When the caller goes, the call is dropped.
            Ok(asked) => asked.decision(pending()).await,
            Err(refused) => refused,
        }
    }
}

impl Approve for OperatorQuestion {
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent> {
        Box::pin(async move {
            let (state, approvers) = (&self.state, self.state.approvers());
            if !approvers.has_client() {
                return self.ask_admins(question).await;
            }
            let subject = state.subject(&self.principal, question, None);
            let given = self.given.as_ref().and_then(|(sealed, approve)| Some((state.sealer.read(sealed)?, *approve)));
            if let Some((sealed, approve)) = given.filter(|(sealed, _)| sealed.stage == ApprovalStage::Asked) {
                match state.use_answer(&sealed, &subject, approve).await {
                    Ok(Some(true)) => return Consent::Yes,
                    Ok(Some(false)) => return Consent::No,
                    // Another call, other rules, or an answer that was used before: the person is asked about this one.
                    Ok(None) => {}
                    Err(failed) => return failed,
                }
            }
            if self.can_ask {
                let Some(sealed) = state.sealer.seal(ApprovalStage::Asked, &subject, None) else {
                    return Consent::NoApprover;
                };
                let mut asked = ApprovalText::new(question, None, &state.registry.secrets()).as_json();
                asked["state"] = sealed.into();
                let _ = self.question.set(json!({"approval": asked}));
                return Consent::Pending;
            }
            match approvers.has_admins() {
                true => self.ask_admins(question).await,
                false => Consent::NoApprover,
            }
        })
    }
}
