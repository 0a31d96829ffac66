//! The result of an operation of `eval`: JSON, or an error.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::format_chain;
use crate::logic::LogicError;
use crate::logic::types::naming::NameProblem;
use crate::logic::types::{arguments, content, execution, filtering, masking, naming, reading};
use crate::words::{ErrorText, NamedCase};

/// The result of an operation as JSON, or its error.
pub(super) type OpResult = Result<Box<RawValue>, OpError>;

/// The error of an operation, as its line shows it.
#[derive(Debug, Serialize)]
pub(super) struct OpError {
    error: String,
    code: &'static str,
    /// The notes of the decision, if there was one.
    trace: Vec<String>,
}

impl OpError {
    /// The line is not a question, for the reason in the text.
    pub(super) fn invalid_line(error: String) -> Self {
        OpError { error, code: "invalid-line", trace: Vec::new() }
    }
}

impl From<String> for OpError {
    fn from(text: String) -> Self {
        OpError::invalid_line(text)
    }
}

impl From<LogicError> for OpError {
    fn from(error: LogicError) -> Self {
        OpError { error: format_chain(&error), code: execution::Code::Internal.name(), trace: Vec::new() }
    }
}

/// A call that ended before it was sent.
impl From<execution::ToolResult> for OpError {
    fn from(result: execution::ToolResult) -> Self {
        OpError { error: result.text, code: result.code.name(), trace: result.trace }
    }
}

impl<E: ErrorCode> From<E> for OpError {
    fn from(error: E) -> Self {
        OpError { error: error.error_text(), code: error.code(), trace: Vec::new() }
    }
}

/// An error of the component with a code for programs.
pub(super) trait ErrorCode: ErrorText {
    /// Returns the code, spelled as the codes of results are.
    fn code(&self) -> &'static str;
}

impl ErrorCode for naming::NameError {
    fn code(&self) -> &'static str {
        match self.problem {
            NameProblem::InvalidName => execution::Code::InvalidName.name(),
            NameProblem::UnknownServer => execution::Code::UnknownServer.name(),
            NameProblem::UnknownTool => execution::Code::UnknownTool.name(),
            NameProblem::Ambiguous => "ambiguous-name",
        }
    }
}

/// Gives all errors of a type one code.
macro_rules! codes {
    ($($type:ty = $code:expr,)*) => {
        $(impl ErrorCode for $type {
            fn code(&self) -> &'static str {
                $code
            }
        })*
    };
}

codes! {
    arguments::Refusal = execution::Code::InvalidArguments.name(),
    content::Unreadable = "unreadable-result",
    execution::SettingsError = "invalid-settings",
    filtering::AmbiguousGrant = "invalid-settings",
    masking::MaskError = "invalid-masks",
    naming::FitError = "no-name-fits",
    reading::ReadingError = "unreadable-text",
}

/// Formats a result as JSON.
pub(super) fn json_result<T: Serialize + ?Sized>(value: &T) -> OpResult {
    to_raw_value(value).map_err(|error| OpError::invalid_line(error.to_string()))
}

/// Wraps JSON of the logic, to print it unchanged.
pub(super) fn raw(json: String) -> Result<Box<RawValue>, String> {
    RawValue::from_string(json).map_err(|error| format!("not JSON: {error}"))
}
