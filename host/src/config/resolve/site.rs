//! A server on the network.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::ConfigResolver;
use crate::config::expand::ExpandError;
use crate::config::model::{ApiKeyLocation, Problem, ServerAuth, TransportKind, UnexpandedText};
use crate::config::secrets::Secrets;
use crate::transport::endpoint::{RemoteSite, Tls};

pub(super) fn resolve_site(resolver: &mut ConfigResolver<'_>) -> Result<RemoteSite, Problem> {
    let server = resolver.server;
    let text = server.url.as_ref();
    let located =
        text.ok_or_else(|| resolver.missing_problem(&format!("url required for {} transport", server.kind.name())))?;
    let text = resolver.text(located)?.trim().to_owned();
    resolver.secrets.add_address(&text);
    let mut address = ServerUrl { url: parse(&text, server.kind).map_err(|why| resolver.problem(located, why))?, text };
    let mut headers = headers(resolver)?;
    if let Some(credentials) = address.take_credentials() {
        set(&mut headers, "Authorization", credentials, "url");
    }
    match credential(resolver)? {
        None => {}
        Some((ApiKeyLocation::Header(name), value)) => set(&mut headers, &name, value, "auth"),
        Some((ApiKeyLocation::Query(name), value)) => address.set_query(&name, &value),
    }
    for (name, value) in &headers {
        resolver.secrets.add_header(name, value);
    }
    let tls = &server.tls;
    Ok(RemoteSite {
        url: address.text,
        socket: None,
        headers,
        tls: Tls {
            verify: tls.verify,
            ca: resolver.optional_path(tls.ca.as_ref())?,
            client_certificate: resolver.optional_path(tls.client_certificate.as_ref())?,
            client_key: resolver.optional_path(tls.client_key.as_ref())?,
        },
        max_message_bytes: resolver.max_message_bytes(),
        connect_timeout: server.timeouts.connect,
        secrets: Secrets::default(),
        authorize: None,
    })
}

/// An address of something that is no server of ours, over HTTP.
pub(super) fn resolve_address(resolver: &mut ConfigResolver<'_>, located: &UnexpandedText) -> Result<String, Problem> {
    let text = resolver.text(located)?.trim().to_owned();
    resolver.secrets.add_address(&text);
    parse(&text, TransportKind::Http).map_err(|why| resolver.problem(located, why))?;
    Ok(text)
}

