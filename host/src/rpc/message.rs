//! What a message is, and where its parts are in its text: the id, the method, the params or the result stay as they were
//! written.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::code::{INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR};
use super::params::Params;
use crate::failure::{Failure, RequestError, RpcError};
use crate::json::{self, JsonObject, find_members, find_members_and_depth, read_object};
use crate::transport::RequestId;

/// A message, as it arrived.
pub enum Message {
    /// It wants an answer.
    Request(Request),
    /// It wants none.
    Notification(Notification),
    /// It answers a request.
    Response(Response),
    /// Several messages in one text, which MCP had up to 2025-03-26.
    Batch(Batch),
    /// The text is not a message.
    Unreadable(UnreadableMessage),
}

impl Message {
    /// Reads a text.
    pub fn read(text: String) -> Self {
        if is_batch(&text) {
            return match serde_json::from_str::<Vec<&RawValue>>(&text) {
                Ok(parts) => Message::Batch(Batch { parts: parts.into_iter().map(Message::read_part).collect(), text }),
                Err(error) => Message::unreadable(text, Reason::of(&error)),
            };
        }
        let names = ["id", "method", "params", "result", "error", "jsonrpc"];
        // The message is one level around its result.
        let ([id, method, params, result, error, jsonrpc], too_deep) =
            match find_members_and_depth(&text, names, MAX_DEPTH + 1) {
                Ok(found) => found,
                Err(error) => return Message::unreadable(text, Reason::of(&error)),
            };
        let given = |place: &Range<usize>| text[place.clone()] != *"null";
        let null_id = id.as_ref().is_some_and(|id| !given(id));
        let id = id.filter(given);
        if let Some(method) = method.filter(given) {
            let Some(method) = json::decode_string(&text[method]) else {
                return Message::unreadable(text, Reason::Rpc("its method is not a string"));
            };
            let params = Params::find(&text, params.filter(given));
            return match id {
                Some(id) => Message::Request(Request { text, id, method, params, too_deep }),
                None => Message::Notification(Notification { text, method, params, null_id, too_deep }),
            };
        }
        let outcome = match (error.filter(given), result) {
            (Some(_), _) if too_deep => Err(RpcError::new(INTERNAL_ERROR, format!("an error that is {TOO_DEEP}"))),
            (Some(error), _) => Err(rpc_error(&text[error])),
            (None, Some(result)) => Ok(result),
            (None, None) => return Message::unreadable(text, Reason::Rpc(NO_MESSAGE)),
        };
        let id = id.map_or(ResponseId::Missing, |id| ResponseId::read(&text[id]));
        Message::Response(Response { text, id, outcome, too_deep, has_version: jsonrpc.is_some() })
    }

    /// Reads a part of a batch.
    fn read_part(part: &RawValue) -> Self {
        let text = part.get().to_owned();
        match is_batch(&text) {
            false => Message::read(text),
            true => Message::unreadable(text, Reason::Rpc("a batch is not part of a batch")),
        }
    }

    fn unreadable(text: String, reason: Reason) -> Self {
        Message::Unreadable(UnreadableMessage { text, reason })
    }

    /// Whether it is to be answered; a text that is not a message is, with an error.
    pub fn wants_answer(&self) -> bool {
        match self {
            Message::Request(_) | Message::Unreadable(_) => true,
            Message::Notification(notification) => notification.null_id,
            Message::Response(_) => false,
            Message::Batch(batch) => batch.parts.iter().any(Message::wants_answer),
        }
    }

    /// Whether it is a request of this method.
    pub fn is_request_of(&self, method: &str) -> bool {
        matches!(self, Message::Request(request) if request.method() == method)
    }

    /// Whether its `_meta`, or that of a part of a batch, has a member with this name.
    pub fn has_meta(&self, name: &str) -> bool {
        let (text, params) = match self {
            Message::Request(Request { text, params, .. })
            | Message::Notification(Notification { text, params, .. }) => (text, params),
            Message::Batch(batch) => return batch.parts.iter().any(|part| part.has_meta(name)),
            Message::Response(_) | Message::Unreadable(_) => return false,
        };
        params.member(text, "_meta").and_then(JsonObject::read).is_some_and(|meta| meta.get(name).is_some())
    }

