//! Which of the messages in an exchange is its answer, told without reading more than need be.

use std::fmt;

use reqwest::Response;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::failure::HttpError;
use crate::json::LossyString;
use crate::transport::RequestId;
use crate::transport::web::body::{self, BodyKind};
use crate::transport::web::{self, WebClient};

/// What a text in an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// No message: a sign of life, or a line of some log.
    Noise,
    /// A message, or what is meant as the answer and is none.
    Message,
    /// The answer to the request, or a batch with it.
    Response,
}

/// What this text is to the request. An error without an id answers its exchange.
pub(super) fn classify(text: &str, id: RequestId) -> MessageKind {
    let mut found = MessageKind::Noise;
    let mut json = serde_json::Deserializer::from_str(text);
    // Reading stops with an error as soon as the answer is known; what is not JSON is none.
    let _ = ResponseSearch { id, found: &mut found, nested: false }.deserialize(&mut json);
    found
}

struct ResponseSearch<'a> {
    id: RequestId,
    found: &'a mut MessageKind,
    nested: bool,
}

impl<'de> DeserializeSeed<'de> for ResponseSearch<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ResponseSearch<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.nested {
            return Err(A::Error::custom("a batch in a batch"));
        }
        while items.next_element_seed(ResponseSearch { id: self.id, found: &mut *self.found, nested: true })?.is_some()
        {
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (mut id, mut result, mut error, mut method, mut named) = (IdMatch::Missing, false, false, false, false);
        while let Some(field) = fields.next_key::<Field>()? {
            match field {
                Field::Id => id = fields.next_value::<Id>()?.compare(self.id),
                Field::Result => result = true,
                Field::Error => error = true,
                Field::Method => method = true,
                Field::Jsonrpc => named = true,
                Field::Other => {}
            }
            if id == IdMatch::Ours && (result || error) && !method {
                *self.found = MessageKind::Response;
                return Err(A::Error::custom("found"));
            }
            if field != Field::Id {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        if id == IdMatch::Missing && error && !method {
            *self.found = MessageKind::Response;
        } else if *self.found == MessageKind::Noise && (method || result || error || named && id == IdMatch::Ours) {
            *self.found = MessageKind::Message;
        }
        Ok(())
    }
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Field {
    Id,
    Result,
    Error,
    Method,
    Jsonrpc,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
    None(()),
    Other(IgnoredAny),
}

/// Whom an answer is for.
#[derive(PartialEq, Eq)]
enum IdMatch {
    /// The request in question.
    Ours,
    /// It does not say.
    Missing,
    /// Another.
    Other,
}

impl Id {
    fn compare(&self, ours: RequestId) -> IdMatch {
        match self {
            Id::Number(id) if *id == ours => IdMatch::Ours,
            Id::Text(id) if id.parse() == Ok(ours) => IdMatch::Ours,
            Id::None(()) => IdMatch::Missing,
            _ => IdMatch::Other,
        }
    }
}

/// An answer that is not a success.
pub(in crate::transport) struct ErrorResponse {
    /// The answer as an HTTP error.
    pub(in crate::transport) error: HttpError,
    /// Its body, where that is a JSON-RPC error.
    message: Option<String>,
    id: Option<Id>,
}

impl ErrorResponse {
    /// The JSON-RPC error of this very request, which is its answer; or the HTTP error, which concerns the whole session.
    pub(in crate::transport) fn answer_to(self, id: RequestId) -> Result<String, HttpError> {
        let whose = self.id.as_ref().map_or(IdMatch::Missing, |found| found.compare(id));
        let for_session = match (self.error.status, whose) {
            (401 | 403 | 429, _) => true,
            // An error for this very request is the server's answer to it, also where the server calls it its own fault.
            (_, IdMatch::Ours) => false,
            (500.., _) => true,
            // Python's servers invent an id where they refuse what they have not read.
            (_, IdMatch::Other) => true,
            (400 | 404, IdMatch::Missing) => self.error.session,
            // No POST is taken at this address, whatever it says.
            (status, IdMatch::Missing) => status == 405,
        };
        self.message.filter(|_| !for_session).ok_or(self.error)
    }
}

/// Reads the body of an answer that is not a success. `session` says whether the request carried a session id.
pub(in crate::transport) async fn read_error(mut response: Response, session: bool, web: &WebClient) -> ErrorResponse {
    #[derive(Deserialize)]
    struct Message {
        /// Other JSON may have an `error` too, such as a framework's page for a path that there is not.
        #[serde(rename = "jsonrpc")]
        _jsonrpc: String,
        id: Option<Id>,
        error: Reason,
    }
    #[derive(Deserialize)]
    struct Reason {
        #[serde(default)]
        message: LossyString,
    }
    let max = match body::body_kind(&response) {
        BodyKind::Json | BodyKind::Unspecified => web.max_message_bytes().min(ERROR),
        BodyKind::Events | BodyKind::Other(_) => web::BODY,
    };
    let text = body::beginning(&mut response, max).await;
    match serde_json::from_str::<Message>(&text) {
        Ok(Message { id, error, .. }) => {
            let error = web.http_error(&response, session, error.message.into());
            ErrorResponse { error, message: Some(text), id }
        }
        Err(_) => ErrorResponse { error: web.http_error(&response, session, text), message: None, id: None },
    }
}

/// The largest error that is read.
const ERROR: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_told_from_other_messages() {
        use MessageKind::{Message, Noise, Response};
        let check = |text: &str, expected: MessageKind| assert_eq!(classify(text, 7), expected, "{text}");
        check(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Response);
        check(r#"{"result":{"id":8},"id":7}"#, Response);
        check(r#"{"id":"7","error":{"code":1,"message":"x"}}"#, Response);
        check(r#"{"error":{"code":1},"id":null}"#, Response);
        check(r#"{"error":{"code":1}}"#, Response);
        check(r#"[{"id":1,"result":1},{"id":7,"result":1}]"#, Response);
        check(r#"{"id":8,"result":{}}"#, Message);
        check(r#"{"id":8,"error":{}}"#, Message);
        check(r#"{"id":-7,"result":{}}"#, Message);
        check(r#"{"id":7,"method":"ping"}"#, Message);
        check(r#"{"method":"x","params":{"id":7,"result":1}}"#, Message);
        check(r#"{"result":{}}"#, Message);
        check(r#"[[{"id":7,"result":1}]]"#, Noise);
        check(r#"[]"#, Noise);
        check("nonsense", Noise);
        check(r#"{"id":7,"result":"#, Response);
        check(r#"{"id":{"a":[1]},"result":1}"#, Message);
        // What is meant as the answer, though it is none.
        check(r#"{"jsonrpc":"2.0","id":7}"#, Message);
        check(r#"{"jsonrpc":"2.0","id":8}"#, Noise);
        check(r#"{"id":7,"level":"info"}"#, Noise);
        check(r#"{"level":"info"}"#, Noise);
        check(r#"[{"level":"info"},{"method":"x"}]"#, Message);
        check(r#"{"result":{"a":"#, Noise);
    }
}
