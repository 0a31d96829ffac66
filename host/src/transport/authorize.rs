//! Who gives requests to a server their `Authorization`, and mends it when the server does not take it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use http::HeaderValue;

use super::BoxFuture;
use crate::config::secrets::Secrets;
use crate::failure::{HttpError, RequestError};

/// Gives each request to one server its `Authorization`.
pub trait Authorize: Send + Sync + 'static {
    /// What goes with the next request, to the server's own origin alone; none is a request without.
    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, RequestError>>;

    /// The server has taken the authorization of this number.
    fn accepted(&self, edition: u64);

    /// The server has refused a request with 401, or with 403 and a challenge. Gets another authorization, once for
    /// all who ask at the same time; `Ok` says that it is worth asking the server again.
    fn renew<'a>(&'a self, refused: &'a HttpError) -> BoxFuture<'a, Result<(), RequestError>>;

    /// The number of the authorization that there is now, wherever it came from: each new one has a higher one.
    fn edition(&self) -> u64;

    /// What must not be seen in anything about the server.
    fn secrets(&self) -> Secrets;
}

/// An authorization, as a header.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The value of `Authorization`, marked as sensitive.
    pub header: HeaderValue,
    /// Counts the authorizations, from 1: so that one that was refused is known from one that came after it.
    pub edition: u64,
}

/// Somebody who gives out authorizations; two are equal if they are the same.
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