    /// The id of a request, as it was written.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Message::Request(request) => Some(request.id()),
            _ => None,
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Message::Request(Request { text, .. })
            | Message::Notification(Notification { text, .. })
            | Message::Response(Response { text, .. })
            | Message::Batch(Batch { text, .. })
            | Message::Unreadable(UnreadableMessage { text, .. }) => text,
        }
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Message::read(text)
    }
}

/// A request.
pub struct Request {
    text: String,
    id: Range<usize>,
    method: String,
    params: Params,
    too_deep: bool,
}

impl Request {
    /// Whether it is nested so deep that many readers of JSON fail on it.
    pub fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// The id, as it was written.
    pub fn id(&self) -> &str {
        &self.text[self.id.clone()]
    }

    /// Whether the id is one that MCP allows: a string or a number.
    pub fn has_good_id(&self) -> bool {
        self.id().starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The params, as they were written; an empty object where there are none.
    pub fn params(&self) -> &str {
        self.params.all(&self.text).unwrap_or("{}")
    }

    /// The `_meta` of the params; `None` where there is none or it is not an object.
    pub fn meta(&self) -> Option<JsonObject> {
        self.param("_meta").and_then(JsonObject::read)
    }

    /// The member of the params with this name, of those that tell what a request is about: `name`, `uri`, `arguments`.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.member(&self.text, name)
    }

    /// What is wrong with the params, where they cannot be read.
    pub fn params_problem(&self) -> Option<&str> {
        self.params.problem()
    }
}

/// A notification.
pub struct Notification {
    text: String,
    method: String,
    params: Params,
    null_id: bool,
    too_deep: bool,
}

impl Notification {
    /// Whether it is nested so deep that many readers of JSON fail on it.
    pub fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// The text of the message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The params, as they were written.
    pub fn params(&self) -> Option<&str> {
        self.params.all(&self.text)
    }

    /// Whether it has an id that is `null`, which no request may have.
    pub fn has_null_id(&self) -> bool {
        self.null_id
    }
}

/// An answer to a request.
pub struct Response {
    text: String,
    id: ResponseId,
    outcome: Result<Range<usize>, RpcError>,
    too_deep: bool,
    has_version: bool,
}

impl Response {
    /// The text of the message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Which request it answers.
    pub fn id(&self) -> ResponseId {
        self.id
    }

    /// Whether it says that it is JSON-RPC; other JSON may have an `error` too.
    pub fn has_version(&self) -> bool {
        self.has_version
    }

    /// The error, where it is one.
    pub fn error(&self) -> Option<&RpcError> {
        self.outcome.as_ref().err()
    }

    /// The result in the memory that the message came in, or the error.
    pub fn into_outcome(self) -> Result<Reply, RpcError> {
        let Response { text, outcome, too_deep, .. } = self;
        outcome.map(|result| Reply { text, result, too_deep })
    }
}

/// Which request a response answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseId {
    /// An id that can be one of ours.
    Number(RequestId),
    /// An id that is certainly not one of ours.
    Foreign,
    /// It has none.
    Missing,
}

impl ResponseId {
    /// Some servers write the numbers that they were given as strings.
    fn read(id: &str) -> Self {
        let text = id.trim_matches('"');
        let whole = || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
        let number = text.parse().ok().or_else(|| whole().map(|number| number as RequestId));
        number.map_or(ResponseId::Foreign, ResponseId::Number)
    }
}

/// Several messages in one text.
pub struct Batch {
    /// The messages, in their order.
    pub parts: Vec<Message>,
    text: String,
}

/// A text that is not a message.
pub struct UnreadableMessage {
    text: String,
    reason: Reason,
}

enum Reason {
    /// It is not JSON; where the parser gave up.
    Json { why: String, place: String },
    /// It is JSON, but not JSON-RPC.
    Rpc(&'static str),
}

impl UnreadableMessage {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it cannot be read. It may quote the text.
    pub fn why(&self) -> &str {
        match &self.reason {
            Reason::Json { why, .. } => why,
            Reason::Rpc(why) => why,
        }
    }

    /// The error for its sender, which says where and not what: the text may hold secrets.
    pub fn error(&self) -> RpcError {
        match &self.reason {
            Reason::Json { place, .. } => RpcError::new(PARSE_ERROR, format!("this is not JSON: {place}")),
            Reason::Rpc(why) => RpcError::new(INVALID_REQUEST, format!("this is not a JSON-RPC message: {why}")),
        }
    }

