//! OAuth with servers on the network: who gives consent, where tokens are kept, and how requests get them.
//!
//! The protocol itself is that of `rmcp`. A registry makes an [`Account`] for each server on the network that is told in
//! no other way who we are; its transport asks the account for each request. A person is needed once, to give consent:
//! `toolgate auth login` brings them, or whoever embeds this crate does, with a [`Browse`] of their own in
//! [`registry::Options`](crate::registry::Options):
//!
//! ```
//! use toolgate::oauth::{Browse, BrowseError};
//! use toolgate::transport::BoxFuture;
//!
//! struct Shown;
//!
//! impl Browse for Shown {
//!     fn redirect_uri(&self) -> String {
//!         "http://127.0.0.1:8765/callback".to_owned()
//!     }
//!
//!     fn browse<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, BrowseError>> {
//!         Box::pin(async move {
//!             println!("give your consent at {url}");
//!             // The address that the person was sent back to, or its query.
//!             Ok("?code=c&state=s".to_owned())
//!         })
//!     }
//! }
//! ```

mod account;
mod flow;
mod loopback;
mod provider;
mod store;
mod token;

use std::time::Duration;

pub use account::{Account, AuthorizationStatus};
pub use loopback::Loopback;
pub use store::TokenStore;

use crate::failure::{Failure, RequestError};
use crate::transport::BoxFuture;

/// Brings a person to where consent is given, and back.
pub trait Browse: Send + Sync + 'static {
    /// Where the person is sent back to: the same for as long as this lives, since we are registered with it.
    fn redirect_uri(&self) -> String;

    /// Brings a person to this address, and waits, within a limit of its own, until they are sent back. Gives the
    /// address that they were sent back to, or its query alone.
    fn browse<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, BrowseError>>;
}

/// Why nobody came back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrowseError {
    /// The person took too long.
    #[error("nobody came back within {0:?}")]
    TimedOut(Duration),
    /// There is no way to bring anybody there.
    #[error("{0}")]
    Impossible(String),
}

/// Why there is no authorization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// The authorization server cannot be used now, which may pass.
    #[error("the authorization server cannot be used: {0}")]
    Unreachable(String),
    /// The authorization server, or the person, said no; or what it said cannot be trusted.
    #[error("{0}")]
    Refused(String),
    /// It takes a person, and there is none here.
    #[error("a person must give consent")]
    NeedsPerson,
    /// The person did not come back.
    #[error(transparent)]
    Browse(#[from] BrowseError),
    /// What the configuration says does not work.
    #[error("{0}")]
    Settings(String),
}

impl OAuthError {
    /// The same as a failure of whatever wanted to use the server; `hint` says what a person can do.
    fn to_failed(&self, hint: &str) -> RequestError {
        RequestError::unsent(match self {
            OAuthError::Unreachable(_) => Failure::Connect(self.to_string()),
            OAuthError::NeedsPerson => Failure::NeedsAuth(hint.to_owned()),
            other => Failure::NeedsAuth(format!("{other}; {hint}")),
        })
    }
}
