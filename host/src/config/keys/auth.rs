//! The keys of a server's `auth`.

use super::super::model::{Auth, Grant, KeyPlace, Located, OAuth, TokenAuth};
use super::super::reading::{Given, Misfit, Reading};
use super::{Form, Key, read};

/// What `auth` says, before it is clear what it means.
#[derive(Default)]
pub struct Draft {
    kind: Option<Kind>,
    token: Option<Located>,
    key: Option<Located>,
    header: Option<String>,
    query: Option<String>,
    user: Option<Located>,
    password: Option<Located>,
    oauth: OAuth,
    /// A key that only OAuth has was given.
    oauth_given: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    None,
    Bearer,
    ApiKey,
    Basic,
    OAuth,
}

/// The keys of `auth`.
pub const AUTH: &[Key<Draft>] = &[
    Key::new(
        "type",
        Form::Choice(&["none", "bearer", "api_key", "basic", "oauth"]),
        "\"none\"",
        "How we prove who we are; the other keys say it too.",
        |auth, given, _| {
            auth.kind = Some(given.choice(KINDS)?);
            Ok(())
        },
    ),
    Key::or(
        &["bearer_token", "access_token"],
        Key::new("token", Form::Text, "", "For bearer: the token.", |auth, given, _| {
            auth.token = Some(given.located()?);
            Ok(())
        }),
    ),
    Key::or(
        &["api_key", "value"],
        Key::new("key", Form::Text, "", "For api_key: the key.", |auth, given, _| {
            auth.key = Some(given.located()?);
            Ok(())
        }),
    ),
    Key::new("header", Form::Text, "\"X-API-Key\"", "For api_key: the header that carries it.", |auth, given, _| {
        auth.header = Some(given.text()?);
        Ok(())
    }),
    Key::new(
        "query",
        Form::Text,
        "",
        "For api_key: the parameter of the address that carries it, in place of a header.",
        |auth, given, _| {
            auth.query = Some(given.text()?);
            Ok(())
        },
    ),
    Key::or(
        &["username"],
        Key::new("user", Form::Text, "", "For basic: the name.", |auth, given, _| {
            auth.user = Some(given.located()?);
            Ok(())
        }),
    ),
    Key::new("password", Form::Text, "", "For basic: the password.", |auth, given, _| {
        auth.password = Some(given.located()?);
        Ok(())
    }),
    Key::or(
        &["grant_type"],
        Key::new(
            "grant",
            Form::Choice(&["authorization_code", "client_credentials"]),
            "\"authorization_code\"",
            "For oauth: a person gives consent in a browser, or the id and the secret suffice.",
            |auth, given, _| {
                auth.oauth_given = true;
                auth.oauth.grant = given.choice(GRANTS)?;
                Ok(())
            },
        ),
    ),
    Key::new("client_id", Form::Text, "", "For oauth: our id, where we are registered.", |auth, given, _| {
        auth.oauth_given = true;
        // Some clients write an empty id where they are not registered.
        auth.oauth.client_id = Some(given.located()?).filter(|id| !id.text.is_empty());
        Ok(())
    }),
    Key::new("client_secret", Form::Text, "", "For oauth: the secret that goes with the id.", |auth, given, _| {
        auth.oauth_given = true;
        auth.oauth.client_secret = Some(given.located()?).filter(|secret| !secret.text.is_empty());
        Ok(())
    }),
    Key::new(
        "client_metadata_url",
        Form::Text,
        "",
        "For oauth: where our description is published, for authorization servers that read it; it is our id there.",
        |auth, given, _| {
            auth.oauth_given = true;
            auth.oauth.client_metadata_url = Some(given.located()?);
            Ok(())
        },
    ),
    Key::or(
        &["token_endpoint_auth_method"],
        Key::new(
            "token_auth",
            Form::Choice(&["basic", "post", "private_key_jwt"]),
            "",
            "For oauth: how we prove who we are where tokens are given out; as the server says, if not given.",
            |auth, given, _| {
                auth.oauth_given = true;
                auth.oauth.token_auth = Some(given.choice(TOKEN_AUTHS)?);
                Ok(())
            },
        ),
    ),
    Key::new(
        "private_key",
        Form::Text,
        "",
        "For oauth: a PEM file with the key that signs for us, for private_key_jwt.",
        |auth, given, _| {
            auth.oauth_given = true;
            auth.oauth.private_key = Some(given.located()?);
            Ok(())
        },
    ),
    Key::new(
        "issuer",
        Form::Text,
        "",
        "For oauth: the one authorization server to accept; without it, a secret goes only to the first one it was used with.",
        |auth, given, _| {
            auth.oauth_given = true;
            auth.oauth.issuer = Some(given.located()?);
            Ok(())
        },
    ),
    Key::or(
        &["scope"],
        Key::new("scopes", Form::Texts, "[]", "For oauth: what we ask for.", |auth, given, _| {
            auth.oauth_given = true;
            // Also as one text with spaces, the way OAuth sends them.
            let scopes = given.texts()?;
            auth.oauth.scopes = scopes.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect();
            Ok(())
        }),
    ),
    Key::new(
        "callback_port",
        Form::Number(1, 65_535),
        "",
        "For oauth: the port of the local callback; any free one, if not given.",
        |auth, given, _| {
            auth.oauth_given = true;
            auth.oauth.callback_port = u16::try_from(given.number(1, 65_535)?).ok();
            Ok(())
        },
    ),
    Key::new(
        "authorization_url",
        Form::Text,
        "",
        "For oauth: where a person gives consent, if the server does not say.",
        |auth, given, _| {
            auth.oauth_given = true;
            auth.oauth.authorization_url = Some(given.located()?);
            Ok(())
        },
    ),
    Key::new(
        "token_url",
        Form::Text,
        "",
        "For oauth: where tokens are given out, if the server does not say.",
        |auth, given, _| {
            auth.oauth_given = true;
            auth.oauth.token_url = Some(given.located()?);
            Ok(())
        },
    ),
    Key::or(
        &["authServerMetadataUrl"],
        Key::new(
            "metadata_url",
            Form::Text,
            "",
            "For oauth: where the authorization server describes itself, if the server does not say.",
            |auth, given, _| {
                auth.oauth_given = true;
                auth.oauth.metadata_url = Some(given.located()?);
                Ok(())
            },
        ),
    ),
    // Gemini CLI switches OAuth on or off with it, which is looked at before.
    Key::hidden("enabled", |_, _, _| Ok(())),
];

