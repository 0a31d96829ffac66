//! Why a request is not let through, as an answer that says how to mend it.

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

/// Why a request is not let through.
#[derive(Debug)]
pub(in crate::gateway) struct HttpRefusal {
    pub(super) status: StatusCode,
    code: i64,
    message: Cow<'static, str>,
    header: Option<(HeaderName, HeaderValue)>,
    /// It is refused because there is too much of something; it is worth trying again.
    full: bool,
}

impl HttpRefusal {
    /// A refusal with the code that JSON-RPC leaves to servers.
    pub(super) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        HttpRefusal { status, code: SERVER_ERROR, message: message.into(), header: None, full: false }
    }

    pub(in crate::gateway) fn code(self, code: i64) -> Self {
        HttpRefusal { code, ..self }
    }

    /// Refuses a text that is not a message.
    pub(super) fn unreadable(unreadable: &Unreadable) -> Self {
        let RpcError { code, message, .. } = unreadable.error();
        HttpRefusal::new(StatusCode::BAD_REQUEST, message).code(code)
    }

    pub(super) fn unauthorized(message: &'static str) -> Self {
        let header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        HttpRefusal { header, ..HttpRefusal::new(StatusCode::UNAUTHORIZED, message) }
    }

    pub(super) fn method(allowed: &'static str) -> Self {
        let message = format!("this method is not served here: use {allowed}");
        let header = Some((ALLOW, HeaderValue::from_static(allowed)));
        HttpRefusal { header, ..HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// Something is full; it is worth trying again.
    pub(in crate::gateway) fn busy(message: impl Into<Cow<'static, str>>) -> Self {
        HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(Duration::from_secs(1))
    }

    /// The house does not let a principal in: there is no room, or what it may use cannot be had.
    pub(super) fn from_gate_error(principal: &Principal, why: &GateError) -> Self {
        match why {
            GateError::Settings(text) => {
                let message = format!("the principal {:?} cannot be let in: {text}", principal.name);
                debug!("{message}");
                HttpRefusal::new(StatusCode::FORBIDDEN, message)
            }
            GateError::Logic(_) | GateError::Closed | GateError::Pending => HttpRefusal::busy(why.to_string()),
        }
    }

    /// One principal has its share of what several want; it is worth trying again.
    pub(super) fn over_share(message: impl Into<Cow<'static, str>>) -> Self {
        HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, message).retry_after(Duration::from_secs(1))
    }

    pub(super) fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        HttpRefusal { header: Some((RETRY_AFTER, HeaderValue::from(seconds.max(1)))), full: true, ..self }
    }

    /// A message has more bytes than may be; `what` is how it comes.
    pub(in crate::gateway) fn too_long(what: &str, most: usize) -> Self {
        let message = format!("the {what} is larger than {most} bytes, which is the most this gateway takes");
        HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// The JSON-RPC message that says so, to the request of this id.
    pub(in crate::gateway) fn answer(&self, id: Option<&str>) -> String {
        // The code that a call has if it finds no place.
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

/// The type of an answer that is one text.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
