//! Spans of a call: the call itself, what is decided, each request to a server, each pause before another.
//!
//! Names and attributes are those of OpenTelemetry's conventions for MCP, where it has any.

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

/// A span, which ends with this.
pub(crate) struct Span(Context);

impl Span {
    /// What is done for a request of this method, in the trace of its caller.
    pub(crate) fn begin(method: &'static str, caller: &Caller) -> Self {
        let parent =
            TraceContextPropagator::new().extract_with_context(&Context::current(), &IncomingTrace::of(&caller.meta));
        let mut attributes = vec![KeyValue::new("mcp.method.name", method)];
        if method == TOOLS_CALL {
            attributes.push(KeyValue::new("gen_ai.operation.name", "execute_tool"));
        }
        Span::start(method, SpanKind::Server, attributes, &parent)
    }

    /// A step within this one.
    pub(crate) fn step(&self, name: &'static str) -> Self {
        Span::start(name, SpanKind::Internal, Vec::new(), &self.0)
    }

    /// A request to a server, and the caller as the server is to know it: the request is then the parent of what the server
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
        // The uri of a resource may say as much as arguments do, so it is no part of the name.
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
        // Where nobody collects spans, the caller's own context goes on as it came.
        if !span.0.span().is_recording() {
            return (span, Cow::Borrowed(caller));
        }
        let mut caller = caller.clone();
        TraceContextPropagator::new().inject_context(&span.0, &mut OutgoingTrace(&mut caller.meta));
        (span, Cow::Owned(caller))
    }

    /// What this was for came to an end, or failed.
    pub(crate) fn ended(&self, failed: Option<&RequestError>) {
        let Some(RequestError { failure, .. }) = failed else { return };
        let span = self.0.span();
        if let Failure::Rpc(error) = failure {
            span.set_attribute(KeyValue::new("rpc.response.status_code", error.code.to_string()));
        }
        span.set_attribute(KeyValue::new("error.type", kind(failure)));
        span.set_status(Status::error(kind(failure)));
    }

    /// The call came to this.
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
            // The conventions have one word for a tool that says itself that it failed.
            let kind = if result.code == Code::ToolError { "tool_error" } else { result.code.name() };
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(kind));
        }
    }

    /// A person was asked, and the call comes again with the answer: whoever counts calls must not count this one.
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

/// What kind of failure it is, in one word.
fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Cancelled => "cancelled",
        Failure::Timeout { .. } => "timeout",
        Failure::Connect(_) | Failure::NoProgram(_) => "connect",
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
        Failure::NeedsAuth(_) => "needs_auth",
    }
}

/// The name of the tool or prompt that a request is about.
fn name_in(params: &str) -> Option<String> {
    let name = JsonObject::read(params)?.remove("name")?;
    serde_json::from_str(name.get()).ok()
}

/// The trace context that a caller told.
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

/// Where a server is told the trace context.
struct OutgoingTrace<'a>(&'a mut JsonObject);

impl Injector for OutgoingTrace<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty state says nothing, and some do not know it.
        if !value.is_empty() {
            self.0.set(key, &value);
        }
    }
}

const TOOLS_CALL: &str = "tools/call";
