//! The options of an HTTP server: its address, who may connect, and its limits.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::tokens::Tokens;
use crate::config::model::StoreFailurePolicy;
use crate::gateway::limits::GatewayLimits;
pub use crate::store::RateLimit;
use crate::store::Store;

/// The options of an HTTP server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address to listen on; port 0 takes a free port.
    pub address: SocketAddr,
    /// More hosts that requests may name, such as `example.com` (any port), `example.com:8443` or `*` (any), and more
    /// origins whose pages may send requests, such as `https://app.example.com`.
    pub hosts: Vec<String>,
    /// The tokens of clients; without any, every program on this machine may connect, and no other.
    pub tokens: Tokens,
    /// The tokens of admins if `tokens` is empty; other clients may still read pages and call tools.
    pub dashboard: Tokens,
    /// The certificate for TLS.
    pub tls: Option<CertificateFiles>,
    /// The rate limit for one principal (or one peer, without tokens); `None` means no limit.
    pub rate: Option<RateLimit>,
    /// What replicas share, which counts requests for the rate limit; a change needs a restart.
    pub store: Store,
    /// What happens to requests that must be counted when the store cannot be reached.
    pub on_store_failure: StoreFailurePolicy,
    /// The limits of sizes, counts and times.
    pub limits: GatewayLimits,
}

impl HttpOptions {
    /// Creates options for this address with the default limits, without tokens and without TLS.
    pub fn new(address: SocketAddr) -> Self {
        HttpOptions {
            address,
            hosts: Vec::new(),
            tokens: Tokens::default(),
            dashboard: Tokens::default(),
            tls: None,
            rate: None,
            store: Store::default(),
            on_store_failure: StoreFailurePolicy::default(),
            limits: GatewayLimits::default(),
        }
    }
}

/// The files of a certificate, which are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and its intermediates, in PEM.
    pub certificate: PathBuf,
    /// The private key of the certificate, in PEM.
    pub key: PathBuf,
}
