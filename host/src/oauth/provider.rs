//! Gets, stores and replaces the token of an account.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use http::HeaderValue;
use rmcp::transport::auth::WWWAuthenticateParams;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::warn;
use url::Url;

use super::store::TokenEntry;
use super::token::{OAuthToken, TokenExpiry};
use super::{Browse, OAuthError};
use crate::config::model::OAuthGrant;
use crate::config::resolve::ResolvedOAuth;
use crate::config::secrets::Secrets;
use crate::failure::{Failure, HttpError, RequestError};
use crate::lock::lock;
use crate::web::authorize::Credential;
use crate::web::site::RemoteSite;

/// The state of an account that its tasks share.
pub(super) struct TokenProvider {
    pub(super) server: String,
    pub(super) url: Url,
    pub(super) site: RemoteSite,
    pub(super) oauth: ResolvedOAuth,
    pub(super) entry: Arc<TokenEntry>,
    pub(super) browse: Option<Arc<dyn Browse>>,
    pub(super) current: Mutex<CurrentToken>,
    /// Allows one task at a time to get a token; the others then use that token.
    pub(super) refresh_permit: Semaphore,
    /// The secrets of the whole process.
    pub(super) secrets: Arc<Mutex<Secrets>>,
}

/// The token that goes with requests.
#[derive(Default)]
pub(super) struct CurrentToken {
    pub(super) token: Option<OAuthToken>,
    /// The number of the token; each new token increments it.
    pub(super) edition: u64,
    /// Whether the store has been read.
    pub(super) loaded: bool,
    /// The stored token, if it can no longer be used.
    pub(super) expired: Option<OAuthToken>,
    /// How the token was obtained.
    pub(super) origin: TokenOrigin,
    /// The number of the last token that the server accepted.
    pub(super) accepted: u64,
    /// When to try again after the token could not be replaced.
    pub(super) retry_at: Option<Instant>,
    /// When an authorization server did not answer last, and what it was.
    pub(super) unreachable: Option<(Instant, String)>,
    /// Recent tokens, which stay secret because logs about a request may come after its token was replaced.
    pub(super) recent_secrets: VecDeque<String>,
}

/// How a token was obtained; if the server rejects a new token at once, another one obtained in the same way is
/// useless.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TokenOrigin {
    /// The token was in the store.
    #[default]
    Stored,
    /// The token was obtained with a refresh token.
    Refreshed,
    /// A person gave consent, or the client credentials were used.
    Granted,
}

/// A request for a person's consent.
pub(super) struct ConsentRequest<'a> {
    /// The `WWW-Authenticate` challenge of the request that the server refused.
    pub(super) challenge: Option<&'a str>,
    /// The scopes to request; if empty, those that the server names.
    pub(super) scopes: Vec<String>,
    /// Whether to reuse an earlier client registration.
    pub(super) reuse: bool,
}

impl TokenProvider {
    /// Gets a newer token than the one with this number, which the server refused or which expires soon.
    pub(super) async fn renew(&self, edition: u64, refused: Option<HttpError>) -> Result<(), OAuthError> {
        let waiting_since = Instant::now();
        let _turn = self.refresh_permit.acquire().await.expect("nobody closes the semaphore");
        let before = {
            let held = self.current();
            // Whoever waited while another task tried in vain need not try in turn, which would take as long again.
            if let Some((at, why)) = &held.unreachable
                && *at >= waiting_since
            {
                return Err(OAuthError::Unreachable(why.clone()));
            }
            // Another task may have got a new token meanwhile.
            if held.token.is_some() && held.edition > edition {
                return Ok(());
            }
            held.token.clone()
        };
        // Another process may have got one, too, or be about to.
        let _alone = self.entry.lock_refresh(self.oauth.limit).await?;
        self.reload();
        let kept = self.current().token.clone();
        if kept.is_some() && kept != before {
            return Ok(());
        }
        let replaced = match refused {
            None => self.replace(before.as_ref(), None, self.oauth.scopes.clone()).await,
            Some(error) => self.resolve_refusal(before.as_ref(), &error).await,
        };
        if let Err(OAuthError::Unreachable(why)) = &replaced {
            self.current().unreachable = Some((Instant::now(), why.clone()));
        }
        let origin = replaced?;
        self.entry.change(|record| record.url = self.url.to_string());
        self.reload();
        self.current().origin = origin;
        Ok(())
    }

