//! Authorization of requests to a server, and its renewal after a rejection.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderValue;

use crate::config::secrets::Secrets;
use crate::failure::{HttpError, RequestError};

/// Provides the `Authorization` of each request to one server.
pub trait Authorize: Send + Sync + 'static {
    /// Returns the credential of the next request, which goes to the server's own origin only; `None` for a request
    /// without.
    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, RequestError>>;

    /// Notes that the server accepted the authorization with this number.
    fn accepted(&self, edition: u64);

    /// Gets another authorization after the server answered with 401, or with 403 and a challenge; concurrent callers
    /// share one renewal. `Ok` means that the request may be repeated.
    fn renew<'a>(&'a self, refused: &'a HttpError) -> BoxFuture<'a, Result<(), RequestError>>;

    /// Returns the number of the current authorization, whatever its source; each new one has a higher number.
    fn edition(&self) -> u64;

    /// Returns the secrets to hide in everything about the server.
    fn secrets(&self) -> Secrets;
}

/// An authorization as a header.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The value of `Authorization`, marked as sensitive.
    pub header: HeaderValue,
    /// Counts the authorizations from 1, to tell a rejected one from a newer one.
    pub edition: u64,
}

/// A shared authorizer; two are equal if they are the same object.
#[derive(Clone)]
pub struct Authorizer(pub Arc<dyn Authorize>);

impl Deref for Authorizer {
    type Target = dyn Authorize;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Authorizer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Authorizer {}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}
