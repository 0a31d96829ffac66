//! Why an HTTP server cannot start or change.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why a server cannot start or change.
#[derive(Debug, thiserror::Error)]
pub enum HttpServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Other machines could connect without a token.
    #[error("others can reach {address}, so clients need tokens: add gateway.tokens, or listen on 127.0.0.1 or [::1]")]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// A certificate or its key cannot be used.
    #[error("cannot use {path:?} for TLS")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// An entry of the allowed hosts is not a valid host or origin.
    #[error(
        "the allowed host {entry:?} is not valid: write `example.com`, `example.com:8443`, `https://example.com` or `*`"
    )]
    Host {
        /// The entry.
        entry: String,
    },
    /// A token cannot be sent in a header.
    #[error(
        "the token of {name:?} is empty or has characters that a header cannot carry: use visible ASCII without spaces"
    )]
    Token {
        /// The name of the token's principal.
        name: String,
    },
    /// The change would open a running server wider.
    #[error("it {how}; a running gateway is never opened wider: restart it if you want this")]
    Wider {
        /// What would be wider, as the predicate of a sentence whose subject is "it".
        how: String,
    },
}
