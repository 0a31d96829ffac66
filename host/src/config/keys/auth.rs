//! The keys of a server's `auth`.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{ApiKeyLocation, OAuthConfig, OAuthGrant, ServerAuth, TokenAuth, UnexpandedText};
use super::{ConfigKey, KeyForm, read_keys};

/// The value of `auth` as written, before its type is known.
#[derive(Default)]
pub struct AuthDraft {
    kind: Option<AuthKind>,
    token: Option<UnexpandedText>,
    key: Option<UnexpandedText>,
    header: Option<String>,
    query: Option<String>,
    user: Option<UnexpandedText>,
    password: Option<UnexpandedText>,
    oauth: OAuthConfig,
    /// Whether a key is given that only OAuth has.
    oauth_given: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum AuthKind {
    None,
    Bearer,
    ApiKey,
    Basic,
    OAuth,
}

/// The keys of `auth`.
pub const AUTH: &[ConfigKey<AuthDraft>] = &[
    ConfigKey::new(
        "type",
        KeyForm::Choice(&["none", "bearer", "api_key", "basic", "oauth"]),
        "\"none\"",
        "The kind of authentication; if not given, the other keys imply it.",
        |auth, field, _| {
            auth.kind = Some(field.choice(KINDS)?);
            Ok(())
        },
    ),
    ConfigKey::aliased(
        &["bearer_token", "access_token"],
        ConfigKey::new("token", KeyForm::Text, "", "For bearer: the token.", |auth, field, _| {
            auth.token = Some(field.unexpanded_text()?);
            Ok(())
        }),
    ),
    ConfigKey::aliased(
        &["api_key", "value"],
        ConfigKey::new("key", KeyForm::Text, "", "For api_key: the key.", |auth, field, _| {
            auth.key = Some(field.unexpanded_text()?);
            Ok(())
        }),
    ),
    ConfigKey::new(
        "header",
        KeyForm::Text,
        "\"X-API-Key\"",
        "For api_key: the header that carries the key.",
        |auth, field, _| {
            auth.header = Some(field.text()?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "query",
        KeyForm::Text,
        "",
        "For api_key: the query parameter that carries the key, instead of a header.",
        |auth, field, _| {
            auth.query = Some(field.text()?);
            Ok(())
        },
    ),
    ConfigKey::aliased(
        &["username"],
        ConfigKey::new("user", KeyForm::Text, "", "For basic: the user name.", |auth, field, _| {
            auth.user = Some(field.unexpanded_text()?);
            Ok(())
        }),
    ),
    ConfigKey::new("password", KeyForm::Text, "", "For basic: the password.", |auth, field, _| {
        auth.password = Some(field.unexpanded_text()?);
        Ok(())
    }),
    ConfigKey::aliased(
        &["grant_type"],
        ConfigKey::new(
            "grant",
            KeyForm::Choice(&["authorization_code", "client_credentials"]),
            "\"authorization_code\"",
            "For oauth: `authorization_code` (a person consents in a browser) or `client_credentials`.",
            |auth, field, _| {
                auth.oauth_given = true;
                auth.oauth.grant = field.choice(GRANTS)?;
                Ok(())
            },
        ),
    ),
    ConfigKey::new("client_id", KeyForm::Text, "", "For oauth: the id of a registered client.", |auth, field, _| {
        auth.oauth_given = true;
        // Some clients write an empty id if they are not registered.
        auth.oauth.client_id = Some(field.unexpanded_text()?).filter(|id| !id.text.is_empty());
        Ok(())
    }),
    ConfigKey::new(
        "client_secret",
        KeyForm::Text,
        "",
        "For oauth: the secret of the registered client.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.client_secret = Some(field.unexpanded_text()?).filter(|secret| !secret.text.is_empty());
            Ok(())
        },
    ),
    ConfigKey::new(
        "client_metadata_url",
        KeyForm::Text,
        "",
        "For oauth: the address of a published client description, which serves as the client id.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.client_metadata_url = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::aliased(
        &["token_endpoint_auth_method"],
        ConfigKey::new(
            "token_auth",
            KeyForm::Choice(&["basic", "post", "private_key_jwt"]),
            "",
            "For oauth: how to authenticate at the token endpoint; default: as the authorization server says.",
            |auth, field, _| {
                auth.oauth_given = true;
                auth.oauth.token_auth = Some(field.choice(TOKEN_AUTHS)?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "private_key",
        KeyForm::Text,
        "",
        "For oauth with private_key_jwt: a PEM file with the key that signs.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.private_key = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "issuer",
        KeyForm::Text,
        "",
        "For oauth: the only authorization server to accept; default: a secret is tied to the first one it was sent to.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.issuer = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::aliased(
        &["scope"],
        ConfigKey::new("scopes", KeyForm::Texts, "[]", "For oauth: the scopes to request.", |auth, field, _| {
            auth.oauth_given = true;
            // Also accepts one string with spaces, the way OAuth sends scopes.
            let scopes = field.texts()?;
            auth.oauth.scopes = scopes.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect();
            Ok(())
        }),
    ),
    ConfigKey::new(
        "callback_port",
        KeyForm::Number(1, 65_535),
        "",
        "For oauth: the port of the local callback; default: any free one.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.callback_port = u16::try_from(field.number(1, 65_535)?).ok();
            Ok(())
        },
    ),
    ConfigKey::new(
        "authorization_url",
        KeyForm::Text,
        "",
        "For oauth: the authorization endpoint, if the server does not name it.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.authorization_url = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "token_url",
        KeyForm::Text,
        "",
        "For oauth: the token endpoint, if the server does not name it.",
        |auth, field, _| {
            auth.oauth_given = true;
            auth.oauth.token_url = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::aliased(
        &["authServerMetadataUrl"],
        ConfigKey::new(
            "metadata_url",
            KeyForm::Text,
            "",
            "For oauth: the authorization server's metadata, if the server does not name it.",
            |auth, field, _| {
                auth.oauth_given = true;
                auth.oauth.metadata_url = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    // Gemini CLI switches OAuth on or off with this key, which `read_oauth` checks first.
    ConfigKey::hidden("enabled", |_, _, _| Ok(())),
];

/// Reads `auth`.
pub fn read_auth(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<ServerAuth, FieldError> {
    let mut draft = AuthDraft::default();
    read_keys(AUTH, &mut draft, field, context);
    draft.finish(field)
}

/// Reads `oauth`, which some clients write instead of `auth`; `false` means none.
pub fn read_oauth(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<ServerAuth, FieldError> {
    if let Ok(flag) = field.flag() {
        return Ok(if flag { ServerAuth::OAuth(Box::default()) } else { ServerAuth::None });
    }
    if field
        .node
        .at("enabled")
        .is_some_and(|node| ConfigField { node, field: String::new() }.flag().is_ok_and(|flag| !flag))
    {
        return Ok(ServerAuth::None);
    }
    let mut draft = AuthDraft { kind: Some(AuthKind::OAuth), ..AuthDraft::default() };
    read_keys(AUTH, &mut draft, field, context);
    draft.finish(field)
}

impl AuthDraft {
    fn finish(self, field: &ConfigField<'_>) -> Result<ServerAuth, FieldError> {
        let kind = self.kind.unwrap_or(match () {
            () if self.token.is_some() => AuthKind::Bearer,
            () if self.key.is_some() => AuthKind::ApiKey,
            () if self.user.is_some() => AuthKind::Basic,
            () if self.oauth_given => AuthKind::OAuth,
            () => AuthKind::None,
        });
        let parts = [
            ("token", self.token.is_some(), AuthKind::Bearer),
            ("key", self.key.is_some(), AuthKind::ApiKey),
            ("header", self.header.is_some(), AuthKind::ApiKey),
            ("query", self.query.is_some(), AuthKind::ApiKey),
            ("user", self.user.is_some(), AuthKind::Basic),
            ("password", self.password.is_some(), AuthKind::Basic),
            ("a key for OAuth, such as client_id,", self.oauth_given, AuthKind::OAuth),
        ];
        if let Some((part, _, owner)) = parts.iter().find(|(_, present, owner)| *present && *owner != kind) {
            return Err(field.error(format!("{part} goes with type {}, not with type {}", owner.name(), kind.name())));
        }
        let missing = |part: &str| field.error(format!("type {} needs a `{part}`", kind.name()));
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
            AuthKind::OAuth => ServerAuth::OAuth(Box::new(check_oauth(self.oauth, field)?)),
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

impl AuthKind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("none", |(name, _)| name)
    }
}

const KINDS: &[(&str, AuthKind)] = &[
    ("none", AuthKind::None),
    ("bearer", AuthKind::Bearer),
    ("api_key", AuthKind::ApiKey),
    ("basic", AuthKind::Basic),
    ("oauth", AuthKind::OAuth),
];
/// The values of `grant`.
pub const GRANTS: &[(&str, OAuthGrant)] =
    &[("authorization_code", OAuthGrant::AuthorizationCode), ("client_credentials", OAuthGrant::ClientCredentials)];
/// The values of `token_auth`; the longer ones are OAuth's own names.
pub const TOKEN_AUTHS: &[(&str, TokenAuth)] = &[
    ("basic", TokenAuth::Basic),
    ("post", TokenAuth::Post),
    ("private_key_jwt", TokenAuth::PrivateKeyJwt),
    ("client_secret_basic", TokenAuth::Basic),
    ("client_secret_post", TokenAuth::Post),
];
const HEADER: &str = "X-API-Key";
