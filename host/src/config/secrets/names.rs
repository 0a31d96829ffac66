//! Names that suggest secrets, and values that are never secrets.

use std::ops::Range;

/// Reports whether a name suggests a secret: a key, a token, a password.
pub fn looks_secret(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    if is_harmless_variable(&name.to_ascii_uppercase()) {
        return false;
    }
    // These words say where or how, not what: `PRIVATE_KEY_PATH`, `AUTH_TYPE`.
    let last = name.rsplit(['_', '-', '.']).next().unwrap_or_default();
    if ABOUT.contains(&last) {
        return false;
    }
    if name.split(['_', '-', '.']).any(|word| TELLING_WORDS.contains(&word)) {
        return true;
    }
    let name = INNOCENT.iter().fold(name, |name, innocent| name.replace(innocent, ""));
    TELLING.iter().any(|telling| name.contains(telling))
}

/// Reports whether this variable is known to contain no secret, so that its value may be shown.
pub fn is_harmless_variable(name: &str) -> bool {
    let is_listed = COMMON_VARIABLES.contains(&name) || HARMLESS_VARIABLES.contains(&name);
    is_listed || name.starts_with("LC_") || name.starts_with("XDG_")
}

/// Reports whether this header is known to contain no secret.
pub(super) fn is_harmless_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HARMLESS_HEADERS.contains(&name.as_str()) || name.starts_with("accept-") || name.starts_with("content-")
}

/// Reports whether this word is an authentication scheme, which precedes a credential.
pub(super) fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Reports whether a value is long enough to hide, and is not a word that appears in many texts.
pub(super) fn is_worth_hiding(value: &str) -> bool {
    let small_number =
        value.len() < MIN_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit() || b".-+".contains(&byte));
    value.len() >= MIN_BYTES && !small_number && !COMMON.iter().any(|common| value.eq_ignore_ascii_case(common))
}

/// Reports whether a value is a word of MCP messages, which would be unreadable without it.
pub(super) fn is_protocol_word(value: &str) -> bool {
    PROTOCOL.contains(&value)
}

/// Reports whether a value is a short word, such as the names of tools and arguments: letters of one case, perhaps with
/// underscores. Generated values have digits or both cases, or are longer. Words that suggest a secret are not
/// ordinary.
pub(super) fn is_ordinary(value: &str) -> bool {
    let value = value.trim();
    let rest = value.strip_prefix(|first: char| first.is_ascii_uppercase()).unwrap_or(value);
    let all = |fits: fn(&u8) -> bool, text: &str| text.bytes().all(|byte| byte == b'_' || fits(&byte));
    let is_word = all(u8::is_ascii_lowercase, rest) || all(u8::is_ascii_uppercase, value);
    value.len() < LONG_VALUE && is_word && !looks_secret(value)
}

/// Reports whether a short line looks generated: the last line of a key, a password in a list. `clusters:` and
/// `PORT=8080` do not, nor does anything with a space.
pub(super) fn is_generated(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let padded = line.ends_with('=') && is_worth_hiding(line.trim_end_matches('='));
    !line.contains(char::is_whitespace)
        && !line.ends_with(':')
        && (padded || words.any(|word| word.len() >= MIN_DIGITS && !is_ordinary(word)))
}

/// Reports whether a range is a short word within a longer one: `east` in `northeast` is not a match.
pub(super) fn is_within_word(text: &str, place: &Range<usize>) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_lowercase);
    let bytes = text.as_bytes();
    place.len() < LONG_WORD
        && bytes[place.clone()].iter().all(u8::is_ascii_lowercase)
        && (is_letter(bytes.get(place.end)) || is_letter(place.start.checked_sub(1).and_then(|at| bytes.get(at))))
}

/// A secret with this many letters is hidden even within a word.
const LONG_WORD: usize = 8;
/// A value with this many letters is more than a word: a generated password may have only letters.
const LONG_VALUE: usize = 12;
const MIN_BYTES: usize = 4;
const MIN_DIGITS: usize = 6;

const TELLING: &[&str] =
    &["key", "token", "secret", "pass", "pwd", "auth", "credential", "cookie", "private", "bearer", "signature", "jwt"];
/// These suggest a secret only as whole words: `GH_PAT`, but not `PATTERN`.
const TELLING_WORDS: &[&str] = &["pat", "pw"];
const INNOCENT: &[&str] =
    &["keycloak", "keyboard", "keyword", "keyspace", "author_", "author-", "authors", "passive", "bypass", "compass"];
