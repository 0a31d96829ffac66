//! Our account with one server: the token that goes with requests, and how it is replaced.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use rmcp::transport::auth::WWWAuthenticateParams;
use serde::Serialize;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, warn};
use url::Url;

use super::flow::{Flow, Wish};
use super::store::Place;
use super::token::{Due, Token};
use super::{Browse, OAuthError, Store};
use crate::config::model::Grant;
use crate::config::resolve::FilledOAuth;
use crate::config::secrets::{Secrets, looks_secret};
use crate::failure::{Failed, Failure, HttpError};
use crate::transport::BoxFuture;
use crate::transport::authorize::{Authorize, Credential};
use crate::transport::endpoint::Site;

/// Our account with one server.
pub struct Account {
    desk: Arc<Desk>,
    /// What is done for the account; it ends with it.
    tasks: Mutex<JoinSet<()>>,
}

/// How an account stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
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

/// The account, as its tasks know it.
struct Desk {
    server: String,
    url: Url,
    site: Site,
    oauth: FilledOAuth,
    place: Arc<Place>,
    browse: Option<Arc<dyn Browse>>,
    held: Mutex<Held>,
    /// One token is got at a time; who waits meanwhile takes what comes of it.
    turn: Semaphore,
    /// Where all secrets go.
    secrets: Arc<Mutex<Secrets>>,
}

/// The token that goes with requests.
#[derive(Default)]
struct Held {
    token: Option<Token>,
    /// Counts the tokens.
    edition: u64,
    /// The place has been looked at.
    looked: bool,
    /// What is kept and no longer of use.
    ended: Option<Token>,
    /// How the token was got.
    origin: Origin,
    /// The last token that the server took.
    accepted: u64,
    /// After a token could not be replaced: when to try again.
    retry_at: Option<Instant>,
    /// The tokens of late: what is written about a request may come when its token is no longer held.
    shown: VecDeque<String>,
}

/// How a token was got. What refuses one at once will refuse another that is got in the same way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Origin {
    /// It was there.
    #[default]
    Kept,
    /// For a refresh token.
    Refreshed,
    /// A person gave consent, or it is one for us ourselves.
    Given,
}

/// What has to be done.
enum Work {
    /// The token is due.
    Replace { edition: u64 },
    /// The server refused a request.
    Refused(HttpError),
}

impl Account {
    /// The account with the server of this id at this site, with what is kept of it. `browse` brings a person where
    /// one is needed; without it the account waits for a token that somebody else gets.
    pub fn new(
        server: &str,
        site: &Site,
        oauth: FilledOAuth,
        store: &Store,
        browse: Option<Arc<dyn Browse>>,
        secrets: Arc<Mutex<Secrets>>,
    ) -> Result<Self, OAuthError> {
        let url = resource(&site.url).ok_or_else(|| OAuthError::Settings("the url is no address".to_owned()))?;
        let client = oauth.client_id.as_ref().or(oauth.client_metadata_url.as_ref());
        let grant = match oauth.grant {
            Grant::AuthorizationCode => "authorization_code",
            Grant::ClientCredentials => "client_credentials",
        };
        let place = store.place(&[url.as_str(), client.map_or("", String::as_str), grant]);
        let site = bare(site);
        let desk = Desk {
            server: server.to_owned(),
            url,
            site,
            oauth,
            place,
            browse,
            held: Mutex::default(),
            turn: Semaphore::new(1),
            secrets,
        };
        lock(&desk.secrets).merge(&desk.oauth.secrets);
        Ok(Account { desk: Arc::new(desk), tasks: Mutex::default() })
    }

    /// Gets a token, whether there is one or not: from a person, or with what we have ourselves. `scopes` are asked
    /// for beside what the configuration says.
    pub async fn login(&self, browse: &dyn Browse, scopes: &[String]) -> Result<Standing, OAuthError> {
        let desk = &*self.desk;
        let _turn = desk.turn.acquire().await.expect("nobody closes the semaphore");
        let record = desk.place.load();
        let mut wanted = union(&desk.oauth.scopes, scopes);
        if !record.wanted.is_empty() {
            let granted = record.credentials.map(|credentials| credentials.granted_scopes).unwrap_or_default();
            wanted = union(&union(&granted, &wanted), &record.wanted);
        }
        let outcome = match desk.oauth.grant {
            Grant::AuthorizationCode => {
                desk.flow().login(browse, Wish { challenge: None, scopes: wanted, reuse: false }).await
            }
            Grant::ClientCredentials => desk.flow().client_credentials(None, wanted).await,
        };
        outcome.map_err(|error| desk.clean(error))?;
        desk.place.change(|record| record.url = desk.url.to_string());
        desk.take_what_is_kept();
        Ok(self.standing())
    }

