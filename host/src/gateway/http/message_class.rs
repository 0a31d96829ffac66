//! What a message is, found out without reading more of it than that: its era, and whether it wants an answer.

use std::fmt;

use http::header::HeaderName;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::refusal::{HttpRefusal, INVALID_REQUEST, PARSE_ERROR, UNSUPPORTED_VERSION};
use crate::gateway::client::McpHeaders;
use crate::json::META;
use crate::session::message::Places;

/// What a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::gateway) struct MessageClass {
    /// Something in it wants an answer.
    pub(in crate::gateway) wants_response: bool,
    /// It says its version in its `_meta`, as clients since 2026-07-28 do.
    pub(in crate::gateway) modern: bool,
    /// It opens a session.
    pub(in crate::gateway) initialize: bool,
}

impl MessageClass {
    /// Looks at a message or a batch, and says where the parts of a request are that need not be looked for again.
    pub(super) fn classify_and_locate(text: &str) -> Result<(Self, Option<Places>), HttpRefusal> {
        // Who says its version there is looked at more closely, and so is what is no request.
        let places = if META.is_in(text) { None } else { Places::find(text) };
        match places {
            Some(places) => {
                let initialize = places.method(text) == "initialize";
                Ok((MessageClass { wants_response: true, modern: false, initialize }, Some(places)))
            }
            None => MessageClass::classify(text).map(|message| (message, None)),
        }
    }

    /// Looks at a message or a batch.
    pub(in crate::gateway) fn classify(text: &str) -> Result<Self, HttpRefusal> {
        if !is_batch(text) {
            return serde_json::from_str::<Envelope>(text).map_err(|error| unreadable(&error))?.message();
        }
        let batch: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
        if batch.is_empty() {
            return Err(invalid_message());
        }
        Ok(batch.into_iter().map(MessageClass::classify_part).fold(MessageClass::default(), |sum, one| {
            // `initialize` is never part of a batch (2025-03-26, lifecycle).
            MessageClass {
                wants_response: sum.wants_response || one.wants_response,
                modern: sum.modern || one.modern,
                initialize: false,
            }
        }))
    }

    /// Looks at a part of a batch. One that is no message is answered too, by an error that says so.
    fn classify_part(text: &RawValue) -> Self {
        let read = serde_json::from_str::<Envelope>(text.get()).ok();
        read.and_then(|one| one.message().ok())
            .unwrap_or(MessageClass { wants_response: true, ..MessageClass::default() })
    }
}

/// Whether a text is a batch, if it is JSON at all.
pub(in crate::gateway) fn is_batch(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[')
}

/// Refuses a batch of a client that is of no version that has them.
pub(super) fn no_batch() -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, NO_BATCH).code(INVALID_REQUEST)
}

/// Whether an answer is an error.
pub(super) fn is_error(answer: &str) -> bool {
    serde_json::from_str::<Envelope>(answer).is_ok_and(|envelope| envelope.error.0)
}

/// What MCP puts into the headers of a request.
pub(super) fn headers(headers: &HeaderMap) -> McpHeaders {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    McpHeaders {
        version: text(&VERSION).map(str::to_owned),
        method: text(&METHOD).map(str::to_owned),
        name: text(&NAME).map(decode),
        params: params(headers),
    }
}

/// The arguments that are shown in headers, too; what is no text fits no argument.
fn params(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().filter(|(name, _)| name.as_str().starts_with(PARAM));
    shown
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

/// What the header says about the era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionClaim {
    /// Nothing.
    Missing,
    /// A version with sessions; whether it knows an event without data at the start of a stream.
    Legacy { primed: bool },
    /// 2026-07-28 or later.
    Modern,
    /// Neither.
    Unknown,
}

