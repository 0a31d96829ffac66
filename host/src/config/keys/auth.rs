//! The keys of a server's `auth`.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{ApiKeyLocation, OAuthConfig, OAuthGrant, ServerAuth, TokenAuth, UnexpandedText};
use super::super::section::{ChoiceForm, ConfigKey, KeyForm, name_of, read_keys, schema};

/// The value of `auth` as written, before its type is known.
#[derive(Default)]
pub(crate) struct AuthDraft {
    kind: Option<AuthKind>,
    token: Option<UnexpandedText>,
    key: Option<UnexpandedText>,
    header: Option<String>,
    query: Option<String>,
    user: Option<UnexpandedText>,
    password: Option<UnexpandedText>,
    /// The keys that only OAuth has; `None` if there are none.
    oauth: Option<OAuthConfig>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum AuthKind {
    None,
    Bearer,
    ApiKey,
    Basic,
    OAuth,
}

type Key = ConfigKey<AuthDraft>;

/// The keys of `auth`.
pub(crate) const AUTH: &[Key] = &[
    Key::new("type", KeyForm::choice(&ChoiceForm(KINDS, |auth, choice| auth.kind = Some(choice))))
        .about("The kind of authentication; if not given, the other keys imply it.")
        .default("\"none\""),
    Key::new("token", KeyForm::UnexpandedText(|auth, text| auth.token = Some(text)))
        .about("For bearer: the token.")
        .aliased(&["bearer_token", "access_token"]),
    Key::new("key", KeyForm::UnexpandedText(|auth, text| auth.key = Some(text)))
        .about("For api_key: the key.")
        .aliased(&["api_key", "value"]),
    Key::new("header", KeyForm::Text(|auth, text| auth.header = Some(text)))
        .about("For api_key: the header that carries the key.")
        .default("\"X-API-Key\""),
    Key::new("query", KeyForm::Text(|auth, text| auth.query = Some(text)))
        .about("For api_key: the query parameter that carries the key, instead of a header."),
    Key::new("user", KeyForm::UnexpandedText(|auth, text| auth.user = Some(text)))
        .about("For basic: the user name.")
        .aliased(&["username"]),
    Key::new("password", KeyForm::UnexpandedText(|auth, text| auth.password = Some(text)))
        .about("For basic: the password."),
    Key::new("grant", KeyForm::choice(&ChoiceForm(GRANTS, |auth, choice| auth.oauth().grant = choice)))
        .about("For oauth: `authorization_code` (a person consents in a browser) or `client_credentials`.")
        .default("\"authorization_code\"")
        .aliased(&["grant_type"]),
    Key::new(
        "client_id",
        KeyForm::UnexpandedText(|auth, text| {
            // Some clients write an empty id if they are not registered.
            auth.oauth().client_id = Some(text).filter(|id| !id.text.is_empty())
        }),
    )
    .about("For oauth: the id of a registered client."),
    Key::new(
        "client_secret",
        KeyForm::UnexpandedText(|auth, text| {
            auth.oauth().client_secret = Some(text).filter(|secret| !secret.text.is_empty())
        }),
    )
    .about("For oauth: the secret of the registered client."),
    Key::new(
        "client_metadata_url",
        KeyForm::UnexpandedText(|auth, text| auth.oauth().client_metadata_url = Some(text)),
    )
    .about("For oauth: the address of a published client description, which serves as the client id."),
    Key::new(
        "token_auth",
        KeyForm::choice(&ChoiceForm(TOKEN_AUTHS, |auth, choice| auth.oauth().token_auth = Some(choice))),
    )
    .about("For oauth: how to authenticate at the token endpoint; default: as the authorization server says.")
    .aliased(&["token_endpoint_auth_method"]),
    Key::new("private_key", KeyForm::UnexpandedText(|auth, text| auth.oauth().private_key = Some(text)))
        .about("For oauth with private_key_jwt: a PEM file with the key that signs."),
    Key::new("issuer", KeyForm::UnexpandedText(|auth, text| auth.oauth().issuer = Some(text)))
        .about("For oauth: the only authorization server to accept; default: the first one that a secret was sent to."),
    Key::new(
        "scopes",
        KeyForm::Texts(|auth, texts| {
            // Also accepts one string with spaces, the way OAuth sends scopes.
            auth.oauth().scopes = texts.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
        }),
    )
    .about("For oauth: the scopes to request.")
    .default("[]")
    .aliased(&["scope"]),
    Key::new(
        "callback_port",
        KeyForm::Number(1, 65_535, |auth, number| auth.oauth().callback_port = u16::try_from(number).ok()),
    )
    .about("For oauth: the port of the local callback; default: any free one."),
    Key::new("authorization_url", KeyForm::UnexpandedText(|auth, text| auth.oauth().authorization_url = Some(text)))
        .about("For oauth: the authorization endpoint, if the server does not name it."),
    Key::new("token_url", KeyForm::UnexpandedText(|auth, text| auth.oauth().token_url = Some(text)))
        .about("For oauth: the token endpoint, if the server does not name it."),
    Key::new("metadata_url", KeyForm::UnexpandedText(|auth, text| auth.oauth().metadata_url = Some(text)))
        .about("For oauth: the authorization server's metadata, if the server does not name it.")
        .aliased(&["authServerMetadataUrl"]),
    // Gemini CLI switches OAuth on or off with this key, which `read_oauth` checks first.
    Key::hidden("enabled", KeyForm::Custom(schema::text, |_, _, _| Ok(()))),
];

/// Reads `auth`.
pub(crate) fn read_auth(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<ServerAuth, FieldError> {
    AuthDraft::default().read(field, context)
}

/// Reads `oauth`, which some clients write instead of `auth`; `false` means none.
pub(crate) fn read_oauth(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<ServerAuth, FieldError> {
    if let Ok(flag) = field.flag() {
        return Ok(if flag { ServerAuth::OAuth(Box::default()) } else { ServerAuth::None });
    }
    let enabled = field.node.at("enabled").map(|node| ConfigField { node, field: String::new() }.flag());
    if let Some(Ok(false)) = enabled {
        return Ok(ServerAuth::None);
    }
    AuthDraft { kind: Some(AuthKind::OAuth), ..AuthDraft::default() }.read(field, context)
}

impl AuthDraft {
    fn oauth(&mut self) -> &mut OAuthConfig {
        self.oauth.get_or_insert_default()
    }

    /// Reads the keys, and what they mean together.
    fn read(mut self, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<ServerAuth, FieldError> {
        read_keys(AUTH, &mut self, field, context);
        let kind = self.kind.unwrap_or(match () {
            () if self.token.is_some() => AuthKind::Bearer,
            () if self.key.is_some() => AuthKind::ApiKey,
            () if self.user.is_some() => AuthKind::Basic,
            () if self.oauth.is_some() => AuthKind::OAuth,
            () => AuthKind::None,
        });
        let parts = [
            ("token", self.token.is_some(), AuthKind::Bearer),
            ("key", self.key.is_some(), AuthKind::ApiKey),
            ("header", self.header.is_some(), AuthKind::ApiKey),
            ("query", self.query.is_some(), AuthKind::ApiKey),
            ("user", self.user.is_some(), AuthKind::Basic),
            ("password", self.password.is_some(), AuthKind::Basic),
            ("a key for OAuth, such as client_id,", self.oauth.is_some(), AuthKind::OAuth),
        ];
        if let Some((part, _, owner)) = parts.iter().find(|(_, present, owner)| *present && *owner != kind) {
            return Err(field.error(format!(
                "{part} goes with type {}, not with type {}",
                name_of(KINDS, *owner),
                name_of(KINDS, kind)
            )));
        }
        let missing = |part: &str| field.error(format!("type {} needs a `{part}`", name_of(KINDS, kind)));
        Ok(match kind {
            AuthKind::None => ServerAuth::None,
            AuthKind::Bearer => ServerAuth::Bearer(self.token.ok_or_else(|| missing("token"))?),
            AuthKind::Basic => ServerAuth::Basic {
                user: self.user.ok_or_else(|| missing("user"))?,
                password: self.password.ok_or_else(|| missing("password"))?,
            },
            AuthKind::ApiKey => ServerAuth::ApiKey {
                value: self.key.ok_or_else(|| missing("key"))?,
                r#in: match (self.header, self.query) {
                    (Some(_), Some(_)) => {
                        return Err(field.error("a key goes into a header or into the query; keep one"));
                    }
                    (None, Some(query)) => ApiKeyLocation::Query(query),
                    (header, None) => ApiKeyLocation::Header(header.unwrap_or_else(|| HEADER.to_owned())),
                },
            },
            AuthKind::OAuth => ServerAuth::OAuth(Box::new(check_oauth(self.oauth.unwrap_or_default(), field)?)),
        })
    }
}

/// Refuses combinations that would fail at the first call.
fn check_oauth(oauth: OAuthConfig, field: &ConfigField<'_>) -> Result<OAuthConfig, FieldError> {
    let signs = oauth.token_auth == Some(TokenAuth::PrivateKeyJwt);
    if signs != oauth.private_key.is_some() {
        return Err(field.error("`token_auth: private_key_jwt` and `private_key` go together"));
    }
    if oauth.grant == OAuthGrant::ClientCredentials {
        if oauth.client_id.is_none() {
            return Err(field.error("grant client_credentials needs a `client_id`"));
        }
        if oauth.client_secret.is_none() && !signs {
            return Err(field.error("grant client_credentials needs a `client_secret`, or a `private_key` that signs"));
        }
    } else if signs {
        return Err(field.error("private_key_jwt goes with grant client_credentials"));
    }
    let consent = oauth.grant == OAuthGrant::AuthorizationCode;
    if consent && oauth.metadata_url.is_none() && oauth.authorization_url.is_some() != oauth.token_url.is_some() {
        return Err(field.error("`authorization_url` and `token_url` go together"));
    }
    Ok(oauth)
}

const KINDS: &[(&str, AuthKind)] = &[
    ("none", AuthKind::None),
    ("bearer", AuthKind::Bearer),
    ("api_key", AuthKind::ApiKey),
    ("basic", AuthKind::Basic),
    ("oauth", AuthKind::OAuth),
];
/// The values of `grant`.
pub(crate) const GRANTS: &[(&str, OAuthGrant)] =
    &[("authorization_code", OAuthGrant::AuthorizationCode), ("client_credentials", OAuthGrant::ClientCredentials)];
/// The values of `token_auth`; the longer ones are OAuth's own names.
pub(crate) const TOKEN_AUTHS: &[(&str, TokenAuth)] = &[
    ("basic", TokenAuth::Basic),
    ("post", TokenAuth::Post),
    ("private_key_jwt", TokenAuth::PrivateKeyJwt),
    ("client_secret_basic", TokenAuth::Basic),
    ("client_secret_post", TokenAuth::Post),
];
const HEADER: &str = "X-API-Key";
