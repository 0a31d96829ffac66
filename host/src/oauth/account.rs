//! The OAuth account with one server: the credentials for its requests, and its status.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, warn};
use url::Url;

use super::provider::{ConsentRequest, TokenProvider, union};
use super::token::{OAuthToken, TokenExpiry};
use super::{Browse, OAuthError, TokenStore};
use crate::config::model::OAuthGrant;
use crate::config::resolve::ResolvedOAuth;
use crate::config::secrets::{Secrets, looks_secret};
use crate::failure::{Failure, HttpError, RequestError};
use crate::lock::lock;
use crate::transport::BoxFuture;
use crate::web::address;
use crate::web::authorize::{Authorize, Credential};
use crate::web::site::RemoteSite;

/// The OAuth account with one server.
pub struct Account {
    provider: Arc<TokenProvider>,
    /// The tasks of the account; they end with it.
    tasks: Mutex<JoinSet<()>>,
}

/// The status of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuthorizationStatus {
    /// Whether there is a token that can be used, or replaced without a person.
    pub authorized: bool,
    /// The scopes of the token, as far as they are known.
    pub scopes: Vec<String>,
    /// The time when the token expires, if known.
    #[serde(skip)]
    pub expires: Option<SystemTime>,
    /// Whether the token can be replaced without a person.
    pub renewable: bool,
    /// The client id at the authorization server.
    pub client_id: Option<String>,
    /// The authorization server.
    pub issuer: Option<String>,
    /// The file that stores the token.
    pub file: Option<PathBuf>,
}

impl Account {
    /// Creates the account of a server, with the stored token if there is one. `browse` asks a person for consent;
    /// without it, the account waits until another process stores a token.
    pub fn new(
        server: &str,
        site: &RemoteSite,
        oauth: ResolvedOAuth,
        store: &TokenStore,
        browse: Option<Arc<dyn Browse>>,
        secrets: Arc<Mutex<Secrets>>,
    ) -> Result<Self, OAuthError> {
        let url = resource(&site.url).ok_or_else(|| OAuthError::Settings("the url is not valid".to_owned()))?;
        let client = oauth.client_id.as_ref().or(oauth.client_metadata_url.as_ref());
        let grant = match oauth.grant {
            OAuthGrant::AuthorizationCode => "authorization_code",
            OAuthGrant::ClientCredentials => "client_credentials",
        };
        let entry = store.entry(&[url.as_str(), client.map_or("", String::as_str), grant]);
        let site = bare(site);
        let provider = TokenProvider {
            server: server.to_owned(),
            url,
            site,
            oauth,
            entry,
            browse,
            current: Mutex::default(),
            refresh_permit: Semaphore::new(1),
            secrets,
        };
        lock(&provider.secrets).merge(&provider.oauth.secrets);
        Ok(Account { provider: Arc::new(provider), tasks: Mutex::default() })
    }

    /// Gets a new token, from a person or with the client's own credentials, requesting `scopes` in addition to the
    /// configured ones.
    pub async fn login(&self, browse: &dyn Browse, scopes: &[String]) -> Result<AuthorizationStatus, OAuthError> {
        let provider = &*self.provider;
        let _turn = provider.refresh_permit.acquire().await.expect("nobody closes the semaphore");
        let record = provider.entry.load();
        let mut wanted = union(&provider.oauth.scopes, scopes);
        if !record.wanted.is_empty() {
            let granted = record.credentials.map(|credentials| credentials.granted_scopes).unwrap_or_default();
            wanted = union(&union(&granted, &wanted), &record.wanted);
        }
        let outcome = match provider.oauth.grant {
            OAuthGrant::AuthorizationCode => {
                provider.login(browse, ConsentRequest { challenge: None, scopes: wanted, reuse: false }).await
            }
            OAuthGrant::ClientCredentials => provider.client_credentials(None, wanted).await,
        };
        outcome.map_err(|error| provider.redact(error))?;
        provider.entry.change(|record| record.url = provider.url.to_string());
        provider.reload();
        Ok(self.status())
    }

    /// Deletes the token and the client registration.
    pub fn logout(&self) -> io::Result<()> {
        self.provider.entry.clear()?;
        self.provider.reload();
        Ok(())
    }

