//! JSON-RPC messages as text: what one is, without touching what it carries.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::{Failure, RequestError, RpcError};
use crate::json::{self, JsonObject, LongestString};
use crate::transport::RequestId;

/// The `result` of an answer, as the server wrote it.
///
/// It keeps the whole message and a range, so that a megabyte is not copied to be looked at.
#[derive(Clone)]
pub struct Reply {
    text: String,
    result: Range<usize>,
    long: LongestString,
}

impl Reply {
    /// The result that is this JSON text.
    pub(crate) fn of(json: impl Into<String>) -> Self {
        let text = json.into();
        Reply { result: 0..text.len(), text, long: LongestString::default() }
    }

    /// The JSON text.
    pub fn json(&self) -> &str {
        &self.text[self.result.clone()]
    }

    /// The longest string in the JSON text, where that is known.
    pub fn long(&self) -> LongestString {
        self.long.clone()
    }

    /// The JSON text, in the memory that the message came in.
    pub fn into_json(mut self) -> String {
        self.text.truncate(self.result.end);
        self.text.drain(..self.result.start);
        self.text
    }

    /// The result as a value of some type; what does not fit is the server's fault.
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

/// What a server sent.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// An answer to a request of ours; where in the text its result is and the longest string of that, or the error.
    Answer { id: AnswerId, outcome: Result<(Range<usize>, LongestString), RpcError> },
    /// A request to us.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A notification.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
}

/// Which request an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerId {
    /// One that can be ours.
    Number(RequestId),
    /// One that is certainly not ours.
    Foreign,
    /// It does not say.
    Missing,
}

/// Finds out what a message is.
pub fn read(text: &str) -> Result<Incoming<'_>, String> {
    // Most messages are answers, and some are long.
    if let Some((id, result, long)) = plain_answer(text) {
        let id = id.map_or(AnswerId::Missing, |id| answer_id(&text[id]));
        return Ok(Incoming::Answer { id, outcome: Ok((result, long)) });
    }
    let envelope: Envelope = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Envelope { id, method, params, result, error } = envelope;
    match (method, id) {
        (Some(method), Some(id)) => Ok(Incoming::Request { id, method: unquote(method)?, params }),
        (Some(method), None) => Ok(Incoming::Notification { method: unquote(method)?, params }),
        (None, id) => {
            let id = id.map_or(AnswerId::Missing, |id| answer_id(id.get()));
            let outcome = match (result, error) {
                (_, Some(error)) => Err(rpc_error(error)),
                (Some(result), None) => Ok((range_within(text, result.get()), LongestString::default())),
                (None, None) => return Err("it has neither a method nor a result nor an error".to_owned()),
            };
            Ok(Incoming::Answer { id, outcome })
        }
    }
}

/// Where the parts of a request are in its text, for one who reads it later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    id: Range<usize>,
    method: Range<usize>,
    params: Option<Range<usize>>,
    /// The name of what is called, in its params.
    name: Option<Range<usize>>,
    arguments: Option<Range<usize>>,
}

impl Places {
    /// Finds them, where the text is a request that is written plainly.
    pub fn find(text: &str) -> Option<Self> {
        let [mut id, mut method, mut params, mut name, mut arguments] = [const { None }; 5];
        json::scan_whole(text, LongestString::default(), |scanner| {
            scanner.object(|scanner, member| match member {
                "id" => first(&mut id, scanner.value()?),
                "method" => first(&mut method, scanner.value()?),
                "params" if scanner.is_at_object() => {
                    let object = scanner.object(|scanner, member| match member {
                        "name" => first(&mut name, scanner.value()?),
                        "arguments" => first(&mut arguments, scanner.value()?),
                        _ => scanner.value().map(drop),
                    })?;
                    first(&mut params, object)
                }
                "params" => first(&mut params, scanner.value()?),
                // It is not only a request, or no message at all.
                "result" | "error" => None,
                _ => scanner.value().map(drop),
            })
        })?;
        let given = |place| given(text, place);
        let method = plain_string(text, method?)?;
        let name = name.and_then(|name| plain_string(text, name));
        Some(Places { id: given(id)?, method, params: given(params), name, arguments: given(arguments) })
    }