    /// Forgets the token, and who we are at the authorization server.
    pub fn logout(&self) -> io::Result<()> {
        self.desk.place.clear()?;
        self.desk.take_what_is_kept();
        Ok(())
    }

    /// How the account stands.
    pub fn standing(&self) -> Standing {
        let desk = &*self.desk;
        desk.look();
        let record = desk.place.load();
        let held = desk.held();
        let token = held.token.as_ref();
        let grants_itself = desk.oauth.grant == Grant::ClientCredentials;
        let renewable = grants_itself || token.is_some_and(|token| token.refresh.is_some());
        let usable = token.is_some_and(|token| token.due(SystemTime::now(), desk.oauth.grant) != Due::Over);
        Standing {
            authorized: token.is_some() && (usable || renewable),
            scopes: token.map(|token| token.scopes.clone()).unwrap_or_default(),
            expires: token.and_then(Token::ends),
            renewable,
            client_id: record.credentials.as_ref().map(|credentials| credentials.client_id.clone()),
            issuer: record.credentials.and_then(|credentials| credentials.issuer),
            file: desk.place.file().map(ToOwned::to_owned),
        }
    }

    /// How a token is asked for.
    pub fn grant(&self) -> Grant {
        self.desk.oauth.grant
    }

    /// The port that the configuration wants a person to be sent back to.
    pub fn callback_port(&self) -> Option<u16> {
        self.desk.oauth.callback_port
    }

    /// Whether it is the account of this server, as it is configured now.
    pub(crate) fn is_of(&self, site: &Site, oauth: &FilledOAuth) -> bool {
        bare(site) == self.desk.site && *oauth == self.desk.oauth
    }

    /// Does what has to be done, to its end: whoever waits for it may go, and a token that came must not be lost.
    async fn run(&self, work: Work) -> Result<(), OAuthError> {
        let (done, outcome) = oneshot::channel();
        let desk = Arc::clone(&self.desk);
        {
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let outcome = desk.work(work).await;
                // Nobody may be left who wants to know.
                let _ = done.send(outcome.map_err(|error| desk.clean(error)));
            });
        }
        outcome.await.unwrap_or_else(|_| Err(OAuthError::Unreachable("all connections are being closed".to_owned())))
    }
}

impl Authorize for Account {
    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, Failed>> {
        Box::pin(async {
            let desk = &*self.desk;
            desk.look();
            let Some((due, edition)) = desk.due() else { return Ok(None) };
            if due != Due::No {
                match self.run(Work::Replace { edition }).await {
                    Ok(()) => {}
                    Err(error) if due == Due::Soon => {
                        warn!(server = desk.server, "the token could not be replaced, and is used on: {error}");
                        desk.held().retry_at = Some(Instant::now() + RETRY);
                    }
                    Err(error @ OAuthError::Unreachable(_)) => return Err(desk.failed(&error)),
                    // The server says what it wants, and then it is seen whether that can be had.
                    Err(error) => {
                        debug!(server = desk.server, "the token has ended: {error}");
                        desk.drop_token(edition);
                    }
                }
            }
            Ok(desk.credential())
        })
    }

    fn renew<'a>(&'a self, refused: &'a HttpError) -> BoxFuture<'a, Result<(), Failed>> {
        Box::pin(async {
            if !self.desk.is_meant(refused) {
                return Err(Failed::sent(Failure::Http(refused.clone())));
            }
            let outcome = self.run(Work::Refused(refused.clone())).await;
            outcome.map_err(|error| self.desk.failed(&error))
        })
    }

    fn accepted(&self, edition: u64) {
        let mut held = self.desk.held();
        held.accepted = held.accepted.max(edition);
    }

    fn edition(&self) -> u64 {
        self.desk.look();
        self.desk.held().edition
    }

    fn secrets(&self) -> Secrets {
        let mut secrets = self.desk.oauth.secrets.clone();
        self.desk.held().shown.iter().for_each(|token| secrets.add(token));
        secrets
    }
}

