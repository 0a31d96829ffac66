//! Resolves the gateway: its tokens, and the files of its certificate.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::resolver::{ConfigResolver, resolve_section};
use super::site;
use crate::config::expand::read_text_file;
use crate::config::model::{Config, Problem, TokenRules, TokenSource, UnexpandedText};
use crate::config::nearest;
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;

/// The resolved settings of the gateway. `Debug` shows no token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedGateway {
    /// The principals in the order of the file; no two tokens are equal.
    pub tokens: Vec<ResolvedToken>,
    /// The PEM files of the certificate and key, which need not exist yet; `None` means HTTP without TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The keys of sessions and approvals: at least 32 characters each, and no two are equal.
    pub session_keys: Vec<SessionKey>,
    /// The store that replicas share; `None` means the memory of this process.
    pub store: Option<StoreUrl>,
    /// Values to hide in every result, log and page: all tokens and keys, and what they are made of.
    pub secrets: Secrets,
}

/// A key of sessions and approvals. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(pub String);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

/// The URL of a store, which may contain a password. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(pub Url);

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(…)")
    }
}

/// A principal that may use the gateway. `Debug` shows no token.
#[derive(Clone, PartialEq, Eq)]
pub struct ResolvedToken {
    /// The name for logs and rules.
    pub principal: String,
    /// The token, without `Bearer` before it: at least 16 visible ASCII characters.
    pub token: String,
    /// The file that the token was read from, which may change.
    pub file: Option<PathBuf>,
    /// Whether the principal may also enable, disable and reconnect servers.
    pub admin: bool,
    /// The servers that the principal may use, each with names and globs of tools (empty means all); `None` means all
    /// servers.
    pub selection: Option<Vec<(String, Vec<String>)>>,
    /// What the principal is granted; `None` means that it needs no grants.
    pub capabilities: Option<Vec<String>>,
}

impl fmt::Debug for ResolvedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ResolvedToken");
        shown.field("principal", &self.principal).field("file", &self.file).field("admin", &self.admin);
        shown.field("selection", &self.selection).field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

/// Resolves the settings of the gateway. One bad token fails all of them; otherwise its owner would be locked out
/// without anyone knowing why.
pub fn resolve_gateway(config: &Config, variables: &Variables) -> Result<ResolvedGateway, Problem> {
    check_tokens(config)?;
    let gateway = &config.settings.gateway;
    // Whoever looks for the file sees its path, so no part of it is a secret.
    let path = |text: &UnexpandedText| {
        let (path, _) = resolve_section(&text.place, "gateway", config, variables, |resolver| resolver.path(text))?;
        Ok(path)
    };
    let (mut filled, mut owners) = (ResolvedGateway::default(), HashMap::new());
    for (at, rules) in gateway.tokens.iter().enumerate() {
        let located = rules.secret.text();
        let file = match &rules.secret {
            TokenSource::Text(_) => None,
            TokenSource::File(text) => Some(path(text)?),
        };
        let (token, secrets) = resolve_section(&located.place, "gateway", config, variables, |resolver| {
            let token = match &file {
                None => site::resolve_token(resolver, located)?,
                Some(file) => {
                    let text = read_text_file(file).map_err(|error| resolver.problem(located, error))?;
                    let token = text.trim().to_owned();
                    resolver.secrets.add(&token);
                    token
                }
            };
            check_token(resolver, located, &token)?;
            Ok(token)
        })?;
        if let Some(earlier) = owners.insert(token.clone(), &rules.principal) {
            let text = format!("{earlier:?} and {:?} have the same token; give each its own", rules.principal);
            let field = Some(format!("gateway.tokens[{at}]"));
            return Err(Problem { place: located.place.clone(), field, text });
        }
        filled.secrets.merge(&secrets);
        filled.tokens.push(ResolvedToken {
            principal: rules.principal.clone(),
            token,
            file,
            admin: rules.admin,
            selection: rules.selection.clone(),
            capabilities: rules.capabilities.clone(),
        });
    }
    for located in &gateway.session_keys {
        let (key, secrets) = resolve_section(&located.place, "gateway", config, variables, |resolver| {
            let key = resolver.text(located)?.trim().to_owned();
            resolver.secrets.add(&key);
            if key.chars().count() < MIN_KEY {
                let text = format_args!("has fewer than {MIN_KEY} characters; `openssl rand -hex 32` makes a good one");
                return Err(resolver.problem(located, text));
            }
            if filled.session_keys.iter().any(|earlier| earlier.0 == key) {
                return Err(resolver.problem(located, "is the same key as one before it; keep one of them"));
            }
            Ok(SessionKey(key))
        })?;
        filled.secrets.merge(&secrets);
        filled.session_keys.push(key);
    }
    if let Some((url, secrets)) = resolve_store(config, variables)? {
        filled.secrets.merge(&secrets);
        filled.store = Some(url);
    }
    if let Some(tls) = &gateway.tls {
        filled.tls = Some((path(&tls.certificate)?, path(&tls.key)?));
    }
    Ok(filled)
}

