//! The OAuth flows that get a token, each from start to end; `rmcp` implements the protocol.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    ClientCredentialsConfig, OAuthClientConfig, OAuthTokenResponse, StoredCredentials,
};
use serde_json::{Value, json};
use url::Url;

use super::assertion::AssertionKey;
use super::auth_server::AuthServerClient;
use super::loopback::parameter;
use super::provider::{ConsentRequest, TokenProvider};
use super::store::{ClientRegistration, CredentialAdapter};
use super::token::OAuthToken;
use super::{Browse, OAuthError};
use crate::config::model::TokenAuth;
use crate::config::resolve::ResolvedOAuth;
use crate::lock::lock;

impl TokenProvider {
    /// Asks a person for consent and gets a token.
    pub(super) async fn login(&self, browse: &dyn Browse, wish: ConsentRequest<'_>) -> Result<(), OAuthError> {
        let http = self.http()?;
        let (session, client) = self.with_timeout(&http, self.begin_login(&http, browse, wish)).await?;
        let url = session.get_authorization_url().to_owned();
        let answer = browse.browse(&url).await?;
        let answer = self.check_callback(&url, &session.redirect_uri, &answer)?;
        let exchange = async { session.handle_callback_url(&answer).await.map_err(|error| oauth_error(&http, &error)) };
        self.bind_secret(client.issuer.as_deref());
        self.with_timeout(&http, exchange).await?;
        self.entry.change(|record| {
            record.client = Some(client);
            record.wanted.clear();
        });
        Ok(())
    }

    async fn begin_login(
        &self,
        http: &Arc<AuthServerClient>,
        browse: &dyn Browse,
        wish: ConsentRequest<'_>,
    ) -> Result<(AuthorizationSession, ClientRegistration), OAuthError> {
        let (mut manager, metadata) = self.discover(http, wish.challenge).await?;
        check_pkce(&metadata)?;
        http.check_page(&metadata.authorization_endpoint).map_err(|why| {
            OAuthError::Refused(format!("the authorization server's consent page is not opened: {why}"))
        })?;
        let redirect_uri = browse.redirect_uri();
        let scopes = match wish.scopes {
            scopes if scopes.is_empty() => manager.select_initial_scopes(&[]).await,
            scopes => scopes,
        };
        let issuer = metadata.issuer.clone();
        let flag = metadata.additional_fields.get("client_id_metadata_document_supported");
        let reads_descriptions = flag.and_then(Value::as_bool).unwrap_or(false);
        let described = self.oauth.client_metadata_url.clone().filter(|_| reads_descriptions);
        let known = self
            .entry
            .load()
            .client
            .filter(|known| wish.reuse && known.redirect_uri == redirect_uri && known.issuer == issuer);
        let mut request = AuthorizationRequest::new(&redirect_uri)
            .with_scopes(&scopes)
            .with_client_name(NAME)
            .with_initial_scope_selection();
        let (id, secret) = match (&self.oauth.client_id, described, known) {
            (Some(id), _, _) => (id.clone(), self.oauth.client_secret.clone()),
            (None, Some(url), _) => {
                request = request.with_client_metadata_url(&url);
                (url, None)
            }
            (None, None, Some(known)) => (known.id, known.secret),
            (None, None, None) => {
                if metadata.registration_endpoint.is_none() {
                    let text = "the authorization server does not register clients: register toolgate there, and \
                                set `client_id` in the server's `auth`";
                    return Err(OAuthError::Settings(text.to_owned()));
                }
                let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
                let registered = manager.register_client(NAME, &redirect_uri, &scopes).await;
                let registered = registered.map_err(|error| oauth_error(http, &error))?;
                (registered.client_id, registered.client_secret)
            }
        };
        if let Some(secret) = &secret {
            self.hide(secret);
        }
        if request.client_metadata_url.is_none() {
            request = request.with_preregistered_client(&id);
            if let Some(secret) = &secret {
                request = request.with_client_secret(secret);
            }
        }
        let session =
            AuthorizationSession::new(manager, request).await.map_err(|(_, error)| oauth_error(http, &error))?;
        Ok((session, ClientRegistration { id, secret, redirect_uri, issuer }))
    }