    /// The id, in the text where they were found.
    pub fn id<'a>(&self, text: &'a str) -> Option<&'a RawValue> {
        serde_json::from_str(&text[self.id.clone()]).ok()
    }

    /// The method, in the text where they were found.
    pub fn method<'a>(&self, text: &'a str) -> &'a str {
        &text[self.method.clone()]
    }

    /// The params, in the text where they were found.
    pub fn params<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.params.clone().map(|place| &text[place])
    }

    /// The name of what is called and the arguments, in the text where they were found; `None` where they must be looked for.
    pub fn call<'a>(&self, text: &'a str) -> Option<(&'a str, Option<&'a str>)> {
        let name = &text[self.name.clone()?];
        Some((name, self.arguments.clone().map(|place| &text[place])))
    }
}

/// Keeps a place; one that is there twice is for the parser to refuse.
fn first(kept: &mut Option<Range<usize>>, place: Range<usize>) -> Option<()> {
    kept.replace(place).is_none().then_some(())
}

/// Where the text of a string is that is written as it is.
fn plain_string(text: &str, place: Range<usize>) -> Option<Range<usize>> {
    let inner = text[place].strip_prefix('"')?.strip_suffix('"').filter(|inner| !inner.contains('\\'))?;
    Some(range_within(text, inner))
}

/// Where the id and the result of an answer are that is written plainly, and the longest string of the result.
fn plain_answer(text: &str) -> Option<(Option<Range<usize>>, Range<usize>, LongestString)> {
    let [mut id, mut method, mut params, mut result, mut error] = [const { None }; 5];
    let long = json::scan_members(text, |name, place| {
        let kept = match name {
            "id" => &mut id,
            "method" => &mut method,
            "params" => &mut params,
            "result" => &mut result,
            "error" => &mut error,
            _ => return true,
        };
        first(kept, place).is_some()
    })?;
    let result = result.filter(|_| given(text, method).or(given(text, error)).is_none())?;
    let long = long.within(&result);
    Some((given(text, id), result, long))
}

/// A place where there is something; `null` is nothing, but for a result.
fn given(text: &str, place: Option<Range<usize>>) -> Option<Range<usize>> {
    place.filter(|place| text[place.clone()] != *"null")
}

/// The parts of a batch, where the text is one.
pub fn batch(text: &str) -> Option<Result<Vec<&RawValue>, String>> {
    text.trim_start().starts_with('[').then(|| serde_json::from_str(text).map_err(|error| error.to_string()))
}

/// Takes the answer out of the text that holds it.
pub fn reply(text: String, result: Range<usize>, long: LongestString) -> Reply {
    Reply { text, result, long }
}

/// A request as text.
pub fn request(id: RequestId, method: &str, params: &str) -> String {
    let method = &*escape(method);
    // With room for the digits of the id, the names, and the end of the line.
    let mut text = String::with_capacity(method.len() + params.len() + 80);
    // Piece by piece: the formatter would take several times as long.
    for piece in [r#"{"jsonrpc":"2.0","id":"#, &id.to_string(), r#","method":""#, method, r#"","params":"#, params, "}"]
    {
        text.push_str(piece);
    }
    text
}

/// A notification as text.
pub fn notification(method: &str, params: Option<&str>) -> String {
    let method = escape(method);
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
        None => format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#),
    }
}

/// An answer as text, with the id as the server wrote it.
pub fn answer(id: &RawValue, outcome: &Result<Box<RawValue>, RpcError>) -> String {
    match outcome {
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(RpcError { code, message, data }) => {
            let message = quote(message);
            let data = data.as_deref().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
        }
    }
}

/// A text as it stands between the quotes of a JSON string.
fn escape(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte >= b' ' && !matches!(byte, b'"' | b'\\');
    match text.bytes().all(plain) {
        true => Cow::Borrowed(text),
        false => {
            let quoted = quote(text);
            Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
        }
    }
}

/// A text as a JSON string.
pub fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A result of `null` is a result.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn unquote(method: &RawValue) -> Result<Cow<'_, str>, String> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text>(method.get()).map(|text| text.0).map_err(|_| "its method is no string".to_owned())
}

