//! What a message is, and where its parts are in its text: the id, the method, the params or the result stay as they were
//! written.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::code::{INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR};
use super::params::{Params, range_within};
use crate::failure::{Failure, RequestError, RpcError};
use crate::json::{self, JsonObject, scan};
use crate::transport::RequestId;

/// A message, as it arrived.
#[derive(Debug)]
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
    Unreadable(Unreadable),
}

impl Message {
    /// Reads a text.
    pub fn read(text: String) -> Self {
        let read = match is_batch(&text) {
            true => parts_of_batch(&text).map(Read::Batch),
            false => read(&text),
        };
        match read {
            Ok(Read::Request { id, method, params }) => Message::Request(Request { text, id, method, params }),
            Ok(Read::Notification { method, params, null_id }) => {
                Message::Notification(Notification { text, method, params, null_id })
            }
            Ok(Read::Response { id, outcome, version }) => {
                Message::Response(Response { text, id, outcome, has_version: version })
            }
            Ok(Read::Batch(parts)) => Message::Batch(Batch { text, parts }),
            Err(reason) => Message::Unreadable(Unreadable { text, reason }),
        }
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
        params.meta(text).and_then(JsonObject::read).is_some_and(|meta| meta.get(name).is_some())
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
            | Message::Unreadable(Unreadable { text, .. }) => text,
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
    method: Name,
    params: Params,
}

impl Request {
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
        self.method.text(&self.text)
    }

    /// The params, as they were written; an empty object where there are none.
    pub fn params(&self) -> &str {
        self.params.all(&self.text).unwrap_or("{}")
    }