    /// Returns the redirect as a whole URL, if it belongs to our request and grants it.
    fn check_callback(&self, question: &str, redirect_uri: &str, answer: &str) -> Result<String, OAuthError> {
        let url = match Url::parse(answer) {
            Ok(url) => url,
            Err(_) => {
                let mut url = Url::parse(redirect_uri).map_err(|error| OAuthError::Settings(error.to_string()))?;
                url.set_query(Some(answer.trim_start_matches('?')));
                url
            }
        };
        if let Some(code) = parameter(&url, "code") {
            self.hide(&code);
        }
        let asked = Url::parse(question).ok().and_then(|url| parameter(&url, "state"));
        if asked.is_none() || parameter(&url, "state") != asked {
            let text = "the redirect does not belong to this login: its state differs";
            return Err(OAuthError::Refused(text.to_owned()));
        }
        if let Some(error) = parameter(&url, "error") {
            let why = parameter(&url, "error_description").map(|why| format!(": {why}")).unwrap_or_default();
            return Err(OAuthError::Refused(format!("the authorization was not granted ({error}{why})")));
        }
        Ok(url.into())
    }

    /// Gets a new token with the stored refresh token.
    pub(super) async fn refresh(&self) -> Result<(), OAuthError> {
        let http = self.http()?;
        let refreshing = async {
            let (mut manager, AuthorizationMetadata { issuer, .. }) = self.discover(&http, None).await?;
            let record = self.entry.load();
            let Some(credentials) = record.credentials else { return Err(OAuthError::NeedsPerson) };
            check_issuer("the refresh token was issued by", credentials.issuer.as_deref(), issuer.as_deref())?;
            if !manager.initialize_from_store().await.map_err(|error| oauth_error(&http, &error))? {
                return Err(OAuthError::NeedsPerson);
            }
            let id = credentials.client_id;
            let registered = record.client.filter(|client| client.id == id && client.issuer == issuer);
            let redirect_uri = registered.as_ref().map_or(self.url.as_str(), |client| &client.redirect_uri);
            let mut config = OAuthClientConfig::new(id, redirect_uri);
            let registered_secret = registered.as_ref().and_then(|client| client.secret.as_ref());
            if let Some(secret) = self.oauth.client_secret.as_ref().or(registered_secret) {
                self.hide(secret);
                config = config.with_client_secret(secret);
            }
            manager.configure_client(config).map_err(|error| oauth_error(&http, &error))?;
            self.bind_secret(issuer.as_deref());
            manager.refresh_token().await.map_err(|error| oauth_error(&http, &error))?;
            Ok(())
        };
        self.with_timeout(&http, refreshing).await
    }

    /// Gets a token with the client's own credentials.
    pub(super) async fn client_credentials(
        &self,
        challenge: Option<&str>,
        scopes: Vec<String>,
    ) -> Result<(), OAuthError> {
        let http = self.http()?;
        let exchanging = async {
            let (manager, metadata) = self.discover(&http, challenge).await?;
            let scopes = if scopes.is_empty() { manager.select_initial_scopes(&[]).await } else { scopes };
            let missing = |what: &str| OAuthError::Settings(format!("grant client_credentials needs a `{what}`"));
            let client_id = self.oauth.client_id.clone().ok_or_else(|| missing("client_id"))?;
            if let Some(file) = &self.oauth.private_key {
                self.exchange_assertion(&http, metadata, client_id, file, &scopes).await?;
            } else {
                let client_secret = self.oauth.client_secret.clone().ok_or_else(|| missing("client_secret"))?;
                let resource = Some(self.url.to_string());
                let config = ClientCredentialsConfig::ClientSecret { client_id, client_secret, scopes, resource };
                self.exchange_secret(&http, manager, metadata, config).await?;
            }
            self.entry.change(|record| record.wanted.clear());
            Ok(())
        };
        self.with_timeout(&http, exchanging).await
    }

