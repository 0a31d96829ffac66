//! Finds the response of an exchange, and reads what an HTTP error says about a request.

use reqwest::Response;

use crate::failure::{HttpError, RequestError};
use crate::rpc::{Message, ResponseId};
use crate::transport::connection::{Delivery, RequestId};
use crate::transport::receiver::ClosableReceiver;
use crate::web::body::{self, BodyKind};
use crate::web::errors::http_failure;
use crate::web::{self, WebClient};

/// What a message of an exchange means for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessageKind {
    /// Not a message: a keep-alive, or a log line.
    Noise,
    /// Another message.
    Message,
    /// The response to the request, or a batch with it.
    Response,
}

/// Returns what a message means for the request with this id. An error without an id answers its exchange.
pub(super) fn classify(message: &Message, id: RequestId) -> MessageKind {
    match message {
        Message::Response(response) => match response.id() {
            ResponseId::Number(answered) if answered == id => MessageKind::Response,
            ResponseId::Missing if response.error().is_some() => MessageKind::Response,
            _ => MessageKind::Message,
        },
        Message::Request(_) | Message::Notification(_) => MessageKind::Message,
        Message::Batch(batch) => batch.parts.iter().map(|part| classify(part, id)).max().unwrap_or(MessageKind::Noise),
        // It was meant as the response, so no other will come.
        Message::Unreadable(unreadable) if unreadable.probable_id() == Some(id) => MessageKind::Response,
        Message::Unreadable(_) => MessageKind::Noise,
    }
}

/// An HTTP response that is not a success.
pub(in crate::transport) struct ErrorResponse {
    /// The response as an HTTP error.
    error: HttpError,
    /// The body, if it is a JSON-RPC error.
    message: Option<crate::rpc::Response>,
}

impl ErrorResponse {
    /// Delivers the JSON-RPC error that answers this request; else fails with the HTTP error.
    pub(in crate::transport) fn deliver(
        self,
        request: Option<RequestId>,
        receiver: &ClosableReceiver,
    ) -> Result<Delivery, RequestError> {
        let Some(id) = request else { return Err(http_failure(self.error)) };
        receiver.receive(self.answer_to(id).map_err(http_failure)?, Some(id));
        Ok(Delivery::Exchanged)
    }

    /// Returns the JSON-RPC error that answers this request, or the HTTP error, which concerns the whole session.
    fn answer_to(self, id: RequestId) -> Result<Message, HttpError> {
        let answered = self.message.as_ref().map_or(ResponseId::Missing, crate::rpc::Response::id);
        let for_session = match (self.error.status, answered) {
            (401 | 403 | 429, _) => true,
            // An error with this id is the server's answer, even with a 5xx status.
            (_, ResponseId::Number(answered)) if answered == id => false,
            (500.., _) => true,
            // Python servers invent an id when they reject a request without reading it.
            (_, ResponseId::Number(_) | ResponseId::Foreign) => true,
            (400 | 404, ResponseId::Missing) => self.error.session,
            // This URL does not accept POST at all.
            (status, ResponseId::Missing) => status == 405,
        };
        self.message.filter(|_| !for_session).map(Message::Response).ok_or(self.error)
    }
}

/// Reads the body of a response that is not a success. `session` says whether the request carried a session id.
pub(in crate::transport) async fn read_error(mut response: Response, session: bool, web: &WebClient) -> ErrorResponse {
    let max = match body::body_kind(&response) {
        BodyKind::Json | BodyKind::Unspecified => web.max_message_bytes().min(MAX_ERROR_BYTES),
        BodyKind::Events | BodyKind::Other(_) => web::errors::BODY,
    };
    let text = body::beginning(&mut response, max).await;
    match Message::read(text.clone()) {
        // Other JSON may also have an `error`, such as a framework's page for an unknown path.
        Message::Response(message) if message.has_version() && message.error().is_some() => {
            let words = message.error().map(|error| error.message.clone()).unwrap_or_default();
            ErrorResponse { error: web.http_error(&response, session, words), message: Some(message) }
        }
        _ => ErrorResponse { error: web.http_error(&response, session, text), message: None },
    }
}

/// The maximum size of an error body that is read.
const MAX_ERROR_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_is_told_from_other_messages() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, MessageKind::Response),
            (r#"{"result":{"id":8},"id":7}"#, MessageKind::Response),
            (r#"{"id":"7","error":{"code":1,"message":"x"}}"#, MessageKind::Response),
            (r#"{"error":{"code":1},"id":null}"#, MessageKind::Response),
            (r#"{"error":{"code":1}}"#, MessageKind::Response),
            (r#"[{"id":1,"result":1},{"id":7,"result":1}]"#, MessageKind::Response),
            (r#"{"id":8,"result":{}}"#, MessageKind::Message),
            (r#"{"id":8,"error":{}}"#, MessageKind::Message),
            (r#"{"id":-7,"result":{}}"#, MessageKind::Message),
            (r#"{"id":7,"method":"ping"}"#, MessageKind::Message),
            (r#"{"method":"x","params":{"id":7,"result":1}}"#, MessageKind::Message),
            (r#"{"result":{}}"#, MessageKind::Message),
            (r#"{"id":{"a":[1]},"result":1}"#, MessageKind::Message),
            (r#"[{"level":"info"},{"method":"x"}]"#, MessageKind::Message),
            // Meant as the response, though it cannot be read.
            (r#"{"id":7,"result":"#, MessageKind::Response),
            (r#"{"jsonrpc":"2.0","id":7}"#, MessageKind::Response),
            (r#"{"jsonrpc":"2.0","id":8}"#, MessageKind::Noise),
            (r#"{"id":7,"level":"info"}"#, MessageKind::Noise),
            (r#"{"level":"info"}"#, MessageKind::Noise),
            (r#"{"result":{"a":"#, MessageKind::Noise),
            ("[[{\"method\":\"x\"}]]", MessageKind::Noise),
            ("[]", MessageKind::Noise),
            ("nonsense", MessageKind::Noise),
            ("", MessageKind::Noise),
        ] {
            assert_eq!(classify(&Message::read(text.to_owned()), 7), expected, "{text}");
        }
    }
}
