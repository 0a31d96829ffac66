//! Reports calls as OpenTelemetry spans, if the feature `otel` is on.
//!
//! A call continues the trace of its caller (`traceparent` in the caller's `_meta`), and each request to a server
//! carries the context of its span. Spans never contain arguments or results.

#[cfg(feature = "otel")]
mod export;
#[cfg(not(feature = "otel"))]
#[path = "telemetry/disabled.rs"]
mod spans;
#[cfg(feature = "otel")]
mod spans;

#[cfg(feature = "otel")]
pub use export::{ExportGuard, start};
pub(crate) use spans::Span;
