//! The state that the messages and the streams of one connection share.

use std::sync::{Arc, Mutex};

use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::Response;
use tokio::task::AbortHandle;

use crate::failure::RequestError;
use crate::lock::lock;
use crate::transport::connection::{Delivery, Receive, RequestId};
use crate::transport::receiver::ClosableReceiver;
use crate::web::address::same_origin;
use crate::web::body::{self, BodyKind};
use crate::web::errors::protocol_error;
use crate::web::{WebClient, WebRequest};

/// The state shared with the tasks.
pub(super) struct HttpShared {
    pub(super) web: WebClient,
    pub(super) receiver: ClosableReceiver,
    pub(super) state: Mutex<StreamableState>,
}

/// What a connection knows of its session.
pub(super) struct StreamableState {
    /// The headers of every POST, including the session id once there is one.
    pub(super) post: HeaderMap,
    pub(super) session: Option<HeaderValue>,
    /// The headers of the server's own stream; also used to end the session.
    pub(super) stream: ExtraHeaders,
    pub(super) listener: Option<AbortHandle>,
    /// Whether a broken stream may be resumed (the initialize era).
    pub(super) resumable: bool,
}

/// The headers of a message.
pub(super) type ExtraHeaders = Vec<(HeaderName, HeaderValue)>;

impl HttpShared {
    pub(super) fn new(web: WebClient, receiver: Arc<dyn Receive>) -> Self {
        let mut post = web.headers().clone();
        post.insert(header::CONTENT_TYPE, JSON);
        post.insert(header::ACCEPT, JSON_OR_EVENTS);
        let state = StreamableState { post, session: None, stream: Vec::new(), listener: None, resumable: true };
        HttpShared { web, receiver: ClosableReceiver::new(receiver), state: Mutex::new(state) }
    }

    pub(super) fn remember_session(&self, response: &Response) {
        let Some(id) = response.headers().get(SESSION) else { return };
        // A session id from another origin is useless, because it would not be sent there.
        if !same_origin(response.url(), self.web.address()) {
            return;
        }
        let mut state = lock(&self.state);
        if state.session.is_none() {
            let mut id = id.clone();
            id.set_sensitive(true);
            state.post.insert(SESSION, id.clone());
            state.session = Some(id);
        }
    }

    /// Opens an event stream: the server's own, or the rest of a broken answer.
    pub(super) async fn get(&self, extra: &ExtraHeaders, after: Option<&str>) -> Result<Response, RequestError> {
        let headers = || {
            let mut headers = with_extra(self.web.headers().clone(), extra);
            headers.insert(header::ACCEPT, EVENTS);
            if let Some(session) = &lock(&self.state).session {
                headers.insert(SESSION, session.clone());
            }
            if let Some(id) = after.and_then(|id| HeaderValue::try_from(id).ok()) {
                headers.insert(LAST_EVENT_ID, id);
            }
            headers
        };
        self.web.send(WebRequest::new(Method::GET, self.web.address(), &headers)).await
    }

    /// Handles an answer that is not a stream.
    pub(super) async fn whole(
        &self,
        response: Response,
        content: BodyKind,
        id: RequestId,
    ) -> Result<Delivery, RequestError> {
        if let BodyKind::Other(kind) = content {
            return Err(self.web.unexpected_kind(&kind, response).await);
        }
        let status = response.status();
        let text = body::text(response, self.web.max_message_bytes()).await?;
        let is_json = content == BodyKind::Json || text.trim_start().starts_with(['{', '[']);
        if !is_json || text.trim_ascii().is_empty() {
            let start = body::excerpt(&self.web.redact(&text));
            return Err(protocol_error(format!("answered with HTTP status {} and {start}", status.as_u16())));
        }
        self.receiver.receive(text.into(), Some(id));
        Ok(Delivery::Exchanged)
    }
}

/// Adds the headers of a message; they replace the configured ones, but not the protocol's own.
pub(super) fn with_extra(mut headers: HeaderMap, extra: &ExtraHeaders) -> HeaderMap {
    for (name, value) in extra {
        if *name != header::ACCEPT && *name != header::CONTENT_TYPE && *name != SESSION {
            headers.insert(name.clone(), value.clone());
        }
    }
    headers
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
pub(in crate::transport) const JSON_OR_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