/// Reads `auth`.
pub fn auth(given: &Given<'_>, reading: &mut Reading) -> Result<Auth, Misfit> {
    let mut draft = Draft::default();
    read(AUTH, &mut draft, given, reading);
    draft.finish(given)
}

/// Reads `oauth`, which some clients have in place of `auth`; `false` says that there is none.
pub fn oauth(given: &Given<'_>, reading: &mut Reading) -> Result<Auth, Misfit> {
    if let Ok(flag) = given.flag() {
        return Ok(if flag { Auth::OAuth(Box::default()) } else { Auth::None });
    }
    if given.node.at("enabled").is_some_and(|node| Given { node, field: String::new() }.flag().is_ok_and(|flag| !flag))
    {
        return Ok(Auth::None);
    }
    let mut draft = Draft { kind: Some(Kind::OAuth), ..Draft::default() };
    read(AUTH, &mut draft, given, reading);
    draft.finish(given)
}

impl Draft {
    fn finish(self, given: &Given<'_>) -> Result<Auth, Misfit> {
        let kind = self.kind.unwrap_or(match () {
            () if self.token.is_some() => Kind::Bearer,
            () if self.key.is_some() => Kind::ApiKey,
            () if self.user.is_some() => Kind::Basic,
            () if self.oauth_given => Kind::OAuth,
            () => Kind::None,
        });
        let parts = [
            ("token", self.token.is_some(), Kind::Bearer),
            ("key", self.key.is_some(), Kind::ApiKey),
            ("header", self.header.is_some(), Kind::ApiKey),
            ("query", self.query.is_some(), Kind::ApiKey),
            ("user", self.user.is_some(), Kind::Basic),
            ("password", self.password.is_some(), Kind::Basic),
            ("client_id and its like", self.oauth_given, Kind::OAuth),
        ];
        if let Some((part, _, owner)) = parts.iter().find(|(_, present, owner)| *present && *owner != kind) {
            return Err(given.misfit(format!("{part} goes with type {}, not with type {}", owner.name(), kind.name())));
        }
        let missing = |part: &str| given.misfit(format!("type {} needs a `{part}`", kind.name()));
        Ok(match kind {
            Kind::None => Auth::None,
            Kind::Bearer => Auth::Bearer(self.token.ok_or_else(|| missing("token"))?),
            Kind::Basic => Auth::Basic {
                user: self.user.ok_or_else(|| missing("user"))?,
                password: self.password.ok_or_else(|| missing("password"))?,
            },
            Kind::ApiKey => Auth::ApiKey {
                value: self.key.ok_or_else(|| missing("key"))?,
                r#in: match (self.header, self.query) {
                    (Some(_), Some(_)) => {
                        return Err(given.misfit("a key goes into a header or into the query; keep one"));
                    }
                    (None, Some(query)) => KeyPlace::Query(query),
                    (header, None) => KeyPlace::Header(header.unwrap_or_else(|| HEADER.to_owned())),
                },
            },
            Kind::OAuth => Auth::OAuth(Box::new(checked(self.oauth, given)?)),
        })
    }
}