/// Why a text is no address for this kind of server. It quotes nothing of the text but its scheme.
fn parse(text: &str, kind: TransportKind) -> Result<Url, String> {
    let schemes = match kind {
        TransportKind::WebSocket => ["ws", "wss"],
        TransportKind::Stdio | TransportKind::Http | TransportKind::Sse => ["http", "https"],
    };
    let [plain, safe] = schemes;
    if text.is_empty() {
        return Err(format!("is empty; write an address such as {safe}://host/mcp"));
    }
    if let Some(left) = ["${", "{{"].into_iter().find(|left| text.contains(left)) {
        return Err(format!("still has {left:?} in it after expansion, and no address has that"));
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("has a blank or a line break in it".to_owned());
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            format!("is no whole address; begin it with {plain}:// or {safe}://")
        }
        error => format!("is no address: {error}"),
    })?;
    if !schemes.contains(&url.scheme()) {
        return Err(format!(
            "{:?} is not for {} servers; begin it with {plain}:// or {safe}://",
            url.scheme(),
            kind.name()
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(format!("names no host; write an address such as {safe}://host/mcp"));
    }
    Ok(url)
}

/// An address as it is written, and as it is understood. It stays as written where nothing is taken out or put in.
struct ServerUrl {
    url: Url,
    text: String,
}

impl ServerUrl {
    /// A user and password in the address become a header, so that no one shows them with the address.
    fn take_credentials(&mut self) -> Option<String> {
        let (user, password) = credentials(&self.url)?;
        // Both work for every address with a host, and `parse` lets no other pass.
        let _ = self.url.set_password(None).and_then(|()| self.url.set_username(""));
        self.text = self.url.to_string();
        Some(basic_credentials(&user, &password))
    }

    fn set_query(&mut self, name: &str, value: &str) {
        if self.url.query_pairs().any(|(other, _)| other == name) {
            warn_twice(name, "auth");
            let others: Vec<(String, String)> =
                self.url.query_pairs().filter(|(other, _)| other != name).map(|(a, b)| (a.into(), b.into())).collect();
            self.url.query_pairs_mut().clear().extend_pairs(others);
        }
        self.url.query_pairs_mut().append_pair(name, value);
        self.text = self.url.to_string();
    }
}

/// The user and the password that an address has; what has only one of them has the other empty.
pub(super) fn credentials(url: &Url) -> Option<(String, String)> {
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (decoded(url.username()), url.password().map(decoded));
    (!user.is_empty() || password.is_some()).then(|| (user, password.unwrap_or_default()))
}

fn headers(resolver: &mut ConfigResolver<'_>) -> Result<Vec<(String, String)>, Problem> {
    let mut headers = Vec::new();
    for (name, text) in &resolver.server.headers {
        check_name(resolver, name, text)?;
        let value = match resolver.expand(text) {
            // Outside a session the header is not sent.
            Err(ExpandError::NoSession) => continue,
            value => value.map_err(|error| resolver.problem(text, error))?,
        };
        let value = check_header_value(resolver, &value, text)?;
        // An empty one says nothing.
        if !value.is_empty() {
            headers.push((name.clone(), value));
        }
    }
    Ok(headers)
}

/// What `auth` says, and where it goes.
fn credential(resolver: &mut ConfigResolver<'_>) -> Result<Option<(ApiKeyLocation, String)>, Problem> {
    let authorization = ApiKeyLocation::Header("Authorization".to_owned());
    Ok(Some(match &resolver.server.auth {
        // What OAuth needs is filled in where it is used.
        ServerAuth::None | ServerAuth::OAuth(_) => return Ok(None),
        ServerAuth::Bearer(token) => {
            let token = self::resolve_token(resolver, token)?;
            (authorization, format!("Bearer {token}"))
        }
        ServerAuth::Basic { user, password } => {
            let (name, secret) = (resolver.text(user)?, resolver.text(password)?);
            resolver.secrets.add(&secret);
            if name.contains(':') {
                return Err(resolver.problem(user, "has a \":\" in it, which ends the name in basic authentication"));
            }
            (authorization, basic_credentials(&name, &secret))
        }
        ServerAuth::ApiKey { value, r#in } => {
            if let ApiKeyLocation::Header(name) = r#in {
                check_name(resolver, name, value)?;
            }
            (r#in.clone(), key(resolver, value)?)
        }
    }))
}

/// A token for `Bearer`.
pub(super) fn resolve_token(resolver: &mut ConfigResolver<'_>, located: &UnexpandedText) -> Result<String, Problem> {
    let text = key(resolver, located)?;
    // People also paste the word before it.
    let bare =
        text.get(..7).filter(|word| word.eq_ignore_ascii_case("bearer ")).map(|word| text[word.len()..].trim_start());
    let token = bare.unwrap_or(&text).to_owned();
    resolver.secrets.add(&token);
    Ok(token)
}

/// A token or key: a secret, not empty, and fit for a header.
fn key(resolver: &mut ConfigResolver<'_>, located: &UnexpandedText) -> Result<String, Problem> {
    let text = resolver.text(located)?;
    resolver.secrets.add(&text);
    let text = check_header_value(resolver, &text, located)?;
    if text.is_empty() {
        return Err(resolver.problem(located, "is empty"));
    }
    Ok(text)
}

pub(super) fn basic_credentials(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn set(headers: &mut Vec<(String, String)>, name: &str, value: String, by: &str) {
    let before = headers.len();
    headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    if headers.len() < before {
        warn_twice(name, by);
    }
    headers.push((name.to_owned(), value));
}

fn warn_twice(name: &str, by: &str) {
    tracing::warn!("{name:?} is set twice; what `{by}` says is used");
}

/// A name is a token of RFC 9110, section 5.6.2.
fn check_name(resolver: &ConfigResolver<'_>, name: &str, text: &UnexpandedText) -> Result<(), Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(resolver.problem(text, "the name of the header is empty or has a blank, a \":\" or the like in it"));
    }
    Ok(())
}

fn check_header_value(resolver: &ConfigResolver<'_>, value: &str, text: &UnexpandedText) -> Result<String, Problem> {
    let value = value.trim_matches([' ', '\t']);
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Err(resolver.problem(text, "has a line break or a control character in it, and a header is one line"));
    }
    Ok(value.to_owned())
}