    /// Exchanges the client's secret for a token.
    async fn exchange_secret(
        &self,
        http: &AuthServerClient,
        mut manager: AuthorizationManager,
        metadata: AuthorizationMetadata,
        config: ClientCredentialsConfig,
    ) -> Result<(), OAuthError> {
        manager.validate_client_credentials_metadata(&config).map_err(|error| oauth_error(http, &error))?;
        manager.configure_client_credentials(&config).map_err(|error| oauth_error(http, &error))?;
        self.bind_secret(metadata.issuer.as_deref());
        // This future is not `Send`, so it runs on a thread of its own; the HTTP client limits its time.
        let runtime = tokio::runtime::Handle::current();
        let exchange = move || runtime.block_on(manager.exchange_client_credentials(&config)).map(drop);
        match tokio::task::spawn_blocking(exchange).await {
            Ok(exchanged) => exchanged.map_err(|error| oauth_error(http, &error)),
            Err(broken) => match broken.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(OAuthError::Unreachable("all connections are being closed".to_owned())),
            },
        }
    }

    /// Exchanges an assertion signed with the client's key for a token.
    async fn exchange_assertion(
        &self,
        http: &AuthServerClient,
        metadata: AuthorizationMetadata,
        client_id: String,
        file: &Path,
        scopes: &[String],
    ) -> Result<(), OAuthError> {
        let failed = |why: String| oauth_error(http, &AuthError::ClientCredentialsError(why));
        let key = AssertionKey::read(file)?;
        check_supported(&metadata, METHODS, "auth method", "private_key_jwt").map_err(failed)?;
        check_supported(&metadata, SIGNING_ALGORITHMS, "signing algorithm", key.algorithm).map_err(failed)?;
        let endpoint = Url::parse(&metadata.token_endpoint)
            .map_err(|error| failed(format!("Invalid token endpoint URL in authorization metadata: {error}")))?;
        if !http.may_receive_assertion(&endpoint) {
            let text = "Insecure token endpoint URL: HTTPS is required for client credentials flow";
            return Err(failed(text.to_owned()));
        }
        self.bind_secret(metadata.issuer.as_deref());
        let audience = metadata.issuer.as_deref().unwrap_or_default();
        let assertion =
            key.sign(&client_id, audience).map_err(|error| failed(format!("Failed to sign JWT: {error}")))?;
        // The assertion names the client, so the form does not (RFC 7523 §3).
        let scope = scopes.join(" ");
        let mut form = vec![
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
            ("resource", self.url.as_str()),
        ];
        if !scopes.is_empty() {
            form.push(("scope", &scope));
        }
        let sent = http.post_form(endpoint, &form).await;
        let response = sent.map_err(|error| failed(format!("Token exchange request failed: {error}")))?;
        if !response.status().is_success() {
            let why = match serde_json::from_slice::<Value>(response.body()) {
                Ok(body) => {
                    let text = |key: &str| body.get(key).and_then(Value::as_str);
                    format!("{}: {}", text("error").unwrap_or("unknown"), text("error_description").unwrap_or(""))
                }
                Err(_) => format!("HTTP {}", response.status()),
            };
            return Err(failed(format!("Token exchange failed: {why}")));
        }
        let token: OAuthTokenResponse = serde_json::from_slice(response.body())
            .map_err(|error| failed(format!("Failed to parse token response: {error}")))?;
        let scope = json!(token)["scope"].as_str().unwrap_or_default().to_owned();
        let granted = scope.split_whitespace().map(str::to_owned).collect();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let credentials = StoredCredentials::new(client_id, Some(token), granted, Some(now));
        OAuthToken::check(&credentials).map_err(failed)?;
        self.entry.change(|record| record.credentials = Some(credentials.with_issuer(metadata.issuer)));
        Ok(())
    }

    fn http(&self) -> Result<Arc<AuthServerClient>, OAuthError> {
        let ResolvedOAuth { issuer, metadata_url, token_url, authorization_url, .. } = &self.oauth;
        let named = [issuer, metadata_url, token_url, authorization_url];
        let named: Vec<&str> = named.into_iter().flatten().map(String::as_str).collect();
        let http =
            AuthServerClient::new(&self.site, &named).map_err(|failed| OAuthError::Settings(failed.to_string()))?;
        Ok(Arc::new(http))
    }

    /// Finds the authorization server's metadata; the configuration comes first. They always have an issuer, and it is
    /// one that may get the configured secret.
    async fn discover(
        &self,
        http: &Arc<AuthServerClient>,
        challenge: Option<&str>,
    ) -> Result<(AuthorizationManager, AuthorizationMetadata), OAuthError> {
        let oauth = &self.oauth;
        let made = AuthorizationManager::new_with_oauth_http_client(self.url.clone(), Arc::clone(http) as _).await;
        let mut manager = made.map_err(|error| oauth_error(http, &error))?;
        manager.set_credential_store(CredentialAdapter(Arc::clone(&self.entry)));
        let mut metadata = if let Some(url) = &oauth.metadata_url {
            fetched(http, url).await?
        } else if let Some(token_url) = &oauth.token_url {
            let mut metadata = AuthorizationMetadata::default();
            metadata.token_endpoint.clone_from(token_url);
            metadata.authorization_endpoint = oauth.authorization_url.as_ref().unwrap_or(token_url).clone();
            metadata.issuer.clone_from(&oauth.issuer);
            metadata.code_challenge_methods_supported = Some(vec![S256.to_owned()]);
            metadata
        } else {
            let resolved = manager.resolve_metadata_from_challenge(challenge).await;
            let resolved = resolved.map_err(|error| oauth_error(http, &error))?;
            let mut metadata = resolved.metadata;
            if !resolved.source.is_discovered() {
                // The server has no metadata at all, so it is its own issuer.
                metadata.issuer = Some(self.url.origin().ascii_serialization());
                metadata.code_challenge_methods_supported = Some(vec![S256.to_owned()]);
            }
            http.check_described(metadata.issuer.as_deref()).map_err(OAuthError::Refused)?;
            metadata
        };
        if metadata.issuer.is_none() {
            // The configuration names the token endpoint, or metadata without an issuer.
            let endpoint = oauth.token_url.as_ref().unwrap_or(&metadata.token_endpoint);
            metadata.issuer = Url::parse(endpoint).ok().map(|url| url.origin().ascii_serialization());
        }
        if let Some(wanted) = &oauth.issuer {
            let found = metadata.issuer.as_deref().unwrap_or("an unknown issuer");
            if found.trim_end_matches('/') != wanted.trim_end_matches('/') {
                let text = format!("tokens for the server are issued by {found}, but the configuration names {wanted}");
                return Err(OAuthError::Refused(text));
            }
        }
        if self.binds_secret() {
            let bound = self.entry.load().secret_issuer;
            let bound = bound.as_deref().or(metadata.issuer.as_deref());
            check_issuer("the client_secret or key was first used with", bound, metadata.issuer.as_deref())?;
        }
        let method = oauth.token_auth.map(|how| match how {
            TokenAuth::Basic => "client_secret_basic",
            TokenAuth::Post => "client_secret_post",
            TokenAuth::PrivateKeyJwt => "private_key_jwt",
        });
        if let Some(method) = method {
            metadata.additional_fields.insert(METHODS.to_owned(), json!([method]));
        }
        manager.set_metadata(metadata.clone());
        Ok((manager, metadata))
    }

    /// Reports whether the configuration has a secret or key, but does not say which issuer it belongs to.
    fn binds_secret(&self) -> bool {
        let ResolvedOAuth { client_secret, private_key, issuer, metadata_url, token_url, .. } = &self.oauth;
        let named = issuer.is_some() || metadata_url.is_some() || token_url.is_some();
        !named && (client_secret.is_some() || private_key.is_some())
    }

    /// Remembers which issuer gets the configured secret, before it is sent for the first time; no other issuer ever
    /// gets it.
    fn bind_secret(&self, issuer: Option<&str>) {
        if self.binds_secret() && self.entry.load().secret_issuer.is_none() {
            self.entry.change(|record| {
                record.url = self.url.to_string();
                record.secret_issuer = issuer.map(str::to_owned);
            });
        }
    }

    /// Runs the exchange with an authorization server within the time limit; no person is involved.
    async fn with_timeout<T>(
        &self,
        http: &AuthServerClient,
        work: impl Future<Output = Result<T, OAuthError>>,
    ) -> Result<T, OAuthError> {
        let limit = self.oauth.limit;
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(OAuthError::Unreachable(format!("no answer within {limit:?}{}", http.last().target))),
        }
    }

    fn hide(&self, secret: &str) {
        lock(&self.secrets).add(secret);
    }
}