    /// Reports whether a token could resolve this refusal, according to the configuration or the server's challenge.
    pub(super) fn can_resolve(&self, refused: &HttpError) -> bool {
        let challenge = refused.challenge.as_deref().unwrap_or_default();
        let names_tokens = self.oauth.is_configured || challenge.to_ascii_lowercase().contains("bearer");
        names_tokens || self.browse.is_some() || self.current().token.is_some()
    }

    /// Gets the token that a refused request needs.
    async fn resolve_refusal(
        &self,
        token: Option<&OAuthToken>,
        refused: &HttpError,
    ) -> Result<TokenOrigin, OAuthError> {
        let challenge = refused.challenge.as_deref();
        let asked = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, &self.url)).unwrap_or_default();
        let needed: Vec<String> =
            asked.scope.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let granted = token.map(|token| token.scopes.clone()).unwrap_or_default();
        if refused.status == 403 || asked.is_insufficient_scope() {
            return self.step_up(token, challenge, &granted, &needed).await;
        }
        let scopes = match needed.as_slice() {
            [] => self.oauth.scopes.clone(),
            // With no scopes configured or granted, discovery finds the scopes that the server names.
            _ if self.oauth.scopes.is_empty() && granted.is_empty() => Vec::new(),
            needed => union(&union(&self.oauth.scopes, &granted), needed),
        };
        let unseen = {
            let held = self.current();
            (token.is_some() && held.accepted < held.edition).then_some(held.origin)
        };
        if unseen == Some(TokenOrigin::Granted) {
            return Err(OAuthError::Refused("the server refuses the token that was just issued for it".to_owned()));
        }
        let replaced = match unseen {
            Some(TokenOrigin::Refreshed) => Err(OAuthError::NeedsPerson),
            _ => self.replace(token, challenge, scopes.clone()).await,
        };
        match replaced {
            // If nobody can be asked, the reason is more useful than the hint that somebody is needed.
            Err(OAuthError::Refused(why)) if self.browse.is_none() => Err(OAuthError::Refused(why)),
            Err(OAuthError::NeedsPerson | OAuthError::Refused(_))
                if self.oauth.grant == OAuthGrant::AuthorizationCode =>
            {
                self.ask_person(ConsentRequest { challenge, scopes, reuse: true }).await
            }
            outcome => outcome,
        }
    }

    /// Requests more scopes than the token has; fails if the token has them already, or if they were just denied.
    async fn step_up(
        &self,
        token: Option<&OAuthToken>,
        challenge: Option<&str>,
        granted: &[String],
        needed: &[String],
    ) -> Result<TokenOrigin, OAuthError> {
        if needed.is_empty() || token.is_some_and(|token| token.allows(needed)) {
            return Err(OAuthError::Refused("the server refuses a request that the token allows".to_owned()));
        }
        let record = self.entry.load();
        // If nobody could be asked last time, somebody may be there now.
        let could_ask = self.browse.is_some() || self.oauth.grant == OAuthGrant::ClientCredentials;
        if could_ask && token.is_some() && needed.iter().all(|scope| record.wanted.contains(scope)) {
            return Err(OAuthError::Refused(format!("{} was requested and not granted", needed.join(" "))));
        }
        self.entry.change(|record| record.wanted = union(&record.wanted, needed));
        let scopes = union(&union(&self.oauth.scopes, granted), &union(&record.wanted, needed));
        let outcome = match self.oauth.grant {
            OAuthGrant::ClientCredentials => self.replace(token, challenge, scopes).await,
            OAuthGrant::AuthorizationCode => self.ask_person(ConsentRequest { challenge, scopes, reuse: true }).await,
        };
        match outcome {
            Err(OAuthError::NeedsPerson) => {
                Err(OAuthError::Refused(format!("the server needs more scopes: {}", needed.join(" "))))
            }
            Ok(origin) => {
                let token = self.entry.load().credentials.as_ref().and_then(OAuthToken::read);
                // Remember scopes that were not granted, so that they are not requested over and over.
                if token.is_some_and(|token| !token.allows(needed)) {
                    self.entry.change(|record| record.wanted = union(&record.wanted, needed));
                }
                Ok(origin)
            }
            outcome => outcome,
        }
    }

    /// Gets a new token without a person.
    async fn replace(
        &self,
        token: Option<&OAuthToken>,
        challenge: Option<&str>,
        scopes: Vec<String>,
    ) -> Result<TokenOrigin, OAuthError> {
        match self.oauth.grant {
            OAuthGrant::ClientCredentials => {
                let granted = token.map(|token| token.scopes.clone()).unwrap_or_default();
                self.client_credentials(challenge, union(&scopes, &granted)).await?;
                Ok(TokenOrigin::Granted)
            }
            OAuthGrant::AuthorizationCode if token.is_some_and(|token| token.refresh.is_some()) => {
                self.refresh().await?;
                Ok(TokenOrigin::Refreshed)
            }
            OAuthGrant::AuthorizationCode => Err(OAuthError::NeedsPerson),
        }
    }

    /// Asks a person for consent, if possible.
    async fn ask_person(&self, wish: ConsentRequest<'_>) -> Result<TokenOrigin, OAuthError> {
        let Some(browse) = &self.browse else { return Err(OAuthError::NeedsPerson) };
        self.login(&**browse, wish).await?;
        Ok(TokenOrigin::Granted)
    }

    /// Loads the stored token if it has changed.
    pub(super) fn reload_if_changed(&self) {
        if !self.current().loaded || self.entry.is_changed() {
            self.reload();
        }
    }

    pub(super) fn reload(&self) {
        let token = self.entry.load().credentials.as_ref().and_then(OAuthToken::read);
        let mut held = self.current();
        let token = token.filter(|token| held.expired.as_ref() != Some(token));
        held.loaded = true;
        if held.token == token {
            return;
        }
        let mut secrets = lock(&self.secrets);
        for secret in token.iter().flat_map(|token| [Some(&token.access), token.refresh.as_ref()]).flatten() {
            if !held.recent_secrets.contains(secret) {
                secrets.add(secret);
                held.recent_secrets.push_back(secret.clone());
            }
        }
        while held.recent_secrets.len() > SHOWN {
            if let Some(old) = held.recent_secrets.pop_front() {
                secrets.remove(&old);
            }
        }
        held.edition += u64::from(token.is_some());
        held.origin = TokenOrigin::Stored;
        held.retry_at = None;
        held.token = token;
    }

    pub(super) fn drop_token(&self, edition: u64) {
        let mut held = self.current();
        if held.edition == edition {
            held.expired = held.token.take();
        }
    }

    /// Returns whether the token must be replaced, and its number, if there is one.
    pub(super) fn expiry(&self) -> Option<(TokenExpiry, u64)> {
        let held = self.current();
        let due = held.token.as_ref()?.expiry(SystemTime::now(), self.oauth.grant);
        let patient = due == TokenExpiry::Expiring && held.retry_at.is_some_and(|at| at > Instant::now());
        // A token that cannot be replaced is used until it expires.
        let replaceable = self.oauth.grant == OAuthGrant::ClientCredentials || held.token.as_ref()?.refresh.is_some();
        let due = if patient || due == TokenExpiry::Expiring && !replaceable { TokenExpiry::Valid } else { due };
        Some((due, held.edition))
    }

    pub(super) fn credential(&self) -> Option<Credential> {
        let held = self.current();
        let token = held.token.as_ref()?;
        let Ok(mut header) = HeaderValue::try_from(format!("Bearer {}", token.access)) else {
            warn!(server = self.server, "the token is not sent, because HTTP headers do not allow its characters");
            return None;
        };
        header.set_sensitive(true);
        Some(Credential { header, edition: held.edition })
    }

    /// Converts the error to a failed request, with a hint for the user.
    pub(super) fn to_failed(&self, error: &OAuthError) -> RequestError {
        let hint = match self.oauth.grant {
            OAuthGrant::AuthorizationCode => format!("run `toolgate auth login {}`", self.server),
            OAuthGrant::ClientCredentials => format!("check the auth of server {:?}", self.server),
        };
        RequestError::unsent(match error {
            OAuthError::Unreachable(_) => Failure::Connect(error.to_string()),
            OAuthError::NeedsPerson => Failure::NeedsAuth(hint),
            other => Failure::NeedsAuth(format!("{other}; {hint}")),
        })
    }

    /// Removes secrets from an error, because authorization servers may echo what they were sent.
    pub(super) fn redact(&self, error: OAuthError) -> OAuthError {
        let clean = |text: String| lock(&self.secrets).redact(&text).into_owned();
        match error {
            OAuthError::Unreachable(text) => OAuthError::Unreachable(clean(text)),
            OAuthError::Refused(text) => OAuthError::Refused(clean(text)),
            OAuthError::Settings(text) => OAuthError::Settings(clean(text)),
            other => other,
        }
    }

    pub(super) fn current(&self) -> MutexGuard<'_, CurrentToken> {
        lock(&self.current)
    }
}

/// Returns the scopes of both lists, each once.
pub(super) fn union(one: &[String], other: &[String]) -> Vec<String> {
    let mut all = one.to_vec();
    for scope in other {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

/// The number of recent tokens that stay secret.
const SHOWN: usize = 16;
