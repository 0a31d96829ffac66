//! Calls as spans of a trace, where the feature `otel` is on; without it nothing is done and nothing is built in.
//!
//! A call continues the trace of its caller (`traceparent` in the caller's `_meta`), and each request to a server carries
//! the span that made it. No span has arguments or results in it.

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