impl VersionClaim {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match headers.get(&VERSION).map(|value| value.as_bytes()) {
            None => VersionClaim::Missing,
            Some(b"2024-11-05" | b"2025-03-26" | b"2025-06-18") => VersionClaim::Legacy { primed: false },
            Some(b"2025-11-25") => VersionClaim::Legacy { primed: true },
            // A version of the future is answered in the way in which this era refuses versions.
            Some(version) if is_date(version) && version >= &b"2026-07-28"[..] => VersionClaim::Modern,
            Some(_) => VersionClaim::Unknown,
        }
    }

    /// Refuses what is neither era (2025-11-25, transports, protocol version header).
    pub(super) fn check_known(self) -> Result<(), HttpRefusal> {
        if self != VersionClaim::Unknown {
            return Ok(());
        }
        let message = "this MCP-Protocol-Version is not known: send 2026-07-28, or the one that initialize gave";
        Err(HttpRefusal::new(StatusCode::BAD_REQUEST, message).code(UNSUPPORTED_VERSION))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Envelope {
    id: Present,
    method: Option<Method>,
    #[serde(deserialize_with = "says_version")]
    params: bool,
    result: Present,
    error: Present,
}

impl Envelope {
    fn message(&self) -> Result<MessageClass, HttpRefusal> {
        if self.method.is_none() && !self.result.0 && !self.error.0 {
            return Err(invalid_message());
        }
        let wants_response = self.method.is_some() && self.id.0;
        let initialize = wants_response && self.method == Some(Method::Initialize);
        Ok(MessageClass { wants_response, modern: self.params, initialize })
    }
}

/// Whether a member is there, whatever it holds.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Present(true))
    }
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum Method {
    Initialize,
    #[serde(other)]
    Other,
}

fn says_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    MemberPath(&["_meta", "io.modelcontextprotocol/protocolVersion"]).deserialize(deserializer)
}

