//! How a command that could not do its work ends: a line on standard error, and an exit code.

use std::io;
use std::process::ExitCode;

use toolgate::eval::EvalError;
use toolgate::gate::GateError;
use toolgate::logic::LogicError;
use toolgate::logic::types::execution::Code;

use super::style;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// What was asked for makes no sense.
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
    /// A server wants an authorization.
    #[error("{0}")]
    NeedsAuth(String),
    /// Nobody knows whether the tool ran.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// A signal ended it.
    #[error("interrupted")]
    Interrupted,
    /// The component could not be loaded, or gave no answer.
    #[error(transparent)]
    Logic(#[from] LogicError),
    /// The answer is there and cannot be printed.
    #[error("the answer cannot be written to standard output")]
    Output(#[source] io::Error),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The tool, or the server, answered with an error.
pub const REFUSED: u8 = 1;
/// Usage or configuration.
pub const USAGE: u8 = 2;
/// A server cannot be used.
pub const SERVER_UNAVAILABLE: u8 = 3;
/// Nobody knows whether the tool ran.
const OUTCOME_UNKNOWN: u8 = 4;
/// No such tool, or not allowed.
pub const NO_TOOL: u8 = 5;
/// No answer in time.
const TIMEOUT: u8 = 6;
/// A server wants an authorization.
pub const NEEDS_AUTH: u8 = 7;
/// A fault of ours.
pub const INTERNAL: u8 = 70;
/// A signal ended it.
pub const INTERRUPTED: u8 = 130;

/// How a command ends whose call ended so.
pub fn exit_code(code: Code) -> u8 {
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
    /// Says what went wrong, and gives the exit code for it.
    pub fn report(self) -> ExitCode {
        // Whoever reads the output has seen enough: that is no failure.
        if let CliError::Io(error) | CliError::Output(error) = &self
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            return ExitCode::SUCCESS;
        }
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(&self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        style::write_stderr(format_args!("{}: {}", style::stderr().red("error"), style::clean(&text)));
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
            // Only the end of the command closes its gate, and a person at a terminal answers at once.
            GateError::Closed | GateError::Pending => CliError::Interrupted,
        }
    }
}
