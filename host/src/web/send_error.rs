//! Why a request got no response.

use hyper_util::client::legacy;
use reqwest::Url;

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// A request with TLS or through a proxy failed, or the request is not valid.
    #[error(transparent)]
    General(#[from] reqwest::Error),
    /// A request without TLS and proxy failed.
    #[error("{error}")]
    Direct {
        /// The URL of the request.
        url: Box<Url>,
        /// The error.
        #[source]
        error: legacy::Error,
    },
    /// The server sent interim responses without end.
    #[error("it sends interim responses (1xx) without end, and no answer")]
    TooManyInterim {
        /// The URL of the request.
        url: Box<Url>,
    },
}

impl SendError {
    /// Returns the URL of the request, if it is known.
    pub(super) fn url(&self) -> Option<&Url> {
        match self {
            SendError::General(error) => error.url(),
            SendError::Direct { url, .. } | SendError::TooManyInterim { url } => Some(url),
        }
    }

    /// Reports whether there was no connection.
    pub(super) fn is_connect(&self) -> bool {
        match self {
            SendError::General(error) => error.is_connect(),
            SendError::Direct { error, .. } => error.is_connect(),
            SendError::TooManyInterim { .. } => false,
        }
    }

    /// Reports whether the request itself is not valid.
    pub(super) fn is_builder(&self) -> bool {
        matches!(self, SendError::General(error) if error.is_builder())
    }

    /// Reports whether connecting took too long.
    pub(super) fn is_timeout(&self) -> bool {
        match self {
            SendError::General(error) => error.is_timeout(),
            SendError::Direct { error, .. } => {
                std::error::Error::source(error).is_some_and(|cause| cause.is::<ConnectTimeout>())
            }
            SendError::TooManyInterim { .. } => false,
        }
    }

    /// Returns the error of the pool of connections, if the request got so far.
    pub(super) fn pool_error(&self) -> Option<&legacy::Error> {
        match self {
            SendError::General(error) => std::error::Error::source(error)?.downcast_ref(),
            SendError::Direct { error, .. } => Some(error),
            SendError::TooManyInterim { .. } => None,
        }
    }
}

/// The error for a connection that was not there in time.
#[derive(Debug, thiserror::Error)]
#[error("connecting took too long")]
pub(super) struct ConnectTimeout;

/// An error of any kind.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
