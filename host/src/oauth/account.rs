//! Our account with one server: what goes with requests, and how it stands.

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

use super::flow::ConsentRequest;
use super::provider::{TokenProvider, TokenTask, lock, union};
use super::token::{OAuthToken, TokenExpiry};
use super::{Browse, OAuthError, TokenStore};
use crate::config::model::OAuthGrant;
use crate::config::resolve::ResolvedOAuth;
use crate::config::secrets::{Secrets, looks_secret};
use crate::failure::{Failure, HttpError, RequestError};
use crate::transport::BoxFuture;
use crate::transport::authorize::{Authorize, Credential};
use crate::transport::endpoint::RemoteSite;

/// Our account with one server.
pub struct Account {
    provider: Arc<TokenProvider>,
    /// What is done for the account; it ends with it.
    tasks: Mutex<JoinSet<()>>,
}

/// How an account stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuthorizationStatus {
    /// There is a token, and it can be used or replaced without a person.
    pub authorized: bool,
    /// What it allows, as far as is known.
    pub scopes: Vec<String>,
    /// When it ends, where that is known.
    #[serde(skip)]
    pub expires: Option<SystemTime>,
    /// It can be replaced without a person.
    pub renewable: bool,
    /// Who we are at the authorization server.
    pub client_id: Option<String>,
    /// The authorization server.
    pub issuer: Option<String>,
    /// The file that keeps it.
    pub file: Option<PathBuf>,
}

impl Account {
    /// The account with the server of this id at this site, with what is kept of it. `browse` brings a person where
    /// one is needed; without it the account waits for a token that somebody else gets.
    pub fn new(
        server: &str,
        site: &RemoteSite,
        oauth: ResolvedOAuth,
        store: &TokenStore,
        browse: Option<Arc<dyn Browse>>,
        secrets: Arc<Mutex<Secrets>>,
    ) -> Result<Self, OAuthError> {
        let url = resource(&site.url).ok_or_else(|| OAuthError::Settings("the url is no address".to_owned()))?;
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

    /// Gets a token, whether there is one or not: from a person, or with what we have ourselves. `scopes` are asked
    /// for beside what the configuration says.
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
                provider.flow().login(browse, ConsentRequest { challenge: None, scopes: wanted, reuse: false }).await
            }
            OAuthGrant::ClientCredentials => provider.flow().client_credentials(None, wanted).await,
        };
        outcome.map_err(|error| provider.redact(error))?;
        provider.entry.change(|record| record.url = provider.url.to_string());
        provider.reload();
        Ok(self.status())
    }

    /// Forgets the token, and who we are at the authorization server.
    pub fn logout(&self) -> io::Result<()> {
        self.provider.entry.clear()?;
        self.provider.reload();
        Ok(())
    }

    /// How the account stands.
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
            file: provider.entry.file().map(ToOwned::to_owned),
        }
    }

    /// How a token is asked for.
    pub fn grant(&self) -> OAuthGrant {
        self.provider.oauth.grant
    }

    /// The port that the configuration wants a person to be sent back to.
    pub fn callback_port(&self) -> Option<u16> {
        self.provider.oauth.callback_port
    }

    /// Whether it is the account of this server, as it is configured now.
    pub(crate) fn is_of(&self, site: &RemoteSite, oauth: &ResolvedOAuth) -> bool {
        bare(site) == self.provider.site && *oauth == self.provider.oauth
    }

    /// Does what has to be done, to its end: whoever waits for it may go, and a token that came must not be lost.
    async fn run(&self, work: TokenTask) -> Result<(), OAuthError> {
        let (done, outcome) = oneshot::channel();
        let provider = Arc::clone(&self.provider);
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let outcome = provider.run_task(work).await;
                // Nobody may be left who wants to know.
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
                match self.run(TokenTask::Replace { edition }).await {
                    Ok(()) => {}
                    Err(error) if due == TokenExpiry::Expiring => {
                        warn!(server = provider.server, "the token could not be replaced, and is used on: {error}");
                        provider.current().retry_at = Some(Instant::now() + RETRY);
                    }
                    Err(error @ OAuthError::Unreachable(_)) => return Err(provider.to_failed(&error)),
                    // The server says what it wants, and then it is seen whether that can be had.
                    Err(error) => {
                        debug!(server = provider.server, "the token has ended: {error}");
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
            let outcome = self.run(TokenTask::Refused(refused.clone())).await;
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

/// What of a site matters to its authorization server: nothing that is sent to the site itself.
fn bare(site: &RemoteSite) -> RemoteSite {
    RemoteSite { headers: Vec::new(), secrets: Secrets::default(), authorize: None, ..site.clone() }
}

/// What a token is asked for: the server's address, without what may be a secret.
fn resource(url: &str) -> Option<Url> {
    let mut url = Url::parse(url).ok()?;
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        other => other,
    }
    .to_owned();
    url.set_scheme(&scheme).ok()?;
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    url.set_fragment(None);
    let kept: Vec<(String, String)> =
        url.query_pairs().filter(|(name, _)| !looks_secret(name)).map(|(a, b)| (a.into(), b.into())).collect();
    match kept.as_slice() {
        [] => url.set_query(None),
        kept => _ = url.query_pairs_mut().clear().extend_pairs(kept),
    }
    Some(url)
}

/// How long a token that still works is used on after it could not be replaced.
const RETRY: Duration = Duration::from_secs(10);