/// Fails if something belongs to another issuer than the one that the server names now.
fn check_issuer(what: &str, theirs: Option<&str>, now: Option<&str>) -> Result<(), OAuthError> {
    let bare = |issuer: Option<&str>| issuer.map(|issuer| issuer.trim_end_matches('/').to_owned());
    if theirs.is_some() && bare(theirs) == bare(now) {
        return Ok(());
    }
    let (theirs, now) = (theirs.unwrap_or("an unknown issuer"), now.unwrap_or("none"));
    Err(OAuthError::Refused(format!(
        "{what} {theirs}, but the server now names {now}, so it is not sent; if the change is right, set `auth.issuer` to \
         {now}, or run `toolgate auth logout`"
    )))
}

/// Fails unless the metadata says that a stolen code is useless without our proof (PKCE, RFC 7636). The specification of
/// MCP says that a client must not go on if the metadata leaves that open. A server without metadata, or whose endpoints
/// the configuration names, cannot say it.
fn check_pkce(metadata: &AuthorizationMetadata) -> Result<(), OAuthError> {
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if methods.iter().any(|method| method == S256) {
        return Ok(());
    }
    let text = "the metadata of the authorization server does not say that it supports PKCE \
                (`code_challenge_methods_supported` with S256); if you know that it does, set `authorization_url` and \
                `token_url` in the server's `auth`";
    Err(OAuthError::Refused(text.to_owned()))
}

