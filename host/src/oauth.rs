//! OAuth for servers on the network: how a person gives consent, where tokens are stored, and how requests get them.
//!
//! `rmcp` implements the protocol. A registry creates an [`Account`] for each server on the network that has no other
//! authentication, and the transport asks the account for a token before each request. A person must give consent once,
//! through `toolgate auth login`. If you embed this crate, set your own [`Browse`] in
//! [`RegistryOptions`](crate::registry::RegistryOptions):
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
//!             // The URL that the person was redirected to, or its query.
//!             Ok("?code=c&state=s".to_owned())
//!         })
//!     }
//! }
//! ```

mod account;
mod assertion;
mod auth_server;
mod flow;
mod loopback;
mod provider;
mod store;
mod token;

use std::time::Duration;

pub use account::{Account, AuthorizationStatus};
pub use loopback::Loopback;
pub use store::TokenStore;

use crate::transport::BoxFuture;

/// Sends a person to the consent page, and waits for the redirect.
pub trait Browse: Send + Sync + 'static {
    /// Returns the redirect URI; it must not change, because the client is registered with it.
    fn redirect_uri(&self) -> String;

    /// Sends a person to this URL and waits, within a limit of its own, for the redirect; returns the redirect's URL,
    /// or its query alone.
    fn browse<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, BrowseError>>;
}

/// The reason why the person was not redirected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrowseError {
    /// The person took too long.
    #[error("nobody gave consent within {0:?}")]
    TimedOut(Duration),
    /// The person cannot be sent to the page.
    #[error("{0}")]
    Impossible(String),
}

/// The reason why there is no authorization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// The authorization server cannot be used now; a later attempt may work.
    #[error("the authorization server cannot be used: {0}")]
    Unreachable(String),
    /// The authorization server or the person refused, or the answer cannot be trusted.
    #[error("{0}")]
    Refused(String),
    /// A person must give consent, and nobody can be asked here.
    #[error("a person must give consent")]
    NeedsPerson,
    /// The person was not redirected.
    #[error(transparent)]
    Browse(#[from] BrowseError),
    /// The configuration does not work.
    #[error("{0}")]
    Settings(String),
}
