//! The parts of an HTTP server that its connections and its control handle share.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::connections::ConnectionTable;
use super::hosts::AllowedHosts;
use super::options::HttpOptions;
use super::rate::RateLimiter;
use super::rules::{CurrentRules, HttpRules};
use super::sessions::HttpSessions;
use super::tls::Certificate;
use super::tokens::Authenticator;
use crate::gateway::load::LoadLimiter;

/// The parts of an HTTP server.
pub(super) struct ServerParts {
    /// The bound address.
    pub(super) address: SocketAddr,
    pub(super) rules: Arc<CurrentRules>,
    pub(super) load: Arc<LoadLimiter>,
    pub(super) connections: Arc<ConnectionTable>,
    pub(super) sessions: Arc<HttpSessions>,
    pub(super) certificate: Option<Arc<Certificate>>,
    /// The options of the last change.
    pub(super) requested: Mutex<HttpOptions>,
}

impl ServerParts {
    pub(super) fn new(
        address: SocketAddr,
        hosts: AllowedHosts,
        certificate: Option<Arc<Certificate>>,
        authenticator: Authenticator,
        options: HttpOptions,
    ) -> Arc<Self> {
        let several = authenticator.has_several_principals();
        let limits = options.limits.clone();
        let load = LoadLimiter::new(&limits, several);
        let connections = ConnectionTable::new(load.clone(), limits.max_connections, several);
        let rate_limiter = options.rate.map(|rate| Arc::new(RateLimiter::new(rate)));
        let rules = CurrentRules::new(HttpRules { limits, hosts, authenticator, rate_limiter });
        let sessions = HttpSessions::new(rules.clone(), load.clone());
        let requested = Mutex::new(options);
        Arc::new(ServerParts { address, rules, load, connections, sessions, certificate, requested })
    }
}
