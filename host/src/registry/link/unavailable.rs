//! Why a server cannot be used.

use std::fmt;
use std::time::Duration;

use crate::config::model::Problem;
use crate::failure::{Failure, RequestError};

/// Why a server cannot be used.
#[derive(Debug, Clone)]
pub enum Unavailable {
    /// It is switched off.
    Disabled,
    /// The configuration of this server is not right.
    Problem(Problem),
    /// It could not be connected.
    Failed(RequestError),
    /// It was lost, and could not be connected again.
    RestartFailed(RequestError),
    /// It was lost, is being connected again, and that took longer than the caller waits.
    Restarting,
    /// It did not come up within the time that the caller waits.
    NotUp {
        /// How long that is.
        after: Duration,
    },
    /// It wants an authorization.
    NeedsAuth(RequestError),
    /// The registry was closed.
    Closed,
}

impl Unavailable {
    /// The same as a failure of whatever wanted the server.
    pub fn to_failed(&self) -> RequestError {
        let failure = match self {
            Unavailable::Failed(RequestError { failure, .. })
            | Unavailable::NeedsAuth(RequestError { failure, .. }) => {
                match failure {
                    Failure::Exited(_) | Failure::Connect(_) | Failure::NoProgram(_) | Failure::NotReady { .. } => {
                        failure.clone()
                    }
                    failure if failure.wants_authorization() => failure.clone(),
                    // An error to the handshake is no answer to what the server was wanted for.
                    other => Failure::Connect(other.to_string()),
                }
            }
            Unavailable::RestartFailed(failed) => Failure::RestartFailed(failed.to_string()),
            Unavailable::Restarting => Failure::Restarting,
            other => Failure::Connect(other.to_string()),
        };
        RequestError::unsent(failure)
    }
}

impl std::error::Error for Unavailable {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Closed => f.write_str("all connections are being closed"),
            Unavailable::Disabled => f.write_str("it is switched off"),
            Unavailable::Problem(problem) => problem.fmt(f),
            Unavailable::Failed(failed) | Unavailable::NeedsAuth(failed) => failed.fmt(f),
            Unavailable::RestartFailed(failed) => write!(f, "it could not be restarted: {failed}"),
            Unavailable::Restarting => f.write_str("it is being restarted"),
            Unavailable::NotUp { after } => write!(f, "it did not come up within {after:?}"),
        }
    }
}