    /// The `_meta` of the params; `None` where there is none or it is not an object.
    pub fn meta(&self) -> Option<JsonObject> {
        self.params.meta(&self.text).and_then(JsonObject::read)
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
    method: Name,
    params: Params,
    null_id: bool,
}

impl Notification {
    /// The method.
    pub fn method(&self) -> &str {
        self.method.text(&self.text)
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
    has_version: bool,
}

impl Response {
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
        let Response { text, outcome, .. } = self;
        outcome.map(|result| Reply { text, result })
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
pub struct Unreadable {
    text: String,
    reason: Reason,
}

enum Reason {
    /// It is not JSON; where the parser gave up.
    Json { why: String, place: String },
    /// It is JSON, but not JSON-RPC.
    Rpc(String),
}

impl Unreadable {
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it cannot be read. It may quote the text.
    pub fn why(&self) -> &str {
        match &self.reason {
            Reason::Json { why, .. } | Reason::Rpc(why) => why,
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
        #[derive(Deserialize)]
        struct Version {
            #[serde(default)]
            jsonrpc: Option<serde::de::IgnoredAny>,
        }
        let text = &self.text;
        let is_response = match serde_json::from_str::<Version>(text) {
            Ok(Version { jsonrpc }) => jsonrpc.is_some(),
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
}

impl Reply {
    /// The reply with this JSON text.
    pub(crate) fn new(json: impl Into<String>) -> Self {
        let text = json.into();
        Reply { result: 0..text.len(), text }
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
        serde_json::from_str(self.json()).map_err(broken)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply of {} bytes", self.result.len())
    }
}

/// A name in a text: nearly always a range of it, otherwise what its escapes mean.
enum Name {
    Plain(Range<usize>),
    Escaped(String),
}

impl Name {
    fn text<'a>(&'a self, text: &'a str) -> &'a str {
        match self {
            Name::Plain(range) => &text[range.clone()],
            Name::Escaped(name) => name,
        }
    }
}

/// A message without its text.
enum Read {
    Request { id: Range<usize>, method: Name, params: Params },
    Notification { method: Name, params: Params, null_id: bool },
    Response { id: ResponseId, outcome: Result<Range<usize>, RpcError>, version: bool },
    Batch(Vec<Message>),
}

/// Where the members of a message are that mean something.
#[derive(Default)]
struct Members {
    id: Option<Range<usize>>,
    method: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    jsonrpc: Option<Range<usize>>,
}

impl Members {
    fn find(text: &str) -> Result<Self, Reason> {
        match Members::scan(text) {
            Some(members) => Ok(members),
            None => Members::parse(text),
        }
    }

    /// Finds them in a text that is written plainly; anything else is for the parser.
    fn scan(text: &str) -> Option<Self> {
        let mut members = Members::default();
        scan::members(text, |name, place| {
            let member = match name {
                "id" => &mut members.id,
                "method" => &mut members.method,
                "params" => &mut members.params,
                "result" => &mut members.result,
                "error" => &mut members.error,
                "jsonrpc" => &mut members.jsonrpc,
                _ => return true,
            };
            // A member that is there twice is for the parser to refuse.
            member.replace(place).is_none()
        })?;
        Some(members)
    }

    fn parse(text: &str) -> Result<Self, Reason> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow, default, deserialize_with = "present")]
            id: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            method: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            params: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            result: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            error: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            jsonrpc: Option<&'a RawValue>,
        }
        let envelope: Envelope = serde_json::from_str(text).map_err(|error| Reason::of(&error))?;
        let place = |value: Option<&RawValue>| value.map(|value| range_within(text, value.get()));
        Ok(Members {
            id: place(envelope.id),
            method: place(envelope.method),
            params: place(envelope.params),
            result: place(envelope.result),
            error: place(envelope.error),
            jsonrpc: place(envelope.jsonrpc),
        })
    }
}

impl Reason {
    fn of(error: &serde_json::Error) -> Self {
        match error.classify() {
            Category::Data => Reason::Rpc(NO_MESSAGE.to_owned()),
            _ => Reason::Json {
                why: error.to_string(),
                place: format!("line {}, column {}", error.line(), error.column()),
            },
        }
    }
}

fn read(text: &str) -> Result<Read, Reason> {
    let Members { id, method, params, result, error, jsonrpc } = Members::find(text)?;
    let given = |place: &Range<usize>| text[place.clone()] != *"null";
    let null_id = id.as_ref().is_some_and(|id| !given(id));
    let id = id.filter(given);
    if let Some(method) = method.filter(given) {
        let method = name_of(text, method)?;
        let params = Params::find(text, params.filter(given));
        return Ok(match id {
            Some(id) => Read::Request { id, method, params },
            None => Read::Notification { method, params, null_id },
        });
    }
    let outcome = match (error.filter(given), result) {
        (Some(error), _) => Err(rpc_error(&text[error])),
        (None, Some(result)) => Ok(result),
        (None, None) => return Err(Reason::Rpc(NO_MESSAGE.to_owned())),
    };
    let id = id.map_or(ResponseId::Missing, |id| ResponseId::read(&text[id]));
    Ok(Read::Response { id, outcome, version: jsonrpc.is_some() })
}

fn parts_of_batch(text: &str) -> Result<Vec<Message>, Reason> {
    let parts: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| Reason::of(&error))?;
    let part = |part: &RawValue| match is_batch(part.get()) {
        false => Message::read(part.get().to_owned()),
        true => Message::Unreadable(Unreadable {
            text: part.get().to_owned(),
            reason: Reason::Rpc("a batch is not part of a batch".to_owned()),
        }),
    };
    Ok(parts.into_iter().map(part).collect())
}

fn is_batch(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

fn name_of(text: &str, place: Range<usize>) -> Result<Name, Reason> {
    if let Some(name) = text[place.clone()].strip_prefix('"').and_then(|name| name.strip_suffix('"'))
        && !name.contains('\\')
    {
        return Ok(Name::Plain(place.start + 1..place.end - 1));
    }
    let name = json::decode_string(&text[place]).map(Name::Escaped);
    name.ok_or_else(|| Reason::Rpc("its method is not a string".to_owned()))
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

/// A member that is `null` is there.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A message shows its kind and its method, and nothing that it carries.
macro_rules! debug_by {
    ($($kind:ident: $shown:expr;)*) => {$(
        impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shown: fn(&$kind) -> Cow<'_, str> = $shown;
                write!(f, concat!(stringify!($kind), " {}"), shown(self))
            }
        }
    )*};
}

debug_by! {
    Request: |request| request.method().into();
    Notification: |notification| notification.method().into();
    Response: |response| format!("{:?}", response.id).into();
    Batch: |batch| format!("{:?}", batch.parts).into();
    Unreadable: |unreadable| format!("of {} bytes", unreadable.text.len()).into();
}

const NO_MESSAGE: &str = "send an object with \"jsonrpc\", \"method\" and \"params\"";
/// How much of either end of a text is searched for an id.
const ENDS: usize = 256;

#[cfg(test)]
mod tests;
