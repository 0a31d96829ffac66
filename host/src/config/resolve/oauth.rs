//! Resolves the OAuth settings of a server.

use std::path::PathBuf;
use std::time::Duration;

use super::resolver::{ConfigResolver, resolve_with, server_path, with_env_file};
use super::site;
use crate::config::model::{
    Config, OAuthConfig, OAuthGrant, Problem, ServerAuth, ServerConfig, TokenAuth, UnexpandedText,
};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;

/// The OAuth settings of a server; everything else is discovered from the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedOAuth {
    /// Whether the configuration asks for OAuth; otherwise the server has to.
    pub is_configured: bool,
    /// How to get a token.
    pub grant: OAuthGrant,
    /// The id of a registered client.
    pub client_id: Option<String>,
    /// The secret of the registered client.
    pub client_secret: Option<String>,
    /// The address of a published client id metadata document.
    pub client_metadata_url: Option<String>,
    /// How to authenticate at the token endpoint.
    pub token_auth: Option<TokenAuth>,
    /// The file with the key that signs.
    pub private_key: Option<PathBuf>,
    /// The only authorization server to accept.
    pub issuer: Option<String>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The port of the local callback.
    pub callback_port: Option<u16>,
    /// The authorization endpoint.
    pub authorization_url: Option<String>,
    /// The token endpoint.
    pub token_url: Option<String>,
    /// The address of the authorization server's metadata.
    pub metadata_url: Option<String>,
    /// How long the exchange with an authorization server may take in total, not counting a person.
    pub limit: Duration,
    /// Values to hide.
    pub secrets: Secrets,
}

/// Resolves a server's OAuth settings; returns `None` if it uses another kind of authentication.
pub fn resolve_oauth(
    server: &ServerConfig,
    config: &Config,
    variables: &Variables,
) -> Result<Option<ResolvedOAuth>, Problem> {
    let none = OAuthConfig::default();
    let oauth = match &server.auth {
        ServerAuth::OAuth(oauth) => oauth,
        ServerAuth::None => &none,
        ServerAuth::Bearer(_) | ServerAuth::ApiKey { .. } | ServerAuth::Basic { .. } => return Ok(None),
    };
    let path = server_path(config.shape, &server.id);
    let fill = |resolver: &mut ConfigResolver<'_>| with_env_file(resolver, |resolver| resolve_fields(resolver, oauth));
    let (mut oauth, secrets) = resolve_with(server, &path, config, variables, None, fill)?;
    oauth.secrets = secrets;
    Ok(Some(oauth))
}

fn resolve_fields(resolver: &mut ConfigResolver<'_>, oauth: &OAuthConfig) -> Result<ResolvedOAuth, Problem> {
    let client_secret = text(resolver, oauth.client_secret.as_ref())?;
    if let Some(secret) = &client_secret {
        resolver.secrets.add(secret);
    }
    Ok(ResolvedOAuth {
        is_configured: matches!(resolver.server.auth, ServerAuth::OAuth(_)),
        grant: oauth.grant,
        client_id: text(resolver, oauth.client_id.as_ref())?,
        client_secret,
        client_metadata_url: address(resolver, oauth.client_metadata_url.as_ref())?,
        token_auth: oauth.token_auth,
        private_key: resolver.optional_path(oauth.private_key.as_ref())?,
        issuer: address(resolver, oauth.issuer.as_ref())?,
        scopes: oauth.scopes.clone(),
        callback_port: oauth.callback_port,
        authorization_url: address(resolver, oauth.authorization_url.as_ref())?,
        token_url: address(resolver, oauth.token_url.as_ref())?,
        metadata_url: address(resolver, oauth.metadata_url.as_ref())?,
        limit: resolver.server.timeouts.initialize,
        secrets: Secrets::default(),
    })
}

/// Expands a text; an empty one counts as not given.
fn text(resolver: &mut ConfigResolver<'_>, located: Option<&UnexpandedText>) -> Result<Option<String>, Problem> {
    let text = located.map(|located| resolver.text(located)).transpose()?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn address(resolver: &mut ConfigResolver<'_>, text: Option<&UnexpandedText>) -> Result<Option<String>, Problem> {
    text.map(|text| site::resolve_address(resolver, text)).transpose()
}
