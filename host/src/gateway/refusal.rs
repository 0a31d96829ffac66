//! Refusals of requests by a listener: a status for HTTP, and a message that says how to fix the request.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::json;
use tracing::debug;

use super::client::Principal;
use crate::failure::RpcError;
use crate::gate::GateError;
use crate::json::to_raw;
use crate::logic::types::execution::Code;
use crate::rpc::code::SERVER_ERROR;
use crate::rpc::{self, UnreadableMessage};
use crate::words::NamedCase;

/// The response to a request that is refused.
#[derive(Debug)]
pub(super) struct RequestRefusal {
    pub(super) status: StatusCode,
    code: i64,
    message: Cow<'static, str>,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// A limit is reached, so the client may try again later.
    full: bool,
}

/// Which limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitReached {
    /// The limit for all.
    All,
    /// The limit for one of several principals.
    Own,
}

impl RequestRefusal {
    /// Creates a refusal with JSON-RPC's generic server error code.
    pub(super) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        RequestRefusal { status, code: SERVER_ERROR, message: message.into(), header: None, full: false }
    }

    pub(super) fn code(self, code: i64) -> Self {
        RequestRefusal { code, ..self }
    }

    /// Creates a refusal for a body that is not a JSON-RPC message.
    pub(super) fn unreadable(unreadable: &UnreadableMessage) -> Self {
        let RpcError { code, message, .. } = unreadable.error();
        RequestRefusal::new(StatusCode::BAD_REQUEST, message).code(code)
    }

    pub(super) fn unauthorized(message: &'static str) -> Self {
        let header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        RequestRefusal { header, ..RequestRefusal::new(StatusCode::UNAUTHORIZED, message) }
    }

    pub(super) fn method(allowed: &'static str) -> Self {
        let message = format!("method not allowed: use {allowed}");
        let header = Some((ALLOW, HeaderValue::from_static(allowed)));
        RequestRefusal { header, ..RequestRefusal::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// Creates a refusal because a limit for all clients is reached; the client may try again.
    pub(super) fn busy(message: impl Into<Cow<'static, str>>) -> Self {
        RequestRefusal::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(Duration::from_secs(1))
    }

    /// Creates a refusal because the gateway cannot open a gate for the principal.
    pub(super) fn from_gate_error(principal: &Principal, why: &GateError) -> Self {
        match why {
            GateError::Settings(text) => {
                let message = format!("principal {:?} cannot be served: {text}", principal.name);
                debug!("{message}");
                RequestRefusal::new(StatusCode::FORBIDDEN, message)
            }
            GateError::Logic(_) | GateError::Closed | GateError::Pending => RequestRefusal::busy(why.to_string()),
        }
    }

    /// Creates a refusal because a limit is reached, for all clients or for one of several principals; the client may
    /// try again.
    pub(super) fn limit(reached: LimitReached, all: &'static str, own: &'static str) -> Self {
        let (status, message) = match reached {
            LimitReached::All => (StatusCode::SERVICE_UNAVAILABLE, all),
            LimitReached::Own => (StatusCode::TOO_MANY_REQUESTS, own),
        };
        RequestRefusal::new(status, message).retry_after(Duration::from_secs(1))
    }

    pub(super) fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        RequestRefusal { header: Some((RETRY_AFTER, HeaderValue::from(seconds.max(1)))), full: true, ..self }
    }

    /// Creates a refusal because a message is too long; `what` names its container, such as `body` or `line`.
    pub(super) fn too_long(what: &str, most: usize) -> Self {
        let message = format!("the {what} is larger than {most} bytes, the limit of this gateway");
        RequestRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// Returns the refusal as a JSON-RPC error response to the request with this id.
    pub(super) fn answer(&self, id: Option<&str>) -> String {
        // The code of a call that finds the queue full.
        let data = self.full.then(|| to_raw(&json!({"code": Code::QueueFull.name()})));
        rpc::error(id, &RpcError { data, ..RpcError::new(self.code, self.message.as_ref()) })
    }

    /// Returns the refusal as the JSON text that pages and the API for operators answer with.
    pub(super) fn page_answer(&self) -> String {
        json!({"error": self.message}).to_string()
    }
}