const ABOUT: &[&str] = &[
    "url", "uri", "path", "file", "dir", "host", "port", "type", "mode", "method", "scheme", "enabled", "timeout",
    "expiry", "author", "header", "sock",
];
/// Variables of every system about the user, the machine and the terminal: no secrets, and most programs need them.
pub(in crate::config) const COMMON_VARIABLES: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "USERNAME",
    "USERPROFILE",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TMP",
    "TEMP",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "SYSTEMROOT",
    "COMPUTERNAME",
    "COMSPEC",
    "OS",
];
/// More variables without secrets, which a program can do without.
const HARMLESS_VARIABLES: &[&str] = &["PWD", "OLDPWD", "HOSTNAME", "EDITOR", "PAGER", "DISPLAY", "XAUTHORITY"];
const HARMLESS_HEADERS: &[&str] = &[
    "accept",
    "cache-control",
    "connection",
    "host",
    "mcp-protocol-version",
    "origin",
    "prefer",
    "referer",
    "te",
    "user-agent",
];
const SCHEMES: &[&str] = &["bearer", "basic", "token", "apikey", "api-key", "key", "digest", "negotiate", "dpop"];
const COMMON: &[&str] = &[
    "true",
    "false",
    "none",
    "null",
    "auto",
    "default",
    "enabled",
    "disabled",
    "always",
    "never",
    "required",
    "optional",
    "production",
    "prod",
    "staging",
    "development",
    "test",
    "testing",
    "local",
    "localhost",
    "127.0.0.1",
    "0.0.0.0",
    "debug",
    "info",
    "warn",
    "warning",
    "error",
    "trace",
    "verbose",
    "quiet",
    "silent",
    "http",
    "https",
    "stdio",
    "json",
    "yaml",
    "text",
    "utf-8",
    "utf8",
    "application/json",
    "text/plain",
    "user",
    "admin",
    "root",
    "guest",
    "main",
    "master",
    "basic",
    "bearer",
    "token",
    "oauth",
    "password",
    "secret",
    "read",
    "write",
    "readonly",
    "read-only",
    "tools",
    "tool",
    "server",
    "client",
    "name",
    "value",
    "type",
    "content",
];

const PROTOCOL: &[&str] = &[
    "accept",
    "annotations",
    "arguments",
    "array",
    "assistant",
    "audio",
    "blob",
    "boolean",
    "capabilities",
    "complete",
    "completion",
    "contents",
    "cursor",
    "data",
    "decline",
    "default",
    "description",
    "elicitation",
    "enum",
    "form",
    "icons",
    "image",
    "input",
    "instructions",
    "integer",
    "items",
    "level",
    "logger",
    "message",
    "messages",
    "meta",
    "mode",
    "number",
    "object",
    "priority",
    "progress",
    "prompt",
    "prompts",
    "properties",
    "resource",
    "resources",
    "result",
    "role",
    "roots",
    "sampling",
    "string",
    "structured",
    "tasks",
    "title",
    "total",
    "values",
    "version",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_by_their_looks() {
        for name in [
            "API_KEY",
            "GITHUB_TOKEN",
            "apikey",
            "tavilyApiKey",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "--api-key",
            "AWS_SECRET_ACCESS_KEY",
            "Authorization",
            "GOOGLE_CREDENTIALS",
            "SESSION_COOKIE",
            "PRIVATE_PEM",
            "x-auth",
            "AUTH",
            "GH_PAT",
            "github-pat",
            "DB_PW",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "HOME",
            "PWD",
            "PATH",
            "PORT",
            "HOST",
            "LOG_LEVEL",
            "GIT_AUTHOR_NAME",
            "AUTHOR",
            "KEYCLOAK_REALM",
            "PRIVATE_KEY_PATH",
            "AUTH_TYPE",
            "TOKEN_URL",
            "KEYBOARD",
            "LC_ALL",
            "XDG_CONFIG_HOME",
            "--verbose",
            "PATTERN",
            "PAT_FILE",
            "",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn a_short_word_is_ordinary_and_what_is_generated_is_not() {
        for value in ["orders", "Orders", "ORDERS", "order_items", "function", "customers", " plain\n"] {
            assert!(is_ordinary(value), "{value}");
        }
        let generated =
            ["hunter2", "s3cret", "aBcDeF", "qwErty", "abcd-efgh", "abcdefghijkl", "topsecret", "/orders", "pässwort"];
        for value in generated {
            assert!(!is_ordinary(value), "{value}");
        }
    }

    #[test]
    fn a_short_line_is_generated_where_it_is_no_row_of_words() {
        for line in ["aB3dE5==", "x/Yz1==", "q7Rt9Lm2", "hunter22", "correct-horse7", "DB_PASS=abc123", "48392011"] {
            assert!(is_generated(line), "{line}");
        }
        let written =
            ["{", "}", "clusters:", "apiVersion:", "kind: Config", "- name: x1y2z3", "PORT=8080", "eu-west-1"];
        for line in
            written.into_iter().chain(["/usr/bin", "NODE_ENV=test", "v1.2.3", "x=", "", "read-only", "2024-01-01"])
        {
            assert!(!is_generated(line), "{line}");
        }
    }

    #[test]
    fn values_that_say_little_are_not_hidden() {
        for value in ["", "abc", "true", "FALSE", "production", "localhost", "8080", "65535", "1.5", "-1234"] {
            assert!(!is_worth_hiding(value), "{value}");
        }
        for value in ["abcd", "123456", "hunter2", "pröd"] {
            assert!(is_worth_hiding(value), "{value}");
        }
    }
}
