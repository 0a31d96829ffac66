//! Which of the values that a configuration brings in are credentials.
//!
//! The command line hides whatever a variable, file or command brought in. In the words of servers, which models work
//! with, only credentials are hidden: a path, a host or a plain word stands in half of the answers of a file server,
//! and without it they would be useless. Whether a value is a credential is decided here and nowhere else.

use super::names::looks_secret;

/// Where a value comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum SecretOrigin<'a> {
    /// A setting for credentials: a token, a password, what follows `Bearer`.
    Setting,
    /// A header of this name.
    Header(&'a str),
    /// A variable, a flag or a member of this name.
    Named(&'a str),
    /// The content of a file or the output of a command.
    Content,
}

/// Whether a value from there is a credential.
pub(super) fn is_credential(origin: SecretOrigin<'_>, value: &str) -> bool {
    match origin {
        SecretOrigin::Setting => true,
        SecretOrigin::Header(name) | SecretOrigin::Named(name) if looks_secret(name) => {
            !(is_path(value) || is_number(value) && is_amount_name(name))
        }
        SecretOrigin::Header(_) | SecretOrigin::Content => !is_plain(value),
        SecretOrigin::Named(name) => {
            !is_plain(value) && (looks_generated(value) && !is_id_name(name) || mentions_secret(value))
        }
    }
}

/// Whether a value is made by a machine and not by a person who thinks of a name: `x7Gh29aBq`, a UUID, a hash.
pub(super) fn looks_generated(value: &str) -> bool {
    !value.contains(char::is_whitespace) && (is_uuid(value) || value.split(|c| !is_letter(c)).any(is_generated_run))
}

/// Whether a value is an absolute path, or one from a known folder. A key may begin with `/` too, as those of AWS do;
/// the first folder of a path is a word.
pub(super) fn is_path(value: &str) -> bool {
    let first_is_word = |rest: &str| {
        let first = rest.split('/').next().unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit());
        let rest = first.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(first);
        first.len() < LONG_RUN && rest.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_.".contains(&byte))
    };
    let bytes = value.as_bytes();
    let drive = bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && b"\\/".contains(&bytes[2]);
    drive
        || value.starts_with("~/")
        || value.starts_with("./")
        || value.starts_with("../")
        || value.strip_prefix('/').is_some_and(first_is_word)
}

/// Whether a value says where or how much, or is made of plain words: a path, an address, a host, a number, `eu-west-1`.
fn is_plain(value: &str) -> bool {
    is_path(value) || value.contains("://") || is_host(value) || is_number(value) || is_of_words(value)
}

/// A number, a date, a version or an address of IPv4.
fn is_number(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit() || b".,:-+_".contains(&byte))
}

/// `db.example.com`, `me@example.com`, `host-1.internal:8080`. A JWT has capitals.
fn is_host(value: &str) -> bool {
    let value = value.rsplit_once('@').map_or(value, |(_, host)| host);
    let (host, port) = value.rsplit_once(':').unwrap_or((value, ""));
    let is_label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(fits)
    };
    let Some((_, last)) = host.rsplit_once('.') else { return false };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && host.split('.').all(is_label)
        && last.len() > 1
        && last.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Words with marks between them, and perhaps a short number: `order_items`, `eu-west-1`, `Europe/Berlin`.
fn is_of_words(value: &str) -> bool {
    let is_word = |run: &str| {
        let letters = run.trim_end_matches(|c: char| c.is_ascii_digit());
        run.len() - letters.len() <= SHORT_NUMBER && (letters.len() <= 2 || is_camel(letters)) && !is_generated_run(run)
    };
    let marks = |c: char| "-_./:,@ ".contains(c);
    !mentions_secret(value) && value.split(marks).all(is_word)
}

/// Letters in the shape of words: `orders`, `Orders`, `ORDERS`, `MyProject`.
fn is_camel(letters: &str) -> bool {
    letters.chars().all(char::is_alphabetic)
        && (letters.chars().all(char::is_uppercase)
            || letters.split(char::is_uppercase).skip(1).all(|word| word.chars().count() >= 2))
}

/// Whether a value speaks of secrets and is neither a single word nor a path: `planted-secret-7`.
fn mentions_secret(value: &str) -> bool {
    !value.contains(|c: char| c.is_whitespace() || "/\\".contains(c))
        && looks_secret(value)
        && !value.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Whether a name stands for an amount: `MAX_TOKENS`.
fn is_amount_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['_', '-', '.']).any(|word| AMOUNTS.contains(&word))
}

/// Whether a name stands for what tells one from others and is known to all: `CLIENT_ID`.
fn is_id_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.rsplit(['_', '-', '.']).next() == Some("id")
}

fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// Letters and digits without a mark between them that no person would choose: digits all over, or very many.
fn is_generated_run(run: &str) -> bool {
    let kinds: Vec<bool> = run.bytes().map(|byte| byte.is_ascii_digit()).collect();
    let switches = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mixed = run.bytes().any(|byte| byte.is_ascii_uppercase()) && run.bytes().any(|byte| byte.is_ascii_lowercase());
    let long = run.len() >= LONG_RUN && (switches > 0 || run.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let digits_only = kinds.iter().all(|digit| *digit);
    !digits_only && (long || run.len() >= SHORT_RUN && (switches >= 3 || switches >= 2 && mixed))
}

/// As many digits may follow a word: a year, a port.
const SHORT_NUMBER: usize = 5;
const SHORT_RUN: usize = 8;
const LONG_RUN: usize = 16;
const AMOUNTS: &[&str] =
    &["max", "min", "limit", "count", "num", "size", "budget", "length", "ttl", "tokens", "seconds", "ms", "rounds"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_told_from_paths_hosts_and_plain_words() {
        let rows: &[(SecretOrigin<'_>, &str, bool)] = &[
            (SecretOrigin::Setting, "opensesame", true),
            (SecretOrigin::Setting, "/wJalrXUtnFEMI/K7MDENG", true),
            (SecretOrigin::Header("Authorization"), "opensesame", true),
            (SecretOrigin::Header("X-Api-Key"), "key", true),
            (SecretOrigin::Header("X-Tenant"), "acme-corp", false),
            (SecretOrigin::Header("X-Region"), "eu-west-1", false),
            (SecretOrigin::Header("X-Session"), "a9f-22-x%%", true),
            (SecretOrigin::Named("DB_PASSWORD"), "orders", true),
            (SecretOrigin::Named("DB_PASSWORD"), "123456", true),
            (SecretOrigin::Named("AWS_SECRET_ACCESS_KEY"), "/wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", true),
            (SecretOrigin::Named("PRIVATE_KEY"), "/home/me/.ssh/key.pem", false),
            (SecretOrigin::Named("SSH_AUTH"), "/run/user1000/agent", false),
            (SecretOrigin::Named("MAX_TOKENS"), "200000", false),
            (SecretOrigin::Named("TOKEN_LIMIT"), "1000000", false),
            (SecretOrigin::Named("PROJECT_DIR"), "/home/me/x7Gh29aBq", false),
            (SecretOrigin::Named("ROOT"), "~/notes", false),
            (SecretOrigin::Named("ROOT"), "/private/var/x7Gh29aBq", false),
            (SecretOrigin::Named("FILE"), "src/auth/token.rs", false),
            (SecretOrigin::Named("ROOT"), "C:\\Users\\me", false),
            (SecretOrigin::Named("DBHOST"), "db-7f3a9b2c1.internal:5432", false),
            (SecretOrigin::Named("SITE"), "https://example.com/x7Gh29aBq", false),
            (SecretOrigin::Named("MAIL"), "me@example.com", false),
            (SecretOrigin::Named("DBNAME"), "orders_2024", false),
            (SecretOrigin::Named("APP"), "MyProject", false),
            (SecretOrigin::Named("ZONE"), "Europe/Berlin", false),
            (SecretOrigin::Named("REGION"), "eu-west-1", false),
            (SecretOrigin::Named("IMAGE"), "python3.12-slim", false),
            (SecretOrigin::Named("ACCOUNT"), "123456789012", false),
            (SecretOrigin::Named("SINCE"), "2024-01-01", false),
            (SecretOrigin::Named("TOPIC"), "authentication", false),
            (SecretOrigin::Named("CLIENT_ID"), "Iv1.8a61f9b3a7aba766", false),
            (SecretOrigin::Named("E_1"), "x7Gh29aBq", true),
            (SecretOrigin::Named("E_1"), "sk-proj-9f8e7d6c5b4a", true),
            (SecretOrigin::Named("E_1"), "deadbeefcafebabe", true),
            (SecretOrigin::Named("E_1"), "550e8400-e29b-41d4-a716-446655440000", true),
            (SecretOrigin::Named("E_1"), "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP", true),
            (SecretOrigin::Named("E_1"), "planted-secret-7", true),
            (SecretOrigin::Content, "hunter2!x", true),
            (SecretOrigin::Content, "/srv/data", false),
            (SecretOrigin::Content, "orders", false),
        ];
        for (origin, value, credential) in rows {
            assert_eq!(is_credential(*origin, value), *credential, "{origin:?} {value}");
        }
    }
}
