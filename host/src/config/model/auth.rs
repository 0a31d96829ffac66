//! How toolgate authenticates to a server, as written in the file.

use super::UnexpandedText;

/// How toolgate authenticates to a server.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ServerAuth {
    /// No authentication, or only by `headers`.
    #[default]
    None,
    /// A token, sent as `Authorization: Bearer`.
    Bearer(UnexpandedText),
    /// A key in a header or in the query of the URL.
    ApiKey {
        /// The key.
        value: UnexpandedText,
        /// Where the key goes.
        r#in: ApiKeyLocation,
    },
    /// A user name and a password, sent as `Authorization: Basic`.
    Basic {
        /// The user name.
        user: UnexpandedText,
        /// The password.
        password: UnexpandedText,
    },
    /// OAuth.
    OAuth(Box<OAuthConfig>),
}

/// Where an API key goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKeyLocation {
    /// In the header of this name.
    Header(String),
    /// In the query parameter of this name.
    Query(String),
}

/// The OAuth settings of the file; everything else is discovered from the server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OAuthConfig {
    /// How to get a token.
    pub grant: OAuthGrant,
    /// The id of a registered client.
    pub client_id: Option<UnexpandedText>,
    /// The secret of the registered client.
    pub client_secret: Option<UnexpandedText>,
    /// The address of a published client id metadata document, for authorization servers that read it.
    pub client_metadata_url: Option<UnexpandedText>,
    /// How to authenticate at the token endpoint, if not as the authorization server prefers.
    pub token_auth: Option<TokenAuth>,
    /// A PEM file with the key that signs, for `private_key_jwt`.
    pub private_key: Option<UnexpandedText>,
    /// The only authorization server to accept.
    pub issuer: Option<UnexpandedText>,
    /// The scopes to request.
    pub scopes: Vec<String>,
    /// The port of the local callback; `None` means any free one.
    pub callback_port: Option<u16>,
    /// The authorization endpoint, if the server does not name it.
    pub authorization_url: Option<UnexpandedText>,
    /// The token endpoint, if the server does not name it.
    pub token_url: Option<UnexpandedText>,
    /// The authorization server's metadata, if the server does not name it.
    pub metadata_url: Option<UnexpandedText>,
}

/// How to get a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OAuthGrant {
    /// A person consents in a browser.
    #[default]
    AuthorizationCode,
    /// The id and the secret, or a signature, are enough.
    ClientCredentials,
}

/// How to authenticate at a token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAuth {
    /// The id and the secret, sent as `Authorization: Basic`.
    Basic,
    /// The id and the secret, sent in the form body.
    Post,
    /// A signed assertion (RFC 7523).
    PrivateKeyJwt,
}

impl OAuthConfig {
    /// Returns all texts that may contain variables.
    pub fn texts(&mut self) -> impl Iterator<Item = &mut UnexpandedText> {
        let OAuthConfig { client_id, client_secret, client_metadata_url, private_key, issuer, .. } = self;
        let ours = [client_id, client_secret, client_metadata_url, private_key, issuer];
        ours.into_iter().chain([&mut self.authorization_url, &mut self.token_url, &mut self.metadata_url]).flatten()
    }
}