/// Fetches the metadata of an authorization server.
async fn fetched(http: &AuthServerClient, url: &str) -> Result<AuthorizationMetadata, OAuthError> {
    let unusable = |why: String| OAuthError::Unreachable(format!("{url}: {why}"));
    let response = http.get(url).await.map_err(|error| unusable(error.to_string()))?;
    if !response.status().is_success() {
        return Err(unusable(format!("HTTP status {}", response.status().as_u16())));
    }
    serde_json::from_slice(response.body())
        .map_err(|error| unusable(format!("not the metadata of an authorization server: {error}")))
}

/// Fails if the metadata has a list of what is supported and this is not in it.
fn check_supported(metadata: &AuthorizationMetadata, list: &str, what: &str, needed: &str) -> Result<(), String> {
    let Some(list) = metadata.additional_fields.get(list).and_then(Value::as_array) else { return Ok(()) };
    let supported: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    if supported.contains(&needed) {
        return Ok(());
    }
    Err(format!("Authorization server does not support {what} '{needed}'. Supported: {supported:?}"))
}

/// Converts an error; if the authorization server did not answer, a later attempt may work.
fn oauth_error(http: &AuthServerClient, error: &AuthError) -> OAuthError {
    let text = http.redact(&error.to_string()).replace("\n  Caused by:", ":").replace(['\n', '\r'], " ");
    // The error of `rmcp` says only that a request failed, so prefer the reason that the client noted.
    let last = http.last();
    if let Some(refused) = last.refused {
        return OAuthError::Refused(refused);
    }
    match (error, last.trouble) {
        (AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_), _) => OAuthError::NeedsPerson,
        (_, Some(trouble)) => OAuthError::Unreachable(format!("{text} ({trouble})")),
        (_, None) => OAuthError::Refused(text),
    }
}

const NAME: &str = "toolgate";
const S256: &str = "S256";
const METHODS: &str = "token_endpoint_auth_methods_supported";
const SIGNING_ALGORITHMS: &str = "token_endpoint_auth_signing_alg_values_supported";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_metadata_does_not_list_is_not_tried() {
        let mut metadata = AuthorizationMetadata::default();
        let check = |metadata: &AuthorizationMetadata| {
            check_supported(metadata, SIGNING_ALGORITHMS, "signing algorithm", "ES256")
        };
        assert_eq!(check(&metadata), Ok(()));
        metadata.additional_fields.insert(SIGNING_ALGORITHMS.to_owned(), json!(["RS256", "ES256"]));
        assert_eq!(check(&metadata), Ok(()));
        metadata.additional_fields.insert(SIGNING_ALGORITHMS.to_owned(), json!(["RS256"]));
        let text = "Authorization server does not support signing algorithm 'ES256'. Supported: [\"RS256\"]";
        assert_eq!(check(&metadata), Err(text.to_owned()));
    }
}
