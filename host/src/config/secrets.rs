//! What must never be shown, and how it is taken out of a text.
//!
//! What a variable, a file, a command, a header or a setting for credentials brings in is a secret, wherever it stands:
//! in a text, a name or a key. One rule keeps our own words and the names of tools whole: **an ordinary word is a secret
//! only where its name says so**. `orders` from `DB_NAME` is none, `orders` from `DB_PASSWORD` is one, and so is whatever
//! is no single short word, from either.

mod forms;
mod json;
mod names;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aho_corasick::AhoCorasick;
use serde_json::Value;

pub use names::{is_harmless_variable, looks_secret};

/// Values that must never be shown. Its `Debug` shows how many there are.
#[derive(Clone, Default)]
pub struct Secrets {
    values: BTreeSet<String>,
    /// All forms of all values at once; built when first needed.
    finder: OnceLock<Option<Arc<AhoCorasick>>>,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for Secrets {}

impl Secrets {
    /// Adds a value. One that would hide half of every text is left out: a few bytes, a small number, a common word.
    pub fn add(&mut self, value: &str) {
        let value = value.trim();
        self.insert(value);
        if value.contains('\n') {
            // The first and last line of every key are known to all.
            let lines = value.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
            let lines = lines.filter(|line| line.len() >= MIN_LINE || names::is_generated(line));
            lines.for_each(|line| self.insert(line));
        }
        self.add_json(value);
    }