/// What cannot work is better said now than at the first call.
fn checked(oauth: OAuth, given: &Given<'_>) -> Result<OAuth, Misfit> {
    let signs = oauth.token_auth == Some(TokenAuth::PrivateKeyJwt);
    if signs != oauth.private_key.is_some() {
        return Err(given.misfit("`token_auth: private_key_jwt` and `private_key` go together"));
    }
    if oauth.grant == Grant::ClientCredentials {
        if oauth.client_id.is_none() {
            return Err(given.misfit("grant client_credentials needs a `client_id`"));
        }
        if oauth.client_secret.is_none() && !signs {
            return Err(given.misfit("grant client_credentials needs a `client_secret`, or a `private_key` that signs"));
        }
    } else if signs {
        return Err(given.misfit("private_key_jwt goes with grant client_credentials"));
    }
    let consent = oauth.grant == Grant::AuthorizationCode;
    if consent && oauth.metadata_url.is_none() && oauth.authorization_url.is_some() != oauth.token_url.is_some() {
        return Err(given.misfit("`authorization_url` and `token_url` go together"));
    }
    Ok(oauth)
}

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("none", |(name, _)| name)
    }
}

const KINDS: &[(&str, Kind)] = &[
    ("none", Kind::None),
    ("bearer", Kind::Bearer),
    ("api_key", Kind::ApiKey),
    ("basic", Kind::Basic),
    ("oauth", Kind::OAuth),
];
/// The names of the grants.
pub const GRANTS: &[(&str, Grant)] =
    &[("authorization_code", Grant::AuthorizationCode), ("client_credentials", Grant::ClientCredentials)];
/// The names of the ways to prove who we are at a token endpoint; the longer ones are OAuth's own.
pub const TOKEN_AUTHS: &[(&str, TokenAuth)] = &[
    ("basic", TokenAuth::Basic),
    ("post", TokenAuth::Post),
    ("private_key_jwt", TokenAuth::PrivateKeyJwt),
    ("client_secret_basic", TokenAuth::Basic),
    ("client_secret_post", TokenAuth::Post),
];
const HEADER: &str = "X-API-Key";