/// Resolves the URL of the store that replicas share, and the secrets in it; `None` means the memory of this process.
pub fn resolve_store(config: &Config, variables: &Variables) -> Result<Option<(StoreUrl, Secrets)>, Problem> {
    let Some(located) = &config.settings.gateway.store else { return Ok(None) };
    let resolved = resolve_section(&located.place, "gateway", config, variables, |resolver| {
        let text = resolver.text(located)?;
        resolver.secrets.add_address(text.trim());
        let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "redis" | "rediss"));
        let wrong = "is not a store; write memory, or a URL such as redis://host:6379/0 or rediss://host:6379/0";
        let url = url.filter(Url::has_host).ok_or_else(|| resolver.problem(located, wrong))?;
        Ok(StoreUrl(url))
    })?;
    Ok(Some(resolved))
}

/// Checks that the tokens name configured servers, which needs no expansion.
pub fn check_tokens(config: &Config) -> Result<(), Problem> {
    let servers: HashSet<&str> = config.servers.iter().map(|server| server.id.as_str()).collect();
    for (at, token) in config.settings.gateway.tokens.iter().enumerate() {
        let mut selected = token.selection.iter().flatten();
        if let Some((name, _)) = selected.find(|(name, _)| !servers.contains(name.as_str())) {
            return Err(unknown_server(at, token, name, config));
        }
    }
    Ok(())
}

fn unknown_server(at: usize, token: &TokenRules, name: &str, config: &Config) -> Problem {
    let known = || config.servers.iter().map(|server| server.id.as_str());
    let there = match config.servers.is_empty() {
        true => "there is none".to_owned(),
        false => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
    };
    let text = format!("no server {name:?} is configured; {there}{}", nearest::hint(name, known()));
    let field = Some(format!("gateway.tokens[{at}].servers"));
    Problem { place: token.place.clone(), field, text }
}

/// Checks that a token is hard to guess and valid in the header that carries it (RFC 6750, section 2.1).
fn check_token(resolver: &ConfigResolver<'_>, located: &UnexpandedText, token: &str) -> Result<(), Problem> {
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(resolver.problem(located, "contains a space, a line break or a character that is not ASCII"));
    }
    if token.len() < MIN_TOKEN {
        let text = format_args!("has fewer than {MIN_TOKEN} characters; `openssl rand -hex 32` makes a good one");
        return Err(resolver.problem(located, text));
    }
    Ok(())
}

