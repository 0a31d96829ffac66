//! Resolves a server on the network.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::resolver::ConfigResolver;
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

/// Resolves an HTTP address of something other than an MCP server.
pub(super) fn resolve_address(resolver: &mut ConfigResolver<'_>, located: &UnexpandedText) -> Result<String, Problem> {
    let text = resolver.text(located)?.trim().to_owned();
    resolver.secrets.add_address(&text);
    parse(&text, TransportKind::Http).map_err(|why| resolver.problem(located, why))?;
    Ok(text)
}

/// Parses an address for this kind of server; an error quotes nothing of the text but its scheme.
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
        return Err(format!("still contains {left:?} after expansion; check the variables in it"));
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("contains a space or a line break".to_owned());
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            format!("is not a complete address; begin it with {plain}:// or {safe}://")
        }
        error => format!("is not an address: {error}"),
    })?;
    if !schemes.contains(&url.scheme()) {
        return Err(format!(
            "{:?} does not work for {} servers; begin the address with {plain}:// or {safe}://",
            url.scheme(),
            kind.name()
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(format!("names no host; write an address such as {safe}://host/mcp"));
    }
    Ok(url)
}

/// An address as written and as parsed; the text stays as written unless something is removed or added.
struct ServerUrl {
    url: Url,
    text: String,
}

impl ServerUrl {
    /// Turns a user and password in the address into a header, so that nobody shows them with the address.
    fn take_credentials(&mut self) -> Option<String> {
        let (user, password) = credentials(&self.url)?;
        // Both succeed for every address with a host, and `parse` accepts no other.
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

/// Returns the user and password of an address; if only one is given, the other is empty.
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
            // Without a session the header is not sent.
            Err(ExpandError::NoSession) => continue,
            value => value.map_err(|error| resolver.problem(text, error))?,
        };
        let value = check_header_value(resolver, &value, text)?;
        // Skip empty headers.
        if !value.is_empty() {
            headers.push((name.clone(), value));
        }
    }
    Ok(headers)
}

/// Returns the credential of `auth`, and where it goes.
fn credential(resolver: &mut ConfigResolver<'_>) -> Result<Option<(ApiKeyLocation, String)>, Problem> {
    let authorization = ApiKeyLocation::Header("Authorization".to_owned());
    Ok(Some(match &resolver.server.auth {
        // OAuth is resolved separately.
        ServerAuth::None | ServerAuth::OAuth(_) => return Ok(None),
        ServerAuth::Bearer(token) => {
            let token = self::resolve_token(resolver, token)?;
            (authorization, format!("Bearer {token}"))
        }
        ServerAuth::Basic { user, password } => {
            let (name, secret) = (resolver.text(user)?, resolver.text(password)?);
            resolver.secrets.add(&secret);
            if name.contains(':') {
                return Err(resolver.problem(user, "contains a \":\", which ends the name in basic authentication"));
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

/// Resolves a token for `Bearer`.
pub(super) fn resolve_token(resolver: &mut ConfigResolver<'_>, located: &UnexpandedText) -> Result<String, Problem> {
    let text = key(resolver, located)?;
    // People also paste the word `Bearer` before it.
    let bare =
        text.get(..7).filter(|word| word.eq_ignore_ascii_case("bearer ")).map(|word| text[word.len()..].trim_start());
    let token = bare.unwrap_or(&text).to_owned();
    resolver.secrets.add(&token);
    Ok(token)
}

/// Resolves a token or key: a secret that is not empty and is valid in a header.
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
    tracing::warn!("{name:?} is set twice; the value from `{by}` is used");
}

/// Checks that a header name is a token of RFC 9110, section 5.6.2.
fn check_name(resolver: &ConfigResolver<'_>, name: &str, text: &UnexpandedText) -> Result<(), Problem> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return Err(
            resolver.problem(text, "the name of the header is empty or has an invalid character, such as a space")
        );
    }
    Ok(())
}

fn check_header_value(resolver: &ConfigResolver<'_>, value: &str, text: &UnexpandedText) -> Result<String, Problem> {
    let value = value.trim_matches([' ', '\t']);
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Err(resolver.problem(text, "contains a line break or a control character, but a header is one line"));
    }
    Ok(value.to_owned())
}