    /// Returns the status of the account.
    pub fn status(&self) -> AuthorizationStatus {
        let provider = &*self.provider;
        provider.reload_if_changed();
        let record = provider.entry.load();
        let held = provider.current();
        let token = held.token.as_ref();
        let grants_itself = provider.oauth.grant == OAuthGrant::ClientCredentials;
        let renewable = grants_itself || token.is_some_and(|token| token.refresh.is_some());
        let usable =
            token.is_some_and(|token| token.expiry(SystemTime::now(), provider.oauth.grant) != TokenExpiry::Expired);
        AuthorizationStatus {
            authorized: token.is_some() && (usable || renewable),
            scopes: token.map(|token| token.scopes.clone()).unwrap_or_default(),
            expires: token.and_then(OAuthToken::expires_at),
            renewable,
            client_id: record.credentials.as_ref().map(|credentials| credentials.client_id.clone()),
            issuer: record.credentials.and_then(|credentials| credentials.issuer),
            file: provider.entry.file.clone(),
        }
    }

    /// Returns the grant that the account uses.
    pub fn grant(&self) -> OAuthGrant {
        self.provider.oauth.grant
    }

    /// Returns the configured port for the redirect.
    pub fn callback_port(&self) -> Option<u16> {
        self.provider.oauth.callback_port
    }

    /// Reports whether the account fits the server as it is configured now.
    pub(crate) fn is_of(&self, site: &RemoteSite, oauth: &ResolvedOAuth) -> bool {
        bare(site) == self.provider.site && *oauth == self.provider.oauth
    }

    /// Renews the token to the end, even if the caller stops waiting: a token that was received must not be lost.
    async fn renew_token(&self, edition: u64, refused: Option<HttpError>) -> Result<(), OAuthError> {
        let (done, outcome) = oneshot::channel();
        let provider = Arc::clone(&self.provider);
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let outcome = provider.renew(edition, refused).await;
                // The caller may have stopped waiting.
                let _ = done.send(outcome.map_err(|error| provider.redact(error)));
            });
        }
        outcome.await.unwrap_or_else(|_| Err(OAuthError::Unreachable("all connections are being closed".to_owned())))
    }
}

impl Authorize for Account {
    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, RequestError>> {
        Box::pin(async {
            let provider = &*self.provider;
            provider.reload_if_changed();
            let Some((due, edition)) = provider.expiry() else { return Ok(None) };
            if due != TokenExpiry::Valid {
                match self.renew_token(edition, None).await {
                    Ok(()) => {}
                    Err(error) if due == TokenExpiry::Expiring => {
                        warn!(server = provider.server, "the token could not be renewed and is still used: {error}");
                        provider.current().retry_at = Some(Instant::now() + RETRY);
                    }
                    Err(error @ OAuthError::Unreachable(_)) => return Err(provider.to_failed(&error)),
                    // Send the request without a token; the server's challenge then says what it needs.
                    Err(error) => {
                        debug!(server = provider.server, "the token has expired: {error}");
                        provider.drop_token(edition);
                    }
                }
            }
            Ok(provider.credential())
        })
    }

    fn renew<'a>(&'a self, refused: &'a HttpError) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(async {
            if !self.provider.can_resolve(refused) {
                return Err(RequestError::sent(Failure::Http(refused.clone())));
            }
            let outcome = self.renew_token(refused.edition, Some(refused.clone())).await;
            outcome.map_err(|error| self.provider.to_failed(&error))
        })
    }

    fn accepted(&self, edition: u64) {
        let mut held = self.provider.current();
        held.accepted = held.accepted.max(edition);
    }

    fn edition(&self) -> u64 {
        self.provider.reload_if_changed();
        self.provider.current().edition
    }

    fn secrets(&self) -> Secrets {
        let mut secrets = self.provider.oauth.secrets.clone();
        self.provider.current().recent_secrets.iter().for_each(|token| secrets.add(token));
        secrets
    }
}

/// Returns the site without the headers and secrets that are for the server alone, for use with its authorization
/// server.
fn bare(site: &RemoteSite) -> RemoteSite {
    RemoteSite { headers: Vec::new(), secrets: Secrets::default(), authorize: None, ..site.clone() }
}

/// Returns the resource that a token is requested for: the server's URL without parts that may be secret.
fn resource(url: &str) -> Option<Url> {
    let mut url = address::as_http(Url::parse(url).ok()?).and_then(address::without_login)?;
    url.set_fragment(None);
    let kept: Vec<(String, String)> =
        url.query_pairs().filter(|(name, _)| !looks_secret(name)).map(|(a, b)| (a.into(), b.into())).collect();
    match kept.as_slice() {
        [] => url.set_query(None),
        kept => _ = url.query_pairs_mut().clear().extend_pairs(kept),
    }
    Some(url)
}

/// How long to wait before trying again to replace a token that still works.
const RETRY: Duration = Duration::from_secs(10);