/// Whether there is a member at the end of this path; what is beside it is skipped.
#[derive(Clone, Copy)]
struct MemberPath(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for MemberPath {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.0 {
            [] => IgnoredAny::deserialize(deserializer).map(|_| true),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for MemberPath {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let (first, rest) = self.0.split_first().expect("an empty path is not visited");
        let mut found = false;
        while let Some(here) = map.next_key_seed(KeyMatcher(first))? {
            if here {
                found = map.next_value_seed(MemberPath(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
}

/// Whether a key is this one.
struct KeyMatcher(&'static str);

impl<'de> DeserializeSeed<'de> for KeyMatcher {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyMatcher {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

/// Says where, not what: the text may hold secrets.
fn unreadable(error: &serde_json::Error) -> HttpRefusal {
    if error.classify() == Category::Data {
        return invalid_message();
    }
    let place = format!("line {}, column {}", error.line(), error.column());
    HttpRefusal::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {place}")).code(PARSE_ERROR)
}

fn invalid_message() -> HttpRefusal {
    let message = "the body is not a JSON-RPC message: send an object with \"jsonrpc\", \"method\" and \"params\"";
    HttpRefusal::new(StatusCode::BAD_REQUEST, message).code(INVALID_REQUEST)
}

fn is_date(version: &[u8]) -> bool {
    version.len() == 10
        && version
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() })
}

/// Names beyond ASCII come as `=?base64?…?=` (2026-07-28, transports, headers).
fn decode(name: &str) -> String {
    use base64::Engine;
    let inner = name.strip_prefix("=?base64?").and_then(|name| name.strip_suffix("?="));
    let bytes = inner.and_then(|inner| base64::engine::general_purpose::STANDARD.decode(inner).ok());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| name.to_owned())
}

static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Why a batch is refused.
pub(in crate::gateway) const NO_BATCH: &str =
    "a batch is only for sessions of 2025-03-26 and earlier: send each message on its own";
/// How the names of headers begin that show arguments.
const PARAM: &str = "mcp-param-";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::message;

    #[test]
    fn a_message_tells_its_era_and_whether_it_asks() {
        const META: &str = r#""_meta":{"x":[1],"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let asks = MessageClass { wants_response: true, ..MessageClass::default() };
        let mut found = 0;
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(), asks),
            (r#"{"method":"tools/call","params":{"a":{"_meta":{}}},"id":"x"}"#.to_owned(), asks),
            (r#"{"method":"a","params":[1,2],"id":null}"#.to_owned(), asks),
            (r#"{"method":"a","params":"x","id":1}"#.to_owned(), asks),
            (r#"{"method":"a","params":{"_meta":7},"id":1}"#.to_owned(), asks),
            (r#"{"method":"\u0061","params":-1.5,"id":1}"#.to_owned(), asks),
            (r#"{"method":"initialize","id":1}"#.to_owned(), MessageClass { initialize: true, ..asks }),
            (r#"{"method":"initialize"}"#.to_owned(), MessageClass::default()),
            (
                format!(r#"{{"id":1,"params":{{"name":"x",{META}}},"method":"a"}}"#),
                MessageClass { modern: true, ..asks },
            ),
            (format!(r#"{{"id":1,"params":{{"name":{{{META}}}}},"method":"a"}}"#), asks),
            (r#"{"method":"notifications/initialized"}"#.to_owned(), MessageClass::default()),
            (r#"{"id":1,"result":{}}"#.to_owned(), MessageClass::default()),
            (r#"{"id":null,"error":{}}"#.to_owned(), MessageClass::default()),
            (r#" [{"method":"a"},{"id":1,"method":"initialize"}]"#.to_owned(), asks),
            (r#"[{"method":"a"},{"id":1,"result":1}]"#.to_owned(), MessageClass::default()),
            (format!(r#"[{{"id":1,"params":{{{META}}},"method":"a"}}]"#), MessageClass { modern: true, ..asks }),
            (format!(r#"[7,{{"params":{{{META}}},"method":"a"}}]"#), MessageClass { modern: true, ..asks }),
            (r#"[{"method":"a"},{"method":5}]"#.to_owned(), asks),
            ("[[]]".to_owned(), asks),
        ] {
            assert_eq!(MessageClass::classify(&text).expect(&text), expected, "{text}");
            let (looked, places) = MessageClass::classify_and_locate(&text).expect(&text);
            assert_eq!(looked, expected, "{text}");
            let Some(places) = places else { continue };
            let message::Incoming::Request { id, method, params } = message::read(&text).unwrap() else {
                panic!("{text}")
            };
            assert_eq!(places.id(&text).map(RawValue::get), Some(id.get()), "{text}");
            assert_eq!((places.method(&text), places.params(&text)), (&*method, params.map(RawValue::get)), "{text}");
            found += 1;
        }
        assert_eq!(found, 3, "plain requests are not read twice");
    }

    #[test]
    fn what_is_no_message_is_refused_without_a_word_of_it() {
        for (text, code) in [
            ("", PARSE_ERROR),
            ("{\"method\":\"a\"", PARSE_ERROR),
            ("{\"method\":\"a\"} secret", PARSE_ERROR),
            ("{}", INVALID_REQUEST),
            ("[]", INVALID_REQUEST),
            ("[1,", PARSE_ERROR),
            ("\"secret\"", INVALID_REQUEST),
            ("{\"method\":{\"secret\":1}}", INVALID_REQUEST),
            ("{\"id\":1}", INVALID_REQUEST),
            ("{\"method\":\"a\",\"method\":\"secret\"}", INVALID_REQUEST),
        ] {
            let refusal = format!("{:?}", MessageClass::classify(text).expect_err(text));
            assert!(refusal.contains(&code.to_string()) && !refusal.contains("secret"), "{text}: {refusal}");
        }
    }

    #[test]
    fn the_version_header_claims_an_era() {
        let claim =
            |version: &str| VersionClaim::of(&HeaderMap::from_iter([(VERSION.clone(), version.parse().unwrap())]));
        assert_eq!(claim("2026-07-28"), VersionClaim::Modern);
        assert_eq!(claim("2027-01-01"), VersionClaim::Modern);
        assert_eq!(claim("2025-11-25"), VersionClaim::Legacy { primed: true });
        assert_eq!(claim("2024-11-05"), VersionClaim::Legacy { primed: false });
        assert_eq!(claim("2026-07-27"), VersionClaim::Unknown);
        assert_eq!(claim("draft-2026"), VersionClaim::Unknown);
        assert_eq!(VersionClaim::of(&HeaderMap::new()), VersionClaim::Missing);
    }

    #[test]
    fn a_name_is_decoded() {
        for (name, expected) in [("add", "add"), ("=?base64?w6RkZA==?=", "ädd"), ("=?base64?!?=", "=?base64?!?=")] {
            assert_eq!(decode(name), expected);
        }
    }
}
