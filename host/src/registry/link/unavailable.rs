//! Reasons why a server cannot be used.

use std::fmt;
use std::time::Duration;

use crate::config::model::Problem;
use crate::failure::{Failure, RequestError};

/// The reason why a server cannot be used.
#[derive(Debug, Clone)]
pub enum Unavailable {
    /// The server is disabled.
    Disabled,
    /// The configuration of the server has a problem.
    Problem(Problem),
    /// The connection failed.
    Failed(RequestError),
    /// The connection was lost, and restarting failed.
    RestartFailed(RequestError),
    /// The server is being restarted, which takes longer than the caller waits.
    Restarting,
    /// The server did not start while the caller waited.
    NotUp {
        /// How long the caller waited.
        after: Duration,
    },
    /// The server needs an authorization.
    NeedsAuth(RequestError),
    /// Others use the connection, so it cannot be ended.
    InUse,
    /// The registry was closed.
    Closed,
}

impl Unavailable {
    /// Converts the reason to the failure of a request to the server.
    pub fn to_failed(&self) -> RequestError {
        let failure = match self {
            Unavailable::Failed(RequestError { failure, .. })
            | Unavailable::NeedsAuth(RequestError { failure, .. }) => {
                match failure {
                    Failure::Exited(_) | Failure::Connect(_) | Failure::NoProgram(_) | Failure::NotReady { .. } => {
                        failure.clone()
                    }
                    failure if failure.wants_authorization() => failure.clone(),
                    // An error in the handshake does not answer the caller's request.
                    other => Failure::Connect(other.to_string()),
                }
            }
            Unavailable::RestartFailed(failed) => Failure::RestartFailed(failed.to_string()),
            Unavailable::Restarting => Failure::Restarting,
            Unavailable::Problem(problem) => Failure::Misconfigured(problem.to_string()),
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
            Unavailable::Disabled => f.write_str("it is disabled"),
            Unavailable::Problem(problem) => problem.fmt(f),
            Unavailable::Failed(failed) | Unavailable::NeedsAuth(failed) => failed.fmt(f),
            Unavailable::RestartFailed(failed) => write!(f, "it could not be restarted: {failed}"),
            Unavailable::Restarting => f.write_str("it is being restarted"),
            Unavailable::InUse => f.write_str("others use it"),
            Unavailable::NotUp { after } => write!(f, "it did not start within {after:?}"),
        }
    }
}
