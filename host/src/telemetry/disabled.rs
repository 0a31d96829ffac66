//! Spans that do nothing, for builds without the feature `otel`.

use std::borrow::Cow;

use crate::failure::RequestError;
use crate::logic::types::execution::ToolResult;
use crate::session::{Caller, Peer};

/// A span that does nothing.
pub(crate) struct Span;

impl Span {
    pub(crate) fn begin(_: &'static str, _: &Caller) -> Self {
        Span
    }

    pub(crate) fn step(&self, _: &'static str) -> Self {
        Span
    }

    pub(crate) fn request<'a>(
        &self,
        _: &str,
        _: &str,
        _: &str,
        _: &Peer,
        caller: &'a Caller,
    ) -> (Self, Cow<'a, Caller>) {
        (Span, Cow::Borrowed(caller))
    }

    pub(crate) fn ended(&self, _: Option<&RequestError>) {}

    pub(crate) fn finished(&self, _: &ToolResult) {}

    pub(crate) fn pending(&self) {}
}