/// Some servers write the numbers that we gave them as strings.
fn answer_id(id: &str) -> AnswerId {
    let text = id.trim_matches('"');
    let whole = || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
    let number = text.parse().ok().or_else(|| whole().map(|number| number as RequestId));
    number.map_or(AnswerId::Foreign, AnswerId::Number)
}

/// The id that a text seems to have that cannot be read, so that who waits for it can be told. What neither says that it
/// is a message nor looks like an answer has none: a line of a log may have an `id` of its own.
pub fn probable_id(text: &str) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        jsonrpc: Option<serde::de::IgnoredAny>,
    }
    let meant = match serde_json::from_str::<Named>(text) {
        Ok(Named { jsonrpc }) => jsonrpc.is_some(),
        Err(_) => [r#""jsonrpc""#, r#""result""#, r#""error""#].iter().any(|key| text.contains(key)),
    };
    if !meant {
        return None;
    }
    let near_both_ends =
        [&text[..text.floor_char_boundary(ENDS)], &text[text.ceil_char_boundary(text.len().saturating_sub(ENDS))..]];
    near_both_ends.into_iter().find_map(|part| {
        let after = part.split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
        let digits = after.find(|next: char| !next.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse().ok()
    })
}

const ENDS: usize = 256;

fn rpc_error(error: &RawValue) -> RpcError {
    let Some(mut said) = JsonObject::read(error.get()) else {
        // An error of another shape is an error all the same.
        return RpcError { code: INTERNAL_ERROR, message: error.get().to_owned(), data: None };
    };
    let whole = |code: &str| code.parse().ok().or_else(|| code.parse::<f64>().ok().map(|code| code as i64));
    let words = |message: &RawValue| json::string_value(message).unwrap_or_else(|| message.get().to_owned());
    RpcError {
        code: said.get("code").and_then(|code| whole(code.get())).unwrap_or(INTERNAL_ERROR),
        message: said.get("message").map_or_else(|| "an error without a message".to_owned(), words),
        data: said.remove("data").filter(|data| data.get() != "null"),
    }
}

const INTERNAL_ERROR: i64 = -32603;

fn range_within(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(text: &str) -> (AnswerId, String) {
        match read(text).unwrap() {
            Incoming::Answer { id, outcome: Ok((range, long)) } => {
                (id, reply(text.to_owned(), range, long).into_json())
            }
            other => panic!("{other:?}"),
        }
    }

    fn error_of(text: &str) -> (AnswerId, i64, String) {
        match read(text).unwrap() {
            Incoming::Answer { id, outcome: Err(error) } => (id, error.code, error.message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_keep_every_byte_of_their_result() {
        let result = r#"{ "b":1.10,"a":123456789012345678901234567890, "x":"\u00e9" }"#;
        let text = format!(r#" {{"result": {result} ,"id":7,"jsonrpc":"2.0","extra":[1]}} "#);
        assert_eq!(result_of(&text), (AnswerId::Number(7), result.to_owned()));
    }

    #[test]
    fn ids_are_numbers_or_numbers_in_quotes_or_not_ours() {
        let rows = [
            (r#"{"id":1,"result":{}}"#, AnswerId::Number(1)),
            (r#"{"id":"1","result":{}}"#, AnswerId::Number(1)),
            (r#"{"id":"one","result":{}}"#, AnswerId::Foreign),
            (r#"{"id":-1,"result":{}}"#, AnswerId::Foreign),
            (r#"{"id":1.5,"result":{}}"#, AnswerId::Foreign),
            (r#"{"id":4.0,"result":{}}"#, AnswerId::Number(4)),
            (r#"{"id":null,"result":null}"#, AnswerId::Missing),
            (r#"{"result":null}"#, AnswerId::Missing),
        ];
        for (text, id) in rows {
            assert_eq!(result_of(text).0, id, "{text}");
        }
    }

    #[test]
    fn errors_are_read_in_every_shape() {
        let rows = [
            (r#"{"id":5,"error":{"code":-32601,"message":"Method not found"}}"#, 5, -32601, "Method not found"),
            (r#"{"id":5,"error":{"code":-1.0,"message":"m","data":"details here"},"result":{}}"#, 5, -1, "m"),
            (r#"{"id":5,"error":{}}"#, 5, INTERNAL_ERROR, "an error without a message"),
            (r#"{"id":5,"error":"broken"}"#, 5, INTERNAL_ERROR, "\"broken\""),
            (r#"{"id":5,"error":{"code":"x","message":{"a":1}}}"#, 5, INTERNAL_ERROR, r#"{"a":1}"#),
            (r#"{"id":5,"error":{"code":-32042,"message":"cut \ud83d","data":null}}"#, 5, -32042, "cut \u{fffd}"),
        ];
        for (text, id, code, message) in rows {
            assert_eq!(error_of(text), (AnswerId::Number(id), code, message.to_owned()), "{text}");
        }
        assert_eq!(error_of(r#"{"id":null,"error":{"code":-32000,"message":"m"}}"#).0, AnswerId::Missing);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for text in ["", "{", "{}", "1", r#"{"id":1}"#, r#"{"method":1}"#, r#"{"id":1,"result":{}} {}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_call_is_found_where_it_is_written_plainly_and_the_parser_has_the_rest() {
        let request = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
        let rows = [
            (
                r#"{"name":"a","arguments":{"x":[1,{"name":"b"}]},"more":{}}"#,
                Some(("a", Some(r#"{"x":[1,{"name":"b"}]}"#))),
            ),
            (r#" { "arguments" : "x" , "name" : "é" } "#, Some(("é", Some(r#""x""#)))),
            (r#"{"name":"a","arguments":null}"#, Some(("a", None))),
            (r#"{"name":"a"}"#, Some(("a", None))),
            (r#"{"name":"\u0061"}"#, None),
            (r#"{"name":1}"#, None),
            (r#"{"arguments":{}}"#, None),
            ("[1]", None),
            ("null", None),
        ];
        for (params, call) in rows {
            let text = request(params);
            let places = Places::find(&text).unwrap();
            assert_eq!(places.call(&text), call, "{text}");
            assert_eq!((places.id(&text).unwrap().get(), places.method(&text)), ("7", "tools/call"));
            assert_eq!(places.params(&text), Some(params.trim()).filter(|params| *params != "null"), "{text}");
        }
        for text in [
            request(r#"{"name":"a","name":"a"}"#),
            request(r#"{"name":"a","arguments":{},"arguments":{}}"#),
            request(r#"{"na\u006de":"a"}"#),
            request(r#"{"name":"a"},"params":{}"#),
            request(r#"{},"result":{}"#),
            r#"{"id":null,"method":"m"}"#.to_owned(),
            r#"{"id":1,"method":"\u006d"}"#.to_owned(),
            r#"{"method":"m"}"#.to_owned(),
        ] {
            assert_eq!(Places::find(&text), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_may_still_say_whose_it_is() {
        let rows = [
            (r#"{"jsonrpc":"2.0","id":4}"#, Some(4)),
            ("{\"result\":\"\u{0}\",\"id\" : 17}", Some(17)),
            (r#"{"jsonrpc":"2.0","id":"x"}"#, None),
            (r#"{"id":4,"level":"info","message":"error"}"#, None),
            (r#"{"id":4,"level":"info""#, None),
            ("{", None),
        ];
        for (text, id) in rows {
            assert_eq!(probable_id(text), id, "{text}");
        }
    }

    #[test]
    fn requests_and_notifications_are_told_apart() {
        assert!(matches!(
            read(r#"{"method":"pi\u006eg","id":"a"}"#),
            Ok(Incoming::Request { method, id, params: None }) if method == "ping" && id.get() == "\"a\""
        ));
        assert!(matches!(read(r#"{"method":"m","params":{}}"#), Ok(Incoming::Notification { params: Some(_), .. })));
        assert!(matches!(read(r#"{"method":"m","id":null}"#), Ok(Incoming::Notification { params: None, .. })));
    }

    #[test]
    fn notifications_without_params_have_none() {
        assert_eq!(notification("a/b", None), r#"{"jsonrpc":"2.0","method":"a/b"}"#);
        assert_eq!(notification("a/b", Some("{}")), r#"{"jsonrpc":"2.0","method":"a/b","params":{}}"#);
    }
}
