//! Changes an HTTP server while it runs.

use std::sync::Arc;

use super::context::ServerParts;
use super::error::HttpServerError;
use super::hosts::AllowedHosts;
use super::options::HttpOptions;
use super::rate::RateLimiter;
use super::rules::HttpRules;
use super::tls;
use super::widening::refuse_wider;
use crate::lock::lock;

/// A handle that changes an HTTP server while it runs.
#[derive(Clone)]
pub struct HttpControl(pub(super) Arc<ServerParts>);

/// A change that has been checked and can be applied.
pub struct PreparedChange {
    control: HttpControl,
    options: HttpOptions,
    hosts: AllowedHosts,
    certificate: Option<tls::LoadedCertificate>,
}

/// The outcome of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedChange {
    /// The requested settings that take effect only after a restart.
    pub needs_restart: Vec<&'static str>,
    /// How many sessions ended because their principal no longer has a token.
    pub ended_sessions: usize,
}

impl HttpControl {
    /// Checks whether the server can change to these options, and changes nothing yet.
    ///
    /// Refuses options that would open the server wider: no tokens, no TLS, a more reachable address, more hosts or
    /// origins.
    pub fn prepare(&self, options: HttpOptions) -> Result<PreparedChange, HttpServerError> {
        let parts = &*self.0;
        if options.tokens.is_empty() && !parts.address.ip().to_canonical().is_loopback() {
            return Err(HttpServerError::Unprotected { address: parts.address });
        }
        let hosts = AllowedHosts::parse(&options.hosts)?;
        let requested = lock(&parts.requested);
        refuse_wider(&requested, &parts.rules.get().hosts, parts.certificate.is_some(), &options)?;
        let moved = requested.tls != options.tls;
        let files = options.tls.clone().filter(|_| moved && parts.certificate.is_some());
        let certificate = files.map(tls::LoadedCertificate::read).transpose()?;
        Ok(PreparedChange { control: self.clone(), options, hosts, certificate })
    }
}

impl PreparedChange {
    /// Applies the change, starting with the next request.
    pub fn apply(self) -> AppliedChange {
        let PreparedChange { control, options, hosts, certificate } = self;
        let parts = &*control.0;
        let mut requested = lock(&parts.requested);
        let mut applied = AppliedChange::default();
        if requested.address != options.address {
            applied.needs_restart.push("the address");
        }
        if parts.certificate.is_some() != options.tls.is_some() {
            applied.needs_restart.push("TLS on or off");
        }
        if let (Some(own), Some(new)) = (&parts.certificate, certificate) {
            own.replace(new);
        }
        let rate_limiter = match requested.rate == options.rate {
            true => parts.rules.get().rate_limiter.clone(),
            false => options.rate.map(|rate| Arc::new(RateLimiter::new(rate, requested.store.clone()))),
        };
        let authenticator = parts.rules.get().authenticator.with(options.tokens.clone());
        let (limits, on_store_failure) = (options.limits.clone(), options.on_store_failure);
        let rules = Arc::new(HttpRules { limits, hosts, authenticator, rate_limiter, on_store_failure });
        let several = rules.authenticator.has_several_principals();
        parts.load.set(&options.limits, several);
        parts.connections.set(options.limits.max_connections, several);
        parts.rules.set(Arc::clone(&rules));
        applied.ended_sessions = parts.sessions.end_those(|principal| !rules.authenticator.has_principal(principal));
        // Keep the old address and store, so that each reload reports again that a restart is needed.
        *requested = HttpOptions { address: requested.address, store: requested.store.clone(), ..options };
        applied
    }
}