impl Desk {
    async fn work(&self, work: Work) -> Result<(), OAuthError> {
        let _turn = self.turn.acquire().await.expect("nobody closes the semaphore");
        let refused = match &work {
            Work::Replace { edition } => *edition,
            Work::Refused(error) => error.edition,
        };
        // Somebody else may have got another one meanwhile.
        let before = match self.token_after(refused) {
            Ok(()) => return Ok(()),
            Err(token) => token,
        };
        // Another process may have got one, too, or be about to.
        let _alone = self.place.alone(self.oauth.limit).await?;
        self.take_what_is_kept();
        let kept = self.held().token.clone();
        if kept.is_some() && kept != before {
            return Ok(());
        }
        let origin = match work {
            Work::Replace { .. } => self.replace(before.as_ref(), None, self.oauth.scopes.clone()).await?,
            Work::Refused(error) => self.answer(before.as_ref(), &error).await?,
        };
        self.place.change(|record| record.url = self.url.to_string());
        self.take_what_is_kept();
        self.held().origin = origin;
        Ok(())
    }

    /// Whether there is a token that came after this one; if not, the one that there is.
    fn token_after(&self, edition: u64) -> Result<(), Option<Token>> {
        let held = self.held();
        if held.token.is_some() && held.edition > edition { Ok(()) } else { Err(held.token.clone()) }
    }

    /// Whether a refusal wants what an account can give: the configuration says so, or the server does.
    fn is_meant(&self, refused: &HttpError) -> bool {
        let challenge = refused.challenge.as_deref().unwrap_or_default();
        let said = self.oauth.said || challenge.to_ascii_lowercase().contains("bearer");
        said || self.browse.is_some() || self.held().token.is_some()
    }