    /// The id of the request that it seems to answer, so that its caller need not wait in vain. A line of a log may have an
    /// `id` too: the text must look like a response.
    pub fn probable_id(&self) -> Option<RequestId> {
        let text = &self.text;
        let is_response = match find_members(text, ["jsonrpc"]) {
            Ok([version]) => version.is_some(),
            Err(_) => [r#""jsonrpc""#, r#""result""#, r#""error""#].iter().any(|key| text.contains(key)),
        };
        if !is_response {
            return None;
        }
        let start = &text[..text.floor_char_boundary(ENDS)];
        let end = &text[text.ceil_char_boundary(text.len().saturating_sub(ENDS))..];
        [start, end].into_iter().find_map(|part| {
            let after = part.split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
            let digits = after.find(|next: char| !next.is_ascii_digit()).unwrap_or(after.len());
            after[..digits].parse().ok()
        })
    }
}

/// The `result` of a response, as the server wrote it.
///
/// It keeps the whole message and a range, so that a megabyte is not copied to be looked at.
#[derive(Clone)]
pub struct Reply {
    text: String,
    result: Range<usize>,
    too_deep: bool,
}

impl Reply {
    /// The reply with this JSON text.
    pub(crate) fn new(json: impl Into<String>) -> Self {
        let text = json.into();
        Reply { result: 0..text.len(), text, too_deep: false }
    }

    /// The same reply with another text, from which something was removed.
    pub(crate) fn with_json(&self, json: String) -> Self {
        Reply { too_deep: self.too_deep, ..Reply::new(json) }
    }

    /// Whether it is nested so deep that the component refuses it, and many readers of JSON fail on it.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// The JSON text.
    pub fn json(&self) -> &str {
        &self.text[self.result.clone()]
    }

    /// The JSON text, in the memory that the message came in.
    pub fn into_json(mut self) -> String {
        self.text.truncate(self.result.end);
        self.text.drain(..self.result.start);
        self.text
    }

    /// Reads the result as a value of some type; a result that does not fit is the server's fault.
    pub fn read<'a, T: Deserialize<'a>>(&'a self, method: &str) -> Result<T, RequestError> {
        let broken =
            |error| RequestError::sent(Failure::Protocol(format!("the result of {method} cannot be read: {error}")));
        read_object(self.json()).map_err(broken)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply of {} bytes", self.result.len())
    }
}

impl Reason {
    fn of(error: &serde_json::Error) -> Self {
        match error.classify() {
            Category::Data => Reason::Rpc(NO_MESSAGE),
            _ => Reason::Json {
                why: error.to_string(),
                place: format!("line {}, column {}", error.line(), error.column()),
            },
        }
    }
}

fn is_batch(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

fn rpc_error(text: &str) -> RpcError {
    let Some(mut error) = JsonObject::read(text) else {
        // An error of another shape is an error all the same.
        return RpcError { code: INTERNAL_ERROR, message: text.to_owned(), data: None };
    };
    let whole = |code: &str| code.parse().ok().or_else(|| code.parse::<f64>().ok().map(|code| code as i64));
    let words = |message: &RawValue| json::string_value(message).unwrap_or_else(|| message.get().to_owned());
    RpcError {
        code: error.get("code").and_then(|code| whole(code.get())).unwrap_or(INTERNAL_ERROR),
        message: error.get("message").map_or_else(|| "an error without a message".to_owned(), words),
        data: error.remove("data").filter(|data| data.get() != "null"),
    }
}

/// A message shows its kind and its method, and nothing that it carries.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request(request) => write!(f, "Request {}", request.method),
            Message::Notification(notification) => write!(f, "Notification {}", notification.method),
            Message::Response(response) => write!(f, "Response {:?}", response.id),
            Message::Batch(batch) => write!(f, "Batch {:?}", batch.parts),
            Message::Unreadable(unreadable) => write!(f, "Unreadable of {} bytes", unreadable.text.len()),
        }
    }
}

/// The most levels of a result; the component reads no more.
const MAX_DEPTH: usize = 256;
/// What is said of a message with more levels.
pub(crate) const TOO_DEEP: &str = "nested deeper than 256 levels";
const NO_MESSAGE: &str = "send an object with \"jsonrpc\", \"method\" and \"params\"";
/// How much of either end of a text is searched for an id.
const ENDS: usize = 256;

#[cfg(test)]
mod tests;
