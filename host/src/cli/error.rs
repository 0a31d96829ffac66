//! How a failed command ends: with a message on standard error and an exit code.

use std::io;
use std::process::ExitCode;

use crate::eval::EvalError;
use crate::failure::format_chain;
use crate::gate::GateError;
use crate::logic::LogicError;
use crate::logic::types::execution::Code;

use super::style;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// There is no such server, tool, resource or prompt.
    #[error("{0}")]
    NotFound(String),
    /// A server cannot be used.
    #[error("{0}")]
    Unavailable(String),
    /// A server answered with an error.
    #[error("{0}")]
    ServerError(String),
    /// No answer in time.
    #[error("{0}")]
    Timeout(String),
    /// A server needs authorization.
    #[error("{0}")]
    NeedsAuth(String),
    /// The tool may or may not have run.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// A signal interrupted the command.
    #[error("interrupted")]
    Interrupted,
    /// The component could not be loaded, or failed.
    #[error(transparent)]
    Logic(#[from] LogicError),
    /// The answer could not be printed.
    #[error("the answer cannot be written to standard output")]
    Output(#[source] io::Error),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Exit code: the tool or the server answered with an error.
pub(super) const REFUSED: u8 = 1;
/// Exit code: wrong usage or configuration.
pub(super) const USAGE: u8 = 2;
/// Exit code: a server cannot be used.
pub(super) const SERVER_UNAVAILABLE: u8 = 3;
/// Exit code: the tool may or may not have run.
const OUTCOME_UNKNOWN: u8 = 4;
/// Exit code: no such tool, or not allowed.
pub(super) const NO_TOOL: u8 = 5;
/// Exit code: no answer in time.
const TIMEOUT: u8 = 6;
/// Exit code: a server needs authorization.
pub(super) const NEEDS_AUTH: u8 = 7;
/// Exit code: an internal error.
pub(super) const INTERNAL: u8 = 70;
/// Exit code: a signal interrupted the command.
pub(super) const INTERRUPTED: u8 = 130;

/// Returns the exit code for the result code of a call.
pub(super) fn exit_code(code: Code) -> u8 {
    match code {
        Code::Ok => 0,
        Code::ToolError | Code::RpcError | Code::ResultTooLarge | Code::MaskingFailed => REFUSED,
        Code::InvalidArguments => USAGE,
        Code::ServerUnavailable | Code::RestartInProgress | Code::RestartFailed | Code::QueueFull => SERVER_UNAVAILABLE,
        Code::OutcomeUnknown => OUTCOME_UNKNOWN,
        Code::InvalidName | Code::UnknownServer | Code::UnknownTool | Code::NotAllowed | Code::Declined => NO_TOOL,
        Code::Timeout => TIMEOUT,
        Code::NeedsAuth => NEEDS_AUTH,
        Code::Cancelled => INTERRUPTED,
        Code::Internal => INTERNAL,
    }
}

impl CliError {
    /// Creates the error for a problem with the command line or the configuration.
    pub(super) fn usage(problem: impl ToString) -> Self {
        CliError::Usage(problem.to_string())
    }

    /// Prints the error and its causes, and returns its exit code.
    pub(super) fn report(self) -> ExitCode {
        // The reader closed the pipe because it has seen enough, which is not an error.
        if let CliError::Io(error) | CliError::Output(error) = &self
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return ExitCode::SUCCESS;
        }
        style::write_error("error", &style::clean(&format_chain(&self)));
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            CliError::Usage(_) | CliError::Io(_) => USAGE,
            CliError::NotFound(_) => NO_TOOL,
            CliError::Unavailable(_) => SERVER_UNAVAILABLE,
            CliError::ServerError(_) => REFUSED,
            CliError::Timeout(_) => TIMEOUT,
            CliError::NeedsAuth(_) => NEEDS_AUTH,
            CliError::OutcomeUnknown(_) => OUTCOME_UNKNOWN,
            CliError::Interrupted => INTERRUPTED,
            CliError::Logic(
                LogicError::BadComponent(_) | LogicError::BadFile { .. } | LogicError::Unreadable { .. },
            ) => USAGE,
            CliError::Logic(_) | CliError::Output(_) => INTERNAL,
        }
    }
}

impl From<EvalError> for CliError {
    fn from(stopped: EvalError) -> Self {
        match stopped {
            EvalError::Input(error) => CliError::Io(error),
            EvalError::Output(error) => CliError::Output(error),
        }
    }
}

impl From<GateError> for CliError {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Settings(text) => CliError::Usage(text),
            GateError::Logic(error) => CliError::Logic(error),
            // The gate closes only when the command ends, and a terminal prompt is answered at once.
            GateError::Closed | GateError::Pending => CliError::Interrupted,
        }
    }
}
