//! Reads the era of a request, and adapts results to it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ClientRequest, ClientSession};
use crate::failure::RpcError;
use crate::gateway::client::{McpHeaders, VERSION_META};
use crate::json::{self, INPUT_RESPONSES, JsonObject, MemberFinder, REQUEST_STATE, RESULT_TYPE, to_raw};
use crate::rpc::Request;
use crate::rpc::code::{HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION};
pub use crate::session::Era;
use crate::session::{
    CAPABILITIES, Caller, InputResponse, LEGACY_VERSIONS, Listing, LogLevel, MODERN_VERSION, is_of_session,
};

/// The era of a request, and what the client sent along with it.
pub(super) struct RequestContext {
    pub(super) era: Era,
    /// The client's progress token, as it wrote it.
    pub(super) progress: Option<Box<RawValue>>,
    /// The client capabilities that servers can use.
    pub(super) capabilities: Arc<str>,
    /// The lowest level of server log messages that the client wants.
    pub(super) log_level: Option<LogLevel>,
    /// Other members of `_meta`, such as a trace context.
    meta: JsonObject,
}

/// The input for a server, as a client of 2026-07-28 sends it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct InputParams {
    #[serde(default)]
    input_responses: Option<Box<RawValue>>,
    #[serde(default)]
    request_state: Option<Box<RawValue>>,
}

impl RequestContext {
    /// Reads the context of a request; an error comes with its HTTP status.
    pub(super) fn read(
        client: &ClientSession,
        request: &Request,
        headers: Option<&McpHeaders>,
    ) -> Result<Self, (RpcError, u16)> {
        let bad = |text: String| (RpcError::new(INVALID_PARAMS, text), 400);
        if let Some(problem) = request.params_problem() {
            return Err(bad(format!("the params cannot be read: {problem}")));
        }
        let method = request.method();
        let mut meta = request.meta().unwrap_or_default();
        let progress = meta.remove("progressToken");
        let stateless = client.sink.is_none();
        let Some(version) = meta.remove(VERSION_META) else {
            if stateless || method == "server/discover" {
                return Err(bad(format!("_meta lacks {VERSION_META}")));
            }
            meta.retain(|name| !is_of_session(name));
            let session = client.session();
            let (capabilities, log_level) = (session.capabilities.clone(), session.log_level);
            let capabilities = capabilities.unwrap_or_else(|| NOTHING.into());
            return Ok(RequestContext { era: Era::Legacy, progress, capabilities, log_level, meta });
        };
        let version: String = serde_json::from_str(version.get()).unwrap_or_default();
        let mismatch = |header: &str| {
            let text = format!("the header {header} does not match the message");
            (RpcError::new(HEADER_MISMATCH, text), 400)
        };
        // Reject a request whose header and body name different versions.
        if headers.is_some_and(|headers| headers.version.as_ref() != Some(&version)) {
            return Err(mismatch("MCP-Protocol-Version"));
        }
        if version != MODERN_VERSION {
            let mut data = JsonObject::default();
            data.set("supported", &[&[MODERN_VERSION][..], &LEGACY_VERSIONS].concat());
            data.set("requested", &version);
            let error = RpcError::new(UNSUPPORTED_VERSION, format!("unsupported protocol version {version:?}"));
            return Err((RpcError { data: Some(to_raw(&data)), ..error }, 400));
        }
        let Some(capabilities) = meta.remove(CAPABILITIES) else {
            return Err(bad(format!("_meta lacks {CAPABILITIES}")));
        };
        let log_level = match meta.remove(LOG_LEVEL) {
            Some(level) => Some(level_of(level.get()).map_err(bad)?),
            None => None,
        };
        meta.retain(|name| !is_of_session(name));
        if let Some(headers) = headers {
            let name = match method {
                "tools/call" | "prompts/get" => request.param("name"),
                "resources/read" => request.param("uri"),
                _ => None,
            };
            let name = name.and_then(json::decode_string);
            let pairs = [("Mcp-Method", &headers.method, Some(method.to_owned())), ("Mcp-Name", &headers.name, name)];
            if let Some((header, ..)) = pairs.iter().find(|(_, given, wanted)| wanted.is_some() && *given != wanted) {
                return Err(mismatch(header));
            }
        }
        let capabilities = askable_capabilities(capabilities.get());
        Ok(RequestContext { era: Era::Modern, progress, capabilities, log_level, meta })
    }

