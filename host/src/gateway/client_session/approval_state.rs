//! What a client returns of an approval, and what it must return.

use std::sync::OnceLock;

use serde_json::value::RawValue;

use super::era::wants_input;
use super::labels::OURS;
use crate::gateway::seal::{ApprovalStage, SealedCall, SealedState, StateSealer};
use crate::json::{JsonObject, to_raw};
use crate::session::InputResponse;

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
        let answer = responses.as_mut().and_then(|responses| responses.remove(&key(&sealed.key)));
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

/// Returns the key of toolgate's own question, by the name of the key that seals it; a gateway behind this one uses
/// another.
pub(super) fn key(name: &str) -> String {
    format!("{OURS}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::replica::Replica;
    use crate::store::Store;

    fn sealer() -> StateSealer {
        StateSealer::new(Replica::new(&[], Store::memory()))
    }

    #[test]
    fn what_is_ours_does_not_reach_the_server_and_what_is_the_servers_does() {
        let (seal, raw) = (sealer(), |text: &str| RawValue::from_string(text.to_owned()).unwrap());
        let ours_at = |stage: &str, inner: &str| {
            use base64::Engine;
            let inner = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(inner);
            raw(&format!("\"toolgate/{}/{stage}/1/1/AA/{inner}\"", seal.name()))
        };
        let ours = |inner: &str| ours_at("approved", inner);
        let state = r#""\u00e9 1.0""#;
        let answer = format!(r#"{:?}:{{"action":"accept"}}"#, key(&seal.name()));
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