    /// Does what a refusal wants.
    async fn answer(&self, token: Option<&Token>, refused: &HttpError) -> Result<Origin, OAuthError> {
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
            // With nothing configured and nothing granted, what the server says is found where it says it.
            _ if self.oauth.scopes.is_empty() && granted.is_empty() => Vec::new(),
            needed => union(&union(&self.oauth.scopes, &granted), needed),
        };
        let unseen = {
            let held = self.held();
            (token.is_some() && held.accepted < held.edition).then_some(held.origin)
        };
        if unseen == Some(Origin::Given) {
            let text = "the server refuses the token that was given out for it just now";
            return Err(OAuthError::Refused(text.to_owned()));
        }
        let replaced = match unseen {
            Some(Origin::Refreshed) => Err(OAuthError::NeedsPerson),
            _ => self.replace(token, challenge, scopes.clone()).await,
        };
        match replaced {
            Err(OAuthError::NeedsPerson | OAuthError::Refused(_)) if self.oauth.grant == Grant::AuthorizationCode => {
                self.ask(Wish { challenge, scopes, reuse: true }).await
            }
            outcome => outcome,
        }
    }

    /// Asks for more rights than the token has; one that has them, or that was just given with less, is not mended so.
    async fn step_up(
        &self,
        token: Option<&Token>,
        challenge: Option<&str>,
        granted: &[String],
        needed: &[String],
    ) -> Result<Origin, OAuthError> {
        if needed.is_empty() || token.is_some_and(|token| token.allows(needed)) {
            let text = "the server refuses what the token allows";
            return Err(OAuthError::Refused(text.to_owned()));
        }
        let record = self.place.load();
        // Where nobody could be asked, somebody may be there now.
        let could_ask = self.browse.is_some() || self.oauth.grant == Grant::ClientCredentials;
        if could_ask && token.is_some() && needed.iter().all(|scope| record.wanted.contains(scope)) {
            let text = format!("{} was asked for, and not granted", needed.join(" "));
            return Err(OAuthError::Refused(text));
        }
        self.place.change(|record| record.wanted = union(&record.wanted, needed));
        let scopes = union(&union(&self.oauth.scopes, granted), &union(&record.wanted, needed));
        let outcome = match self.oauth.grant {
            Grant::ClientCredentials => self.replace(token, challenge, scopes).await,
            Grant::AuthorizationCode => self.ask(Wish { challenge, scopes, reuse: true }).await,
        };
        match outcome {
            Err(OAuthError::NeedsPerson) => {
                Err(OAuthError::Refused(format!("it wants more rights: {}", needed.join(" "))))
            }
            Ok(origin) => {
                let token = self.place.load().credentials.as_ref().and_then(Token::read);
                // What was asked for and not granted is not asked for again and again.
                if token.is_some_and(|token| !token.allows(needed)) {
                    self.place.change(|record| record.wanted = union(&record.wanted, needed));
                }
                Ok(origin)
            }
            outcome => outcome,
        }
    }

    /// Gets another token without a person.
    async fn replace(
        &self,
        token: Option<&Token>,
        challenge: Option<&str>,
        scopes: Vec<String>,
    ) -> Result<Origin, OAuthError> {
        match self.oauth.grant {
            Grant::ClientCredentials => {
                let granted = token.map(|token| token.scopes.clone()).unwrap_or_default();
                self.flow().client_credentials(challenge, union(&scopes, &granted)).await?;
                Ok(Origin::Given)
            }
            Grant::AuthorizationCode if token.is_some_and(|token| token.refresh.is_some()) => {
                self.flow().refresh().await?;
                Ok(Origin::Refreshed)
            }
            Grant::AuthorizationCode => Err(OAuthError::NeedsPerson),
        }
    }

    /// Asks a person, where there is one.
    async fn ask(&self, wish: Wish<'_>) -> Result<Origin, OAuthError> {
        let Some(browse) = &self.browse else { return Err(OAuthError::NeedsPerson) };
        self.flow().login(&**browse, wish).await?;
        Ok(Origin::Given)
    }

    fn flow(&self) -> Flow<'_> {
        let Desk { url, site, oauth, place, secrets, .. } = self;
        Flow { url, site, oauth, place, secrets }
    }

    /// Takes what is kept, if that is not what was kept before.
    fn look(&self) {
        if !self.held().looked || self.place.is_changed() {
            self.take_what_is_kept();
        }
    }

    fn take_what_is_kept(&self) {
        let token = self.place.load().credentials.as_ref().and_then(Token::read);
        let mut held = self.held();
        let token = token.filter(|token| held.ended.as_ref() != Some(token));
        held.looked = true;
        if held.token == token {
            return;
        }
        let mut secrets = lock(&self.secrets);
        for secret in token.iter().flat_map(|token| [Some(&token.access), token.refresh.as_ref()]).flatten() {
            if !held.shown.contains(secret) {
                secrets.add(secret);
                held.shown.push_back(secret.clone());
            }
        }
        while held.shown.len() > SHOWN {
            if let Some(old) = held.shown.pop_front() {
                secrets.forget(&old);
            }
        }
        held.edition += u64::from(token.is_some());
        held.origin = Origin::Kept;
        held.retry_at = None;
        held.token = token;
    }

    fn drop_token(&self, edition: u64) {
        let mut held = self.held();
        if held.edition == edition {
            held.ended = held.token.take();
        }
    }

    /// Whether the token is due, if there is one.
    fn due(&self) -> Option<(Due, u64)> {
        let held = self.held();
        let due = held.token.as_ref()?.due(SystemTime::now(), self.oauth.grant);
        let patient = due == Due::Soon && held.retry_at.is_some_and(|at| at > Instant::now());
        // One that nobody can replace is used to its end.
        let replaceable = self.oauth.grant == Grant::ClientCredentials || held.token.as_ref()?.refresh.is_some();
        let due = if patient || due == Due::Soon && !replaceable { Due::No } else { due };
        Some((due, held.edition))
    }

    fn credential(&self) -> Option<Credential> {
        let held = self.held();
        let token = held.token.as_ref()?;
        let Ok(mut header) = HeaderValue::try_from(format!("Bearer {}", token.access)) else {
            warn!(server = self.server, "the token has characters that no header may have, and is not sent");
            return None;
        };
        header.set_sensitive(true);
        Some(Credential { header, edition: held.edition })
    }

    /// The same as a failure, with what a person can do.
    fn failed(&self, error: &OAuthError) -> Failed {
        let hint = match self.oauth.grant {
            Grant::AuthorizationCode => format!("run `toolgate auth login {}`", self.server),
            Grant::ClientCredentials => format!("look at the auth of server {:?}", self.server),
        };
        error.to_failed(&hint)
    }

    /// An error without secrets: authorization servers repeat what they were sent.
    fn clean(&self, error: OAuthError) -> OAuthError {
        let clean = |text: String| lock(&self.secrets).redact(&text).into_owned();
        match error {
            OAuthError::Unreachable(text) => OAuthError::Unreachable(clean(text)),
            OAuthError::Refused(text) => OAuthError::Refused(clean(text)),
            OAuthError::Settings(text) => OAuthError::Settings(clean(text)),
            other => other,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

/// What of a site matters to its authorization server: nothing that is sent to the site itself.
fn bare(site: &Site) -> Site {
    Site { headers: Vec::new(), secrets: Secrets::default(), authorize: None, ..site.clone() }
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

fn union(one: &[String], other: &[String]) -> Vec<String> {
    let mut all = one.to_vec();
    for scope in other {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

/// Each change leaves what is locked whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many tokens of late are known as secrets.
const SHOWN: usize = 16;
/// How long a token that still works is used on after it could not be replaced.
const RETRY: Duration = Duration::from_secs(10);
