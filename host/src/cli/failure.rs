//! How a command that could not do its work ends: a line on standard error, and an exit code.

use std::io;
use std::process::ExitCode;

use toolgate::logic::LogicError;

use super::style;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The component could not be loaded, or gave no answer.
    #[error(transparent)]
    Logic(#[from] LogicError),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Usage or configuration.
pub const USAGE: u8 = 2;
/// No such tool, or not allowed.
pub const NO_TOOL: u8 = 5;
/// A fault of ours.
const INTERNAL: u8 = 70;

impl Failure {
    /// Says what went wrong, and gives the exit code for it.
    pub fn report(self) -> ExitCode {
        // Whoever reads the output has seen enough: that is no failure.
        if let Failure::Io(error) = &self
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
        eprintln!("{}: {}", style::stderr().red("error"), style::clean(&text));
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) | Failure::Io(_) => USAGE,
            Failure::Logic(LogicError::BadComponent(_) | LogicError::Unreadable { .. }) => USAGE,
            Failure::Logic(_) => INTERNAL,
        }
    }
}
