//! The rules of an HTTP server, which can change while it runs.

use std::sync::Arc;

use tokio::sync::watch;

use super::hosts::AllowedHosts;
use super::rate::RateLimiter;
use super::tokens::{Authenticator, TokenDigest};
use crate::config::model::StoreFailurePolicy;
use crate::gateway::client::Principal;
use crate::gateway::limits::GatewayLimits;

/// The settings of an HTTP server that can change while it runs.
pub(super) struct HttpRules {
    pub(super) limits: GatewayLimits,
    pub(super) hosts: AllowedHosts,
    pub(super) authenticator: Authenticator,
    pub(super) rate_limiter: Option<Arc<RateLimiter>>,
    pub(super) on_store_failure: StoreFailurePolicy,
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

    pub(super) fn set(&self, rules: Arc<HttpRules>) {
        self.0.send_replace(rules);
    }

    /// Waits until the token no longer belongs to the principal.
    pub(super) async fn wait_revoked(self: Arc<Self>, pass: TokenDigest, principal: Arc<Principal>) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|rules| !rules.authenticator.accepts(pass, &principal)).await;
    }
}