    /// Adds the value of a variable, unless it is known to hold no secret or holds an ordinary word and does not tell.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        if !is_harmless_variable(name) {
            self.add_unless_ordinary(name, value);
        }
    }

    /// Adds the value of a header: a credential without the word before it, and the parts of cookies.
    pub fn add_header(&mut self, name: &str, value: &str) {
        if names::is_harmless_header(name) {
            return;
        }
        if name.eq_ignore_ascii_case("cookie") {
            value.split(';').filter_map(|pair| pair.split_once('=')).for_each(|(_, value)| self.add(value));
        }
        match value.trim().split_once(' ') {
            Some((scheme, credential)) if names::is_scheme(scheme) => {
                self.add(credential);
                if scheme.eq_ignore_ascii_case("basic") {
                    self.add_decoded_password(credential.trim());
                }
            }
            _ => self.add_unless_ordinary(name, value),
        }
    }

    /// Adds what of a named value is secret by the looks of its name, and what the value itself calls a secret.
    pub fn add_named(&mut self, name: &str, value: &str) {
        if looks_secret(name) {
            self.add_header(name, value);
        }
        self.add_address(value);
        self.add_json(value);
    }

    /// Adds what is secret of a variable that a program gets: by its name, or by what the value itself calls one. A number or
    /// a path is none, whatever its variable is called: MAX_TOKENS, SSH_AUTH_SOCK.
    pub fn add_inherited(&mut self, name: &str, value: &str) {
        let plain = value.starts_with('/') || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !plain {
            self.add_named(name, value);
        }
    }

    /// Adds what is secret in an argument by the looks of it: `--api-key=…`, `TOKEN=…`, `Authorization: …`, addresses.
    /// `before` is the argument before it, which may be `--api-key`.
    pub fn add_argument(&mut self, before: Option<&str>, argument: &str) {
        let announced = before.filter(|before| before.starts_with('-') && !before.contains('='));
        if announced.is_some_and(looks_secret) && !argument.starts_with('-') {
            self.add(argument);
        }
        self.add_named("", argument);
        let mut rest = argument.trim_start_matches('-');
        // One within the other, as in `--header=Authorization: …`.
        while let Some((name, value)) = rest.split_once(['=', ':']) {
            rest = value.trim_start();
            if name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                self.add_named(name, rest);
            }
        }
    }

    /// Adds the password of an address, or its user where that stands alone, and what its query calls a secret.
    pub fn add_address(&mut self, address: &str) {
        let Some((_, rest)) = address.split_once("://") else { return };
        let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = before_query.split(['/', '#']).next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@') {
            let secret = user.split_once(':').map_or(user, |(_, password)| password);
            self.add_encoded(secret);
        }
        for (name, value) in query.split(['&', '#']).filter_map(|pair| pair.split_once('=')) {
            if looks_secret(name) {
                self.add_encoded(value);
            }
        }
    }

    /// Adds all values of the other.
    pub fn merge(&mut self, other: &Secrets) {
        if !other.values.is_subset(&self.values) {
            self.values.extend(other.values.iter().cloned());
            self.finder = OnceLock::new();
        }
    }

    /// Takes a value out again that is one no longer.
    pub fn forget(&mut self, value: &str) {
        if self.values.remove(value.trim()) {
            self.finder = OnceLock::new();
        }
    }

    /// Takes all out that have this character.
    pub(super) fn forget_with(&mut self, character: char) {
        self.values.retain(|value| !value.contains(character));
        self.finder = OnceLock::new();
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The text with `[REDACTED]` in place of every secret, also where it is escaped, percent-encoded, in base64 or
    /// in lower case as hosts are. What was JSON stays JSON.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = match self.finder.get_or_init(|| build(&self.values)) {
            Some(finder) if finder.is_match(text) => found(finder, text),
            _ => Vec::new(),
        };
        if found.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(json::replace(text, &found, REDACTED)) }
    }

    fn add_unless_ordinary(&mut self, name: &str, value: &str) {
        if looks_secret(name) || !names::is_ordinary(value) {
            self.add(value);
        }
    }

    fn insert(&mut self, value: &str) {
        if names::is_telling(value) && self.values.insert(value.to_owned()) {
            self.finder = OnceLock::new();
        }
    }

    /// Adds what an object calls a secret, as in the key file of a service.
    fn add_json(&mut self, text: &str) {
        if !text.starts_with('{') {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else { return };
        let mut values = vec![("", &value)];
        while let Some((name, value)) = values.pop() {
            match value {
                Value::Object(members) => values.extend(members.iter().map(|(name, value)| (name.as_str(), value))),
                Value::Array(items) => values.extend(items.iter().map(|value| (name, value))),
                Value::String(text) if looks_secret(name) => self.add(text),
                _ => {}
            }
        }
    }

    fn add_encoded(&mut self, value: &str) {
        self.add(value);
        if let Ok(plain) = percent_encoding::percent_decode_str(value).decode_utf8() {
            self.add(&plain);
        }
    }

    fn add_decoded_password(&mut self, credential: &str) {
        use base64::Engine as _;
        let decoded = base64::engine::general_purpose::STANDARD.decode(credential).ok();
        if let Some((_, password)) = decoded.as_deref().and_then(|bytes| str::from_utf8(bytes).ok()?.split_once(':')) {
            self.add(password);
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

fn build(values: &BTreeSet<String>) -> Option<Arc<AhoCorasick>> {
    let forms: BTreeSet<String> = values.iter().flat_map(|value| forms::forms(value)).collect();
    if forms.is_empty() {
        return None;
    }
    Some(Arc::new(AhoCorasick::new(forms).expect("a configuration holds far fewer bytes than a finder can")))
}

/// Where secrets stand, in order. Those that overlap are one, so that no end of a secret is left beside another.
fn found(finder: &AhoCorasick, text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    // They come in the order of their ends.
    for one in finder.find_overlapping_iter(text) {
        let mut one = one.range();
        if names::is_within_word(text, &one) {
            continue;
        }
        while let Some(before) = found.pop_if(|before| before.end > one.start) {
            one.start = one.start.min(before.start);
        }
        found.push(one);
    }
    found
}

/// What stands in place of a secret.
pub const REDACTED: &str = "[REDACTED]";
/// Lines of a secret with many lines that are this long are secrets of their own, whatever they say.
const MIN_LINE: usize = 16;

#[cfg(test)]
mod tests;
