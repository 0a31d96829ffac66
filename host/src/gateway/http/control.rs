//! The current rules of an HTTP server, and changing them while it runs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::HttpServerError;
use super::hosts::AllowedHosts;
use super::load::LoadLimiter;
use super::options::{GatewayLimits, HttpOptions};
use super::rate::RateLimiter;
use super::sessions::HttpSessions;
use super::tls::{self, Certificate};
use super::tokens::{Authenticator, TokenDigest};
use super::widening::refuse_wider;
use crate::gateway::client::Principal;

/// The settings of an HTTP server that can change while it runs.
pub(super) struct HttpRules {
    pub(super) limits: GatewayLimits,
    pub(super) hosts: AllowedHosts,
    pub(super) authenticator: Authenticator,
    pub(super) rate_limiter: Option<Arc<RateLimiter>>,
}

/// The rules in force; a request keeps the ones it started with.
pub(super) struct CurrentRules(watch::Sender<Arc<HttpRules>>);

impl CurrentRules {
    pub(super) fn new(rules: HttpRules) -> Arc<Self> {
        Arc::new(CurrentRules(watch::Sender::new(Arc::new(rules))))
    }

    pub(super) fn get(&self) -> Arc<HttpRules> {
        self.0.borrow().clone()
    }

    /// Waits until the token no longer belongs to the principal.
    pub(super) async fn wait_revoked(self: Arc<Self>, pass: TokenDigest, principal: Arc<Principal>) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|rules| !rules.authenticator.accepts(pass, &principal)).await;
    }
}

/// A handle that changes an HTTP server while it runs.
#[derive(Clone)]
pub struct HttpControl(Arc<Inner>);

struct Inner {
    /// The bound address.
    address: SocketAddr,
    rules: Arc<CurrentRules>,
    load: Arc<LoadLimiter>,
    sessions: Arc<HttpSessions>,
    certificate: Option<Arc<Certificate>>,
    /// The options of the last change.
    requested: Mutex<HttpOptions>,
}

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
    pub(super) fn new(
        address: SocketAddr,
        rules: Arc<CurrentRules>,
        limiter: Arc<LoadLimiter>,
        sessions: Arc<HttpSessions>,
        certificate: Option<Arc<Certificate>>,
        asked: HttpOptions,
    ) -> Self {
        HttpControl(Arc::new(Inner {
            address,
            rules,
            load: limiter,
            sessions,
            certificate,
            requested: Mutex::new(asked),
        }))
    }

    /// Checks whether the server can change to these options, and changes nothing yet.
    ///
    /// Refuses options that would open the server wider: no tokens, no TLS, a more reachable address, more hosts or
    /// origins.
    pub fn prepare(&self, options: HttpOptions) -> Result<PreparedChange, HttpServerError> {
        let inner = &*self.0;
        if options.tokens.is_empty() && !inner.address.ip().to_canonical().is_loopback() {
            return Err(HttpServerError::Unprotected { address: inner.address });
        }
        let hosts = AllowedHosts::parse(&options.hosts)?;
        refuse_wider(&inner.requested(), &inner.rules.get().hosts, inner.certificate.is_some(), &options)?;
        let moved = inner.requested().tls != options.tls;
        let files = options.tls.clone().filter(|_| moved && inner.certificate.is_some());
        let certificate = files.map(tls::LoadedCertificate::read).transpose()?;
        Ok(PreparedChange { control: self.clone(), options, hosts, certificate })
    }
}

impl Inner {
    fn requested(&self) -> MutexGuard<'_, HttpOptions> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PreparedChange {
    /// Applies the change, starting with the next request.
    pub fn apply(self) -> AppliedChange {
        let PreparedChange { control, options, hosts, certificate } = self;
        let inner = &*control.0;
        let mut asked = inner.requested();
        let mut applied = AppliedChange::default();
        if asked.address != options.address {
            applied.needs_restart.push("the address");
        }
        if inner.certificate.is_some() != options.tls.is_some() {
            applied.needs_restart.push("TLS on or off");
        }
        if let (Some(own), Some(new)) = (&inner.certificate, certificate) {
            own.replace(new);
        }
        let rate_limiter = match asked.rate == options.rate {
            true => inner.rules.get().rate_limiter.clone(),
            false => options.rate.map(|rate| Arc::new(RateLimiter::new(rate))),
        };
        let authenticator = inner.rules.get().authenticator.with(options.tokens.clone());
        let rules = Arc::new(HttpRules { limits: options.limits.clone(), hosts, authenticator, rate_limiter });
        inner.load.set(&options.limits, rules.authenticator.has_several_principals());
        inner.rules.0.send_replace(Arc::clone(&rules));
        applied.ended_sessions = inner.sessions.end_those(|principal| !rules.authenticator.has_principal(principal));
        // Keep the old address, so that each reload reports again that a restart is needed.
        *asked = HttpOptions { address: asked.address, ..options };
        applied
    }
}
