//! Refusals of requests: a status and a message that says how to fix the request.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde_json::json;
use tracing::debug;

use super::body::ResponseBody;
use crate::failure::RpcError;
use crate::gate::GateError;
use crate::gateway::client::Principal;
use crate::json::to_raw;
use crate::logic::types::execution::Code;
use crate::rpc::code::SERVER_ERROR;
use crate::rpc::{self, Unreadable};
use crate::words::NamedCase;

/// The response to a request that is refused.
#[derive(Debug)]
pub(in crate::gateway) struct HttpRefusal {
    pub(super) status: StatusCode,
    code: i64,
    message: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// A limit is reached, so the client may try again later.
    full: bool,
}

impl HttpRefusal {
    /// Creates a refusal with JSON-RPC's generic server error code.
    pub(super) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        HttpRefusal { status, code: SERVER_ERROR, message: message.into(), header: None, full: false }
    }

    pub(in crate::gateway) fn code(self, code: i64) -> Self {
        HttpRefusal { code, ..self }
    }

    /// Creates a refusal for a body that is not a JSON-RPC message.
    pub(super) fn unreadable(unreadable: &Unreadable) -> Self {
        let RpcError { code, message, .. } = unreadable.error();
        HttpRefusal::new(StatusCode::BAD_REQUEST, message).code(code)
    }

    pub(super) fn unauthorized(message: &'static str) -> Self {
        let header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        HttpRefusal { header, ..HttpRefusal::new(StatusCode::UNAUTHORIZED, message) }
    }

    pub(super) fn method(allowed: &'static str) -> Self {
        let message = format!("method not allowed: use {allowed}");
        let header = Some((ALLOW, HeaderValue::from_static(allowed)));
        HttpRefusal { header, ..HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// Creates a refusal because a limit for all clients is reached; the client may try again.
    pub(in crate::gateway) fn busy(message: impl Into<Cow<'static, str>>) -> Self {
        HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(Duration::from_secs(1))
    }

    /// Creates a refusal because the gateway cannot open a gate for the principal.
    pub(super) fn from_gate_error(principal: &Principal, why: &GateError) -> Self {
        match why {
            GateError::Settings(text) => {
                let message = format!("principal {:?} cannot be served: {text}", principal.name);
                debug!("{message}");
                HttpRefusal::new(StatusCode::FORBIDDEN, message)
            }
            GateError::Logic(_) | GateError::Closed | GateError::Pending => HttpRefusal::busy(why.to_string()),
        }
    }

    /// Creates a refusal because one principal has used up its share; the client may try again.
    pub(super) fn over_share(message: impl Into<Cow<'static, str>>) -> Self {
        HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(Duration::from_secs(1))
    }

    pub(super) fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        HttpRefusal { header: Some((RETRY_AFTER, HeaderValue::from(seconds.max(1)))), full: true, ..self }
    }

    /// Creates a refusal because a message is too long; `what` names its container, such as `body` or `line`.
    pub(in crate::gateway) fn too_long(what: &str, most: usize) -> Self {
        let message = format!("the {what} is larger than {most} bytes, the limit of this gateway");
        HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// Returns the refusal as a JSON-RPC error response to the request with this id.
    pub(in crate::gateway) fn answer(&self, id: Option<&str>) -> String {
        // The code of a call that finds the queue full.
        let data = self.full.then(|| to_raw(&json!({"code": Code::QueueFull.name()})));
        rpc::error(id, &RpcError { data, ..RpcError::new(self.code, self.message.as_ref()) })
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::Full(Bytes::from(self.answer(None))));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response.headers_mut().extend(self.header);
        response
    }
}

/// The content type of a plain response.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