const MIN_TOKEN: usize = 16;
const MIN_KEY: usize = 32;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    const SERVERS: &str = "servers: {files: {command: x}, jira: {command: y, enabled: false}}";

    fn resolved(section: &str, folder: &Path) -> Result<ResolvedGateway, String> {
        let text = format!("gateway: {section}\n{SERVERS}");
        let config = parse(&text, &folder.join("toolgate.yaml")).unwrap_or_else(|error| panic!("{text}: {error}"));
        let environment = [
            ("A", "s3cret-of-a-0123456789"),
            ("SHORT", "s3cret"),
            ("DIR", "/var/keys"),
            ("KEY", "s3cret-k1-0123456789-0123456789-0123"),
        ];
        resolve_gateway(&config, &Variables::of_test(&environment)).map_err(|problem| problem.to_string())
    }

    #[test]
    fn tokens_are_filled_in_and_kept_secret() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("b"), "\n  s3cret-of-b-0123456789\r\n\n").unwrap();
        let section = "{tokens: [\
            {principal: a, token: '${A}', servers: {files: ['t_*'], jira: ['*']}, capabilities: [x]},\
            {principal: b, file: ./b, admin: true},\
            {principal: c, token: 'Bearer s3cret-of-c-0123456789'},\
            {principal: d, token: 's3cret-of-d-0123'}], tls: {certificate: ./c.pem, key: '${DIR}/k.pem'}}";
        let found = resolved(section, folder.path()).unwrap();
        let token = |principal: &str, token: &str| ResolvedToken {
            principal: principal.to_owned(),
            token: token.to_owned(),
            file: None,
            admin: false,
            selection: None,
            capabilities: None,
        };
        let selection = vec![("files".to_owned(), vec!["t_*".to_owned()]), ("jira".to_owned(), vec!["*".to_owned()])];
        let expected = [
            ResolvedToken {
                selection: Some(selection),
                capabilities: Some(vec!["x".to_owned()]),
                ..token("a", "s3cret-of-a-0123456789")
            },
            ResolvedToken { file: Some(folder.path().join("b")), admin: true, ..token("b", "s3cret-of-b-0123456789") },
            token("c", "s3cret-of-c-0123456789"),
            token("d", "s3cret-of-d-0123"),
        ];
        assert_eq!(found.tokens, expected);
        assert_eq!(found.tls, Some((folder.path().join("c.pem"), "/var/keys/k.pem".into())));
        for token in &found.tokens {
            assert_eq!(found.secrets.redact(&token.token), "[REDACTED]", "{}", token.principal);
        }
        assert_eq!(found.secrets.redact("/var/keys"), "/var/keys");
        assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
        assert_eq!(resolved("{}", folder.path()), Ok(ResolvedGateway::default()));
    }

    #[test]
    fn what_cannot_be_filled_in_names_its_field_and_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let written = [
            ("short", "s3cret\n"),
            ("two", "s3cret-0123456789\ns3cret-0123456789"),
            ("a", "s3cret-of-a-0123456789"),
            ("empty", ""),
        ];
        for (name, content) in written {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let one = |rest: &str| format!("{{tokens: [{{principal: a, {rest}}}]}}");
        let two = |rest: &str| format!("{{tokens: [{{principal: a, token: '${{A}}'}}, {{principal: b, {rest}}}]}}");
        let rows = [
            (one("token: '${MISSING}'"), "gateway.tokens[0].token: variable \"MISSING\" is not set"),
            (one("token: ''"), "gateway.tokens[0].token: is empty"),
            (one("token: '${SHORT}'"), "gateway.tokens[0].token: has fewer than 16 characters"),
            (one("token: s3cret-890123456"), ""),
            (one("token: s3cret-89012345"), "gateway.tokens[0].token: has fewer than 16 characters"),
            (one("token: 's3cret 0123456789'"), "gateway.tokens[0].token: contains a space"),
            (
                one("token: 's3cret-é-0123456789'"),
                "gateway.tokens[0].token: contains a space, a line break or a character",
            ),
            (one("file: short"), "gateway.tokens[0].file: has fewer than 16 characters"),
            (one("file: empty"), "gateway.tokens[0].file: has fewer than 16 characters"),
            (one("file: two"), "gateway.tokens[0].file: contains a space, a line break or a character"),
            (one("file: ./none"), "none\": "),
            (one("file: ''"), "gateway.tokens[0].file: is empty; name a file"),
            (one("file: ."), "is not a regular file"),
            (
                two("token: s3cret-of-a-0123456789"),
                "gateway.tokens[1]: \"a\" and \"b\" have the same token; give each its own",
            ),
            (two("file: a"), "gateway.tokens[1]: \"a\" and \"b\" have the same token; give each its own"),
            (
                two("token: x, servers: [files, jria]"),
                "gateway.tokens[1].servers: no server \"jria\" is configured; there are: files, jira; did you mean \"jira\"?",
            ),
            (one("token: x, servers: {Files: [x]}"), "gateway.tokens[0].servers: no server \"Files\" is configured"),
            ("{tls: {certificate: '${MISSING}', key: x}}".to_owned(), "gateway.tls.certificate: variable \"MISSING\""),
            ("{tls: {certificate: x, key: ''}}".to_owned(), "gateway.tls.key: is empty"),
        ];
        for (section, expected) in rows {
            let found = resolved(&section, folder.path()).err().unwrap_or_default();
            assert_eq!(found.is_empty(), expected.is_empty(), "{section}: {found}");
            assert!(found.contains(expected) && !found.contains("s3cret"), "{section}: {found}");
        }
    }

    #[test]
    fn keys_and_the_store_are_filled_in_and_kept_secret() {
        let folder = tempfile::tempdir().unwrap();
        let section =
            "{session_keys: ['${KEY}', ' s3cret-k2-0123456789-0123456789-0123 '], store: 'rediss://u:${A}@h:7000/3'}";
        let found = resolved(section, folder.path()).unwrap();
        let keys: Vec<&str> = found.session_keys.iter().map(|key| &*key.0).collect();
        assert_eq!(keys, ["s3cret-k1-0123456789-0123456789-0123", "s3cret-k2-0123456789-0123456789-0123"]);
        assert_eq!(found.store.as_ref().unwrap().0.as_str(), "rediss://u:s3cret-of-a-0123456789@h:7000/3");
        for secret in keys.into_iter().chain(["s3cret-of-a-0123456789"]) {
            assert_eq!(found.secrets.redact(secret), "[REDACTED]");
        }
        assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
        for (section, expected) in [
            (
                "{session_keys: ['${A}']}",
                "gateway.session_keys[0]: has fewer than 32 characters; `openssl rand -hex 32`",
            ),
            ("{session_keys: ['${KEY}', '${KEY}']}", "gateway.session_keys[1]: is the same key as one before it"),
            ("{session_keys: ['${MISSING}']}", "gateway.session_keys[0]: variable \"MISSING\" is not set"),
            ("{store: 'http://h'}", "gateway.store: is not a store; write memory, or a URL such as redis://"),
            ("{store: 'redis:x'}", "gateway.store: is not a store"),
            ("{store: redis}", "gateway.store: is not a store"),
        ] {
            let found = resolved(section, folder.path()).unwrap_err();
            assert!(found.contains(expected) && !found.contains("s3cret"), "{section}: {found}");
        }
    }

    #[test]
    fn without_servers_none_can_be_named() {
        let text = "gateway: {tokens: [{principal: a, token: x, servers: [b]}]}";
        let config = parse(text, Path::new("/etc/toolgate.yaml")).unwrap();
        let problem = resolve_gateway(&config, &Variables::of_test(&[])).unwrap_err().to_string();
        let expected = "gateway.tokens[0].servers: no server \"b\" is configured; there is none";
        assert_eq!(problem, format!("/etc/toolgate.yaml:1:20: {expected}"));
    }
}