    /// Returns the caller of a request to a server, who also answers the server's questions.
    pub(super) fn caller(&self, request: &Arc<ClientRequest>, params: &str) -> Caller {
        let (handles_input, input) = match self.era {
            Era::Legacy => (false, InputResponse::default()),
            Era::Modern => (true, read_input(params)),
        };
        Caller {
            capabilities: Some(Arc::clone(&self.capabilities)),
            meta: self.meta.clone(),
            log_level: self.log_level,
            handler: Some(Arc::clone(request) as _),
            handles_input,
            input,
        }
    }

    /// Adapts a server's result to the era of the client.
    pub(super) fn finish_result(&self, result: String) -> String {
        let marked = RESULT_TYPE.is_in(&result);
        match self.era {
            Era::Modern if !marked => insert(&result, r#""resultType":"complete""#),
            Era::Legacy if marked => unmarked(result),
            _ => result,
        }
    }

    /// Adapts a cacheable result to the era of the client, with how long it may be cached and by whom.
    pub(super) fn finish_cacheable(&self, result: String, cache: CacheControl) -> String {
        match self.era {
            Era::Legacy => without(result, &["resultType", "ttlMs", "cacheScope"]),
            Era::Modern if wants_input(&result) => result,
            Era::Modern => {
                let CacheControl { ttl_ms, private } = cache;
                let scope = if private { "private" } else { "public" };
                let result = without(result, &["resultType", "ttlMs", "cacheScope"]);
                insert(&result, &format!(r#""resultType":"complete","ttlMs":{ttl_ms},"cacheScope":"{scope}""#))
            }
        }
    }
}

/// How long a result may be cached, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheControl {
    pub(super) ttl_ms: u64,
    /// Whether only this client may cache it.
    pub(super) private: bool,
}

impl CacheControl {
    /// Returns the cache control of a list; without a TTL, it must not be cached.
    pub(super) fn of(listing: &Listing) -> Self {
        let ttl_ms = listing.ttl.map_or(0, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        CacheControl { ttl_ms, private: listing.private }
    }

    /// Returns the cache control of a server's result.
    pub(super) fn of_result(result: &str) -> Self {
        let said = Some(result).filter(|result| result.contains("ttlMs") || result.contains("cacheScope"));
        let said = said.and_then(JsonObject::read).unwrap_or_default();
        let ttl = said.get("ttlMs").and_then(|ttl| ttl.get().parse::<f64>().ok()).filter(|ttl| ttl.is_finite());
        let private = said.get("cacheScope").is_some_and(|scope| scope.get() == "\"private\"");
        CacheControl { ttl_ms: ttl.map_or(0, |ttl| ttl.max(0.0) as u64), private }
    }

    /// Returns the cache control of a result made of these parts; without parts, it must not be cached.
    pub(super) fn of_parts(parts: impl IntoIterator<Item = CacheControl>) -> Self {
        let both = |one: CacheControl, other: CacheControl| CacheControl {
            ttl_ms: one.ttl_ms.min(other.ttl_ms),
            private: one.private || other.private,
        };
        parts.into_iter().reduce(both).unwrap_or(CacheControl { ttl_ms: 0, private: false })
    }

    /// Makes the cache control private if clients have different views.
    pub(super) fn for_client(self, client: &ClientSession) -> Self {
        CacheControl { private: self.private || client.is_private(), ..self }
    }
}

/// Returns the client capabilities that servers behind the gateway can use, as the client wrote them.
pub(super) fn askable_capabilities(capabilities: &str) -> Arc<str> {
    let mut capabilities = JsonObject::read(capabilities).unwrap_or_default();
    capabilities.retain(|name| matches!(name, "roots" | "sampling" | "elicitation"));
    capabilities.to_text().into()
}

/// Parses a log level from a JSON string.
pub(super) fn level_of(json: &str) -> Result<LogLevel, String> {
    let known = LogLevel::ALL.map(LogLevel::name).join(", ");
    let name = serde_json::from_str::<String>(json).ok();
    name.as_deref().and_then(LogLevel::of).ok_or_else(|| format!("unknown log level {json}; there are: {known}"))
}

fn read_input(params: &str) -> InputResponse {
    // Skips the parsing of most requests, which contain no input.
    if !INPUT_RESPONSES.is_in(params) && !REQUEST_STATE.is_in(params) {
        return InputResponse::default();
    }
    let InputParams { input_responses, request_state } = serde_json::from_str(params).unwrap_or_default();
    InputResponse { responses: input_responses, state: request_state }
}

/// Reports whether a result asks the client for input, also if the member is escaped or occurs twice.
pub(super) fn wants_input(result: &str) -> bool {
    let asks = |(name, kind): (&str, &RawValue)| {
        name == "resultType" && json::string_value(kind).is_some_and(|kind| kind == "input_required")
    };
    // Skips the parsing of most results, which ask for nothing.
    (INPUT_REQUIRED.is_in(result) || json::has_escaped_ascii(result))
        && JsonObject::read(result).is_some_and(|object| object.iter().any(asks))
}

/// Removes `resultType` from a result; if it comes first, as servers write it, without parsing the rest.
fn unmarked(mut result: String) -> String {
    if result.starts_with(WHOLE) && RESULT_TYPE.after(&result).nth(1).is_none() {
        result.drain(1..WHOLE.len());
        return result;
    }
    without(result, &["resultType"])
}

/// Inserts members at the front of an object.
fn insert(object: &str, members: &str) -> String {
    let rest = object.trim_start().strip_prefix('{').unwrap_or("}").trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    format!("{{{members}{comma}{rest}")
}

/// Removes members from an object; an object without them is returned unchanged.
fn without(text: String, names: &[&str]) -> String {
    let may_have = |name: &&str| text.contains(*name);
    if !names.iter().any(may_have) {
        return text;
    }
    match JsonObject::read(&text) {
        Some(mut object) => {
            names.iter().for_each(|name| drop(object.remove(name)));
            object.to_text()
        }
        None => text,
    }
}

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
static INPUT_REQUIRED: MemberFinder = MemberFinder::new("\"input_required\"");
const WHOLE: &str = r#"{"resultType":"complete","#;
const NOTHING: &str = "{}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_dressed_for_the_era_of_the_client() {
        let of = |era| RequestContext {
            era,
            progress: None,
            capabilities: "{}".into(),
            log_level: None,
            meta: JsonObject::default(),
        };
        let (modern, legacy) = (of(Era::Modern), of(Era::Legacy));
        let cache = CacheControl { ttl_ms: 0, private: true };
        let rows = [
            (r#"{"a":1}"#, r#"{"resultType":"complete","a":1}"#, r#"{"a":1}"#),
            ("{}", r#"{"resultType":"complete"}"#, "{}"),
            (r#"{"resultType":"complete","a":1.10}"#, r#"{"resultType":"complete","a":1.10}"#, r#"{"a":1.10}"#),
            (r#"{"resultType":"x","a":1}"#, r#"{"resultType":"x","a":1}"#, r#"{"a":1}"#),
            (
                r#"{"resultType":"complete","a":{"resultType":1}}"#,
                r#"{"resultType":"complete","a":{"resultType":1}}"#,
                r#"{"a":{"resultType":1}}"#,
            ),
        ];
        for (result, for_modern, for_legacy) in rows {
            assert_eq!(modern.finish_result(result.to_owned()), for_modern);
            assert_eq!(legacy.finish_result(result.to_owned()), for_legacy);
        }
        assert_eq!(
            modern.finish_cacheable(r#"{"ttlMs":5,"tools":[]}"#.to_owned(), cache),
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#
        );
        let question = r#"{"inputRequests":{},"resultType":"input_required"}"#;
        assert_eq!(modern.finish_cacheable(question.to_owned(), cache), question);
        assert_eq!(legacy.finish_cacheable(r#"{"ttlMs":5,"tools":[]}"#.to_owned(), cache), r#"{"tools":[]}"#);
    }

    #[test]
    fn a_result_that_asks_is_known_however_it_is_spelt() {
        for (result, expected) in [
            (r#"{"resultType":"input_required"}"#, true),
            (r#"{"result\u0054ype":"input\u005frequired"}"#, true),
            (r#"{"resultType":"complete","resultType":"input_required"}"#, true),
            (r#"{"resultType":"input_required","resultType":"complete"}"#, true),
            (r#"{"resultType":"complete","content":["\"input_required\""]}"#, false),
            (r#"{"content":[{"resultType":"input_required"}]}"#, false),
        ] {
            assert_eq!(wants_input(result), expected, "{result}");
        }
    }

    #[test]
    fn a_whole_is_kept_as_long_as_its_parts_and_by_nobody_else() {
        let said = |text: &str| CacheControl::of_result(text);
        let cache = |ttl_ms, private| CacheControl { ttl_ms, private };
        assert_eq!(said(r#"{"ttlMs":1000,"cacheScope":"public","contents":[]}"#), cache(1000, false));
        assert_eq!(said(r#"{"contents":[{"text":"ttlMs"}]}"#), cache(0, false));
        assert_eq!(said(r#"{"ttlMs":-5,"cacheScope":"private"}"#), cache(0, true));
        assert_eq!(CacheControl::of_parts([cache(1000, false), cache(500, true)]), cache(500, true));
        assert_eq!(CacheControl::of_parts([]), cache(0, false));
    }
}
