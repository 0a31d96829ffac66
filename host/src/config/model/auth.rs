//! How we prove to a server who we are.

use super::UnexpandedText;

/// How we prove to a server who we are.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ServerAuth {
    /// Not at all, or by headers that are written out.
    #[default]
    None,
    /// A token, as `Authorization: Bearer`.
    Bearer(UnexpandedText),
    /// A key in a header or in the query of the address.
    ApiKey {
        /// The key.
        value: UnexpandedText,
        /// Where it goes.
        r#in: ApiKeyLocation,
    },
    /// A name and a password, as `Authorization: Basic`.
    Basic {
        /// The name.
        user: UnexpandedText,
        /// The password.
        password: UnexpandedText,
    },
    /// OAuth.
    OAuth(Box<OAuthConfig>),
}

/// Where a key goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKeyLocation {
    /// Into the header of this name.
    Header(String),
    /// Into the query parameter of this name.
    Query(String),
}

/// What the file says about OAuth; all else is found out from the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuthConfig {
    /// How a token is asked for.
    pub grant: OAuthGrant,
    /// Our id at the authorization server, where we are registered.
    pub client_id: Option<UnexpandedText>,
    /// The secret that goes with it.
    pub client_secret: Option<UnexpandedText>,
    /// Where our description is published (a client id metadata document), for authorization servers that read it.
    pub client_metadata_url: Option<UnexpandedText>,
    /// How we prove at the token endpoint who we are, if not as the authorization server likes best.
    pub token_auth: Option<TokenAuth>,
    /// A PEM file with the key that signs for us, for `private_key_jwt`.
    pub private_key: Option<UnexpandedText>,
    /// The one authorization server to accept.
    pub issuer: Option<UnexpandedText>,
    /// What we ask for.
    pub scopes: Vec<String>,
    /// The port of the local callback; any free one where none is given.
    pub callback_port: Option<u16>,
    /// Where a person gives consent, if the server does not say.
    pub authorization_url: Option<UnexpandedText>,
    /// Where tokens are given out, if the server does not say.
    pub token_url: Option<UnexpandedText>,
    /// Where the authorization server describes itself, if the server does not say.
    pub metadata_url: Option<UnexpandedText>,
}

/// How a token is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OAuthGrant {
    /// A person gives consent in a browser.
    #[default]
    AuthorizationCode,
    /// The id and the secret suffice.
    ClientCredentials,
}

/// How we prove at a token endpoint who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAuth {
    /// The id and the secret, as `Authorization: Basic`.
    Basic,
    /// The id and the secret, in the form that is posted.
    Post,
    /// A statement signed with our key (RFC 7523).
    PrivateKeyJwt,
}

impl OAuthConfig {
    /// All that may have variables in it.
    pub fn texts(&self) -> impl Iterator<Item = &UnexpandedText> {
        let OAuthConfig { client_id, client_secret, client_metadata_url, private_key, issuer, .. } = self;
        let OAuthConfig { authorization_url, token_url, metadata_url, .. } = self;
        let ours = [client_id, client_secret, client_metadata_url, private_key, issuer];
        ours.into_iter().chain([authorization_url, token_url, metadata_url]).flatten()
    }

    /// The same, to be changed.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut UnexpandedText> {
        let OAuthConfig { client_id, client_secret, client_metadata_url, private_key, issuer, .. } = self;
        let ours = [client_id, client_secret, client_metadata_url, private_key, issuer];
        ours.into_iter().chain([&mut self.authorization_url, &mut self.token_url, &mut self.metadata_url]).flatten()
    }
}
