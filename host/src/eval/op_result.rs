//! The result of an operation of `eval`: JSON, or the text of an error.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::format_chain;
use crate::logic::LogicError;
use crate::words::ErrorText;

/// The result of an operation as JSON, or its error.
pub(super) type OpResult = Result<Box<RawValue>, OpError>;

/// The text of an operation's error.
#[derive(Debug)]
pub(super) struct OpError(pub String);

impl From<String> for OpError {
    fn from(text: String) -> Self {
        OpError(text)
    }
}

impl From<LogicError> for OpError {
    fn from(error: LogicError) -> Self {
        OpError(format_chain(&error))
    }
}

impl<E: ErrorText> From<E> for OpError {
    fn from(error: E) -> Self {
        OpError(error.error_text())
    }
}

/// Formats a result as JSON.
pub(super) fn json_result<T: Serialize + ?Sized>(value: &T) -> OpResult {
    to_raw_value(value).map_err(|error| OpError(error.to_string()))
}

/// Wraps JSON of the logic, to print it unchanged.
pub(super) fn raw(json: String) -> Result<Box<RawValue>, String> {
    RawValue::from_string(json).map_err(|error| format!("not JSON: {error}"))
}
