//! The spans of a call: the call itself, its decisions, each request to a server, and each wait before a retry.
//!
//! Names and attributes follow the OpenTelemetry conventions for MCP, where there are any.

use std::borrow::Cow;

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::failure::{Failure, RequestError};
use crate::json::JsonObject;
use crate::logic::types::execution::{Code, ToolResult};
use crate::session::{Caller, Peer};
use crate::words::NamedCase;

/// A span; dropping it ends the span.
pub(crate) struct Span(Context);

impl Span {
    /// Starts the span for a request with this method, in the trace of its caller.
    pub(crate) fn begin(method: &'static str, caller: &Caller) -> Self {
        let parent =
            TraceContextPropagator::new().extract_with_context(&Context::current(), &IncomingTrace::of(&caller.meta));
        let mut attributes = vec![KeyValue::new("mcp.method.name", method)];
        if method == TOOLS_CALL {
            attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
        }
        Span::start(method, SpanKind::Server, attributes, &parent)
    }

    /// Starts the span of a step within this one.
    pub(crate) fn step(&self, name: &'static str) -> Self {
        Span::start(name, SpanKind::Internal, Vec::new(), &self.0)
    }

    /// Starts the span of a request to a server, and returns the caller with this span as the parent of what the server
    /// does.
    pub(crate) fn request<'a>(
        &self,
        server: &str,
        method: &str,
        params: &str,
        peer: &Peer,
        caller: &'a Caller,
    ) -> (Self, Cow<'a, Caller>) {
        let mut attributes = vec![
            KeyValue::new("mcp.method.name", method.to_owned()),
            KeyValue::new("mcp.protocol.version", peer.version.clone()),
            KeyValue::new("network.transport", if peer.transport == "stdio" { "pipe" } else { "tcp" }),
            KeyValue::new("toolgate.server", server.to_owned()),
        ];
        let mut name = method.to_owned();
        // The URI of a resource may reveal as much as arguments, so it is not part of the name.
        let about = match method {
            TOOLS_CALL => Some("gen_ai.tool.name"),
            "prompts/get" => Some("gen_ai.prompt.name"),
            _ => None,
        };
        if let Some((key, about)) = about.zip(name_in(params)) {
            name = format!("{method} {about}");
            attributes.push(KeyValue::new(key, about));
        }
        let span = Span::start(name, SpanKind::Client, attributes, &self.0);
        // If no spans are collected, pass on the caller's own context.
        if !span.0.span().is_recording() {
            return (span, Cow::Borrowed(caller));
        }
        let mut caller = caller.clone();
        TraceContextPropagator::new().inject_context(&span.0, &mut OutgoingTrace(&mut caller.meta));
        (span, Cow::Owned(caller))
    }

    /// Marks the span as failed if its request failed.
    pub(crate) fn ended(&self, failed: Option<&RequestError>) {
        let Some(RequestError { failure, .. }) = failed else { return };
        let span = self.0.span();
        if let Failure::Rpc(error) = failure {
            span.set_attribute(KeyValue::new("rpc.response.status_code", error.code.to_string()));
        }
        span.set_attribute(KeyValue::new("error.type", kind(failure)));
        span.set_status(Status::error(kind(failure)));
    }

    /// Adds the result of the call to the span.
    pub(crate) fn finished(&self, result: &ToolResult) {
        let span = self.0.span();
        if let Some(tool) = &result.tool {
            span.update_name(format!("{TOOLS_CALL} {}", tool.tool));
            span.set_attribute(KeyValue::new("gen_ai.tool.name", tool.tool.clone()));
            span.set_attribute(KeyValue::new("toolgate.server", tool.server.clone()));
        }
        span.set_attribute(KeyValue::new("gen_ai.tool.call.id", result.call_id.clone()));
        span.set_attribute(KeyValue::new("toolgate.code", result.code.name()));
        span.set_attribute(KeyValue::new("toolgate.attempts", i64::from(result.attempts)));
        if result.code != Code::Ok {
            // The conventions have their own word for a tool that reports an error itself.
            let kind = if result.code == Code::ToolError { "tool_error" } else { result.code.name() };
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(kind));
        }
    }

    /// Marks the call as pending: a person was asked, and the call will come again with the answer, so it must not be
    /// counted twice.
    pub(crate) fn pending(&self) {
        let span = self.0.span();
        span.update_name(format!("{TOOLS_CALL} pending"));
        span.set_attribute(KeyValue::new("toolgate.code", "pending"));
    }

    fn start(name: impl Into<Cow<'static, str>>, kind: SpanKind, attributes: Vec<KeyValue>, parent: &Context) -> Self {
        let tracer = global::tracer("toolgate");
        let builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        Span(parent.with_span(builder.start_with_context(&tracer, parent)))
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.0.span().end();
    }
}

/// Returns the kind of a failure as one word.
fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Cancelled => "cancelled",
        Failure::Timeout { .. } => "timeout",
        Failure::Stopped => "stopped",
        Failure::Connect(_) | Failure::NoProgram(_) | Failure::Misconfigured(_) => "connect",
        Failure::NotReady { .. } => "not_ready",
        Failure::Closed => "closed",
        Failure::Exited(_) => "exited",
        Failure::Abandoned(_) => "abandoned",
        Failure::Http(_) => "http",
        Failure::Rpc(_) => "rpc",
        Failure::Protocol(_) => "protocol",
        Failure::QueueFull(_) => "queue_full",
        Failure::Restarting => "restarting",
        Failure::RestartFailed(_) => "restart_failed",
        Failure::RulesUnavailable(_) => "rules_unavailable",
        Failure::NeedsAuth(_) => "needs_auth",
    }
}

/// Returns the name of the tool or prompt in the params of a request.
fn name_in(params: &str) -> Option<String> {
    let name = JsonObject::read(params)?.remove("name")?;
    serde_json::from_str(name.get()).ok()
}

/// The trace context in a caller's `_meta`.
struct IncomingTrace(Vec<(&'static str, String)>);

impl IncomingTrace {
    fn of(meta: &JsonObject) -> Self {
        let text = |name: &'static str| Some((name, serde_json::from_str(meta.get(name)?.get()).ok()?));
        IncomingTrace(["traceparent", "tracestate"].into_iter().filter_map(text).collect())
    }
}

impl Extractor for IncomingTrace {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

/// The trace context for a server, in `_meta`.
struct OutgoingTrace<'a>(&'a mut JsonObject);

impl Injector for OutgoingTrace<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty `tracestate` has no meaning, and some servers reject it.
        if !value.is_empty() {
            self.0.set(key, &value);
        }
    }
}

const TOOLS_CALL: &str = "tools/call";
