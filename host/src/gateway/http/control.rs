//! How a door is now, and how that is changed while it is served.

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

/// What of a door can change while it is served.
pub(super) struct HttpRules {
    pub(super) limits: GatewayLimits,
    pub(super) hosts: AllowedHosts,
    pub(super) authenticator: Authenticator,
    pub(super) rate_limiter: Option<Arc<RateLimiter>>,
}

/// The rules of now. A request keeps to those that it began with.
pub(super) struct CurrentRules(watch::Sender<Arc<HttpRules>>);

impl CurrentRules {
    pub(super) fn new(rules: HttpRules) -> Arc<Self> {
        Arc::new(CurrentRules(watch::Sender::new(Arc::new(rules))))
    }

    pub(super) fn get(&self) -> Arc<HttpRules> {
        self.0.borrow().clone()
    }

    /// Waits until this is no token of a principal any more.
    pub(super) async fn wait_revoked(self: Arc<Self>, pass: TokenDigest, principal: Arc<Principal>) {
        // There are rules as long as this lives.
        let _ = self.0.subscribe().wait_for(|rules| !rules.authenticator.accepts(pass, &principal)).await;
    }
}

/// Changes a door while it is served.
#[derive(Clone)]
pub struct HttpControl(Arc<Inner>);

struct Inner {
    /// Where the door listens.
    address: SocketAddr,
    rules: Arc<CurrentRules>,
    load: Arc<LoadLimiter>,
    sessions: Arc<HttpSessions>,
    certificate: Option<Arc<Certificate>>,
    /// What was last asked for.
    requested: Mutex<HttpOptions>,
}

/// A change that can be made.
pub struct PreparedChange {
    control: HttpControl,
    options: HttpOptions,
    hosts: AllowedHosts,
    certificate: Option<tls::LoadedCertificate>,
}

/// What a change came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppliedChange {
    /// What was asked for and cannot be had while the door is open.
    pub needs_restart: Vec<&'static str>,
    /// How many sessions were ended, since nobody may use them any more.
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

    /// Looks whether the door can be so, and changes nothing yet. Options that would open the door wider are refused:
    /// no token at all, no TLS any more, another address that more can reach, more hosts or origins.
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
    /// Makes the change: it holds for the next request.
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
        // What needs a restart is asked for until then, and told each time.
        *asked = HttpOptions { address: asked.address, ..options };
        applied
    }
}
