//! Reads the era of a request, and what the client sent along with it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{ClientSession, Envelope, Negotiated, outcome};
use crate::failure::RpcError;
use crate::gateway::choice::CHOICE_META;
use crate::gateway::client::VERSION_META;
use crate::json::{self, INPUT_RESPONSES, JsonObject, REQUEST_STATE, to_raw};
use crate::lock::lock;
use crate::rpc::Request;
use crate::rpc::code::{HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION};
use crate::session::{
    CAPABILITIES, Caller, Era, Handler, InputResponse, LEGACY_VERSIONS, LogLevel, MODERN_VERSION, is_of_session,
};

/// A request with its client, its era, and what the client sent along with it.
pub(super) struct RequestContext<'a> {
    pub(super) client: &'a Arc<ClientSession>,
    pub(super) request: &'a Request,
    pub(super) envelope: &'a Envelope,
    pub(super) era: Era,
    /// The client's progress token, as it wrote it.
    pub(super) progress: Option<Box<RawValue>>,
    /// The client capabilities that servers can use.
    pub(super) capabilities: Arc<str>,
    /// The lowest level of server log messages that the client asked for.
    pub(super) log_level: Option<LogLevel>,
    /// The servers and tools that the client chooses, as it wrote them.
    pub(super) choice: Option<Box<RawValue>>,
    /// Other members of `_meta`, such as a trace context.
    meta: JsonObject,
    /// What a client of 2026-07-28 says about itself.
    client_info: Option<Box<RawValue>>,
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

impl<'a> RequestContext<'a> {
    /// Reads the context of a request; an error comes with its HTTP status.
    pub(super) fn read(
        client: &'a Arc<ClientSession>,
        request: &'a Request,
        envelope: &'a Envelope,
    ) -> Result<Self, (RpcError, u16)> {
        let bad = |text: String| (RpcError::new(INVALID_PARAMS, text), 400);
        if let Some(problem) = request.params_problem() {
            return Err(bad(format!("the params cannot be read: {problem}")));
        }
        let (method, headers) = (request.method(), envelope.headers.as_ref());
        let mut meta = request.meta().unwrap_or_default();
        let progress = meta.remove("progressToken");
        let choice = meta.remove(CHOICE_META);
        if choice.is_some() && (client.is_shared() || !matches!(method, "initialize" | "server/discover")) {
            let where_then = "send it with initialize, or in the header Toolgate-Selection";
            return Err(bad(format!("{CHOICE_META} does not apply to this request; {where_then}")));
        }
        let Some(version) = meta.remove(VERSION_META) else {
            if client.is_shared() || method == "server/discover" {
                return Err(bad(format!("_meta lacks {VERSION_META}")));
            }
            meta.retain(|name| !is_of_session(name));
            let Negotiated { capabilities, log_level, .. } = &*lock(&client.negotiated);
            let (capabilities, log_level) = (capabilities.clone().unwrap_or_else(|| "{}".into()), *log_level);
            let era = Era::Legacy;
            return Ok(RequestContext {
                client,
                request,
                envelope,
                era,
                progress,
                capabilities,
                log_level,
                choice,
                meta,
                client_info: None,
            });
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
            let supported = [&[MODERN_VERSION][..], &LEGACY_VERSIONS].concat();
            let data = Some(to_raw(&json!({"supported": supported, "requested": version})));
            let error = RpcError::new(UNSUPPORTED_VERSION, format!("unsupported protocol version {version:?}"));
            return Err((RpcError { data, ..error }, 400));
        }
        let Some(capabilities) = meta.remove(CAPABILITIES) else {
            return Err(bad(format!("_meta lacks {CAPABILITIES}")));
        };
        let client_info = meta.remove(CLIENT_INFO);
        let log_level = meta.remove(LOG_LEVEL).map(|level| level_of(level.get())).transpose().map_err(bad)?;
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
        let era = Era::Modern;
        Ok(RequestContext {
            client,
            request,
            envelope,
            era,
            progress,
            capabilities,
            log_level,
            choice,
            meta,
            client_info,
        })
    }

    /// Returns the lowest level of server log messages that the client gets while its request runs. A client of the
    /// initialize era that asked for none gets what servers send unasked; a later one gets nothing.
    pub(super) fn passed_log_level(&self) -> Option<LogLevel> {
        match self.era {
            Era::Legacy => Some(self.log_level.unwrap_or(LogLevel::Info)),
            Era::Modern => self.log_level,
        }
    }

    /// Returns the trace id of the request, for rules.
    pub(super) fn trace_id(&self) -> Option<String> {
        let caller = Caller { meta: self.meta.clone(), ..Caller::default() };
        caller.trace_id().map(str::to_owned)
    }

    /// Returns the members of `_meta` that reach the server as the client wrote them, in the order of their names, as one
    /// JSON object; `None` if there are none but those that every client sends, which say nothing about the call.
    pub(super) fn unseen_meta(&self) -> Option<String> {
        let mut members = Vec::new();
        for (name, value) in self.meta.iter() {
            if !is_harmless(name, value) {
                members.push((name.to_owned(), value.to_owned()));
            }
        }
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let members: JsonObject = members.into_iter().collect();
        (!members.is_empty()).then(|| members.to_text())
    }

    /// Returns the name of the client program, for rules.
    pub(super) fn client_name(&self) -> Option<Arc<str>> {
        match (&self.client_info, self.era) {
            (Some(info), _) => client_name(info),
            (None, Era::Legacy) => lock(&self.client.negotiated).client_name.clone(),
            (None, Era::Modern) => None,
        }
    }

    /// Reads the parameters of the request.
    pub(super) fn params<T: Deserialize<'a>>(&self) -> Result<T, RpcError> {
        let wrong = |error| format!("{} cannot be read: {error}", self.request.method());
        json::read_object(self.request.params()).map_err(|error| RpcError::new(INVALID_PARAMS, wrong(error)))
    }

    /// Returns the caller of a request to a server, who also answers the server's questions.
    pub(super) fn caller(&self, handler: &Arc<impl Handler>) -> Caller {
        let (handles_input, input) = match self.era {
            Era::Legacy => (false, InputResponse::default()),
            Era::Modern => (true, read_input(self.request.params())),
        };
        Caller {
            capabilities: Some(Arc::clone(&self.capabilities)),
            meta: self.meta.clone(),
            log_level: self.log_level,
            handler: Some(Arc::clone(handler) as _),
            handles_input,
            input,
        }
    }
}

/// Reports whether a member of `_meta` only links a call to a trace, or asks toolgate itself for something.
fn is_harmless(name: &str, value: &RawValue) -> bool {
    match name {
        "traceparent" | "tracestate" | "baggage" => json::string_value(value).is_some(),
        outcome::KEY => matches!(value.get(), "true" | "false"),
        _ => is_of_session(name),
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
    let InputParams { input_responses, request_state } = json::read_object(params).unwrap_or_default();
    InputResponse { responses: input_responses, state: request_state }
}

/// Returns the name in what a client says about itself, if it is short enough to be one.
pub(super) fn client_name(info: &RawValue) -> Option<Arc<str>> {
    let name = JsonObject::read(info.get())?.get("name").and_then(json::string_value)?;
    (name.len() <= MAX_CLIENT_NAME).then(|| name.as_str().into())
}

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The member of `_meta` with what the client says about itself.
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The maximum length of a client's name in bytes.
const MAX_CLIENT_NAME: usize = 256;
