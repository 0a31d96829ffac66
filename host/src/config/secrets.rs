//! What must never be shown, and how it is taken out of a text.
//!
//! What a variable, a file, a command, a header or a setting for credentials brings in is a secret, wherever it stands:
//! in a text, a name or a key. One rule keeps our own words and the names of tools whole: **an ordinary word is a secret
//! only where its name says so**. `orders` from `DB_NAME` is none, `orders` from `DB_PASSWORD` is one, and so is whatever
//! is no single short word, from either.
//!
//! Some secrets are credentials (`rules`): these are hidden from clients too, in whatever a server says (`credentials`).

mod credentials;
mod encodings;
mod json;
mod names;
mod rules;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use aho_corasick::AhoCorasick;
use serde_json::Value;

pub use credentials::Credentials;
pub use names::{is_harmless_variable, looks_secret};
use rules::{SecretOrigin, is_credential};

/// Values that must never be shown. Its `Debug` shows how many there are.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Each value, and whether it is a credential.
    values: BTreeMap<String, bool>,
    /// All forms of all values at once; built when first needed.
    finder: OnceLock<Option<Arc<AhoCorasick>>>,
    /// The credentials among them; built when first needed.
    credentials: OnceLock<Arc<Credentials>>,
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
        self.add_from(SecretOrigin::Setting, value);
    }

    /// Adds the content of a file or the output of a command.
    pub fn add_content(&mut self, value: &str) {
        self.add_from(SecretOrigin::Content, value);
    }

    fn add_from(&mut self, origin: SecretOrigin<'_>, value: &str) {
        let value = value.trim();
        self.insert(value, is_credential(origin, value));
        if value.contains('\n') {
            // The first and last line of every key are known to all.
            for line in value.lines().map(str::trim).filter(|line| !line.starts_with("-----")) {
                let generated = names::is_generated(line);
                if generated || line.len() >= MIN_LINE {
                    self.insert(line, generated && is_credential(SecretOrigin::Content, line));
                }
                if let Some((name, value)) = line.split_once([':', '=']).filter(|_| !value.starts_with('{')) {
                    self.add_named(name.trim(), value.trim().trim_matches(['"', '\'']));
                }
            }
        }
        self.add_json(value);
    }

    /// Adds the value of a variable, unless it is known to hold no secret or holds an ordinary word and does not tell.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        if !is_harmless_variable(name) {
            self.add_unless_ordinary(SecretOrigin::Named(name), name, value);
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
            _ => self.add_unless_ordinary(SecretOrigin::Header(name), name, value),
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

    /// Adds what is secret of a variable that the configuration itself sets for a program: as `add_named`, and a value that
    /// a machine has made, whatever its name is.
    pub fn add_env(&mut self, name: &str, value: &str) {
        self.add_named(name, value);
        if !is_harmless_variable(name) && is_credential(SecretOrigin::Named(name), value) {
            self.add_from(SecretOrigin::Named(name), value);
        }
    }

    /// Adds what is secret of a variable that a program gets: by its name, or by what the value itself calls one. A number or
    /// a path is none, whatever its variable is called: MAX_TOKENS, SSH_AUTH_SOCK.
    pub fn add_inherited_env(&mut self, name: &str, value: &str) {
        let plain = rules::is_path(value) || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
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
        self.add_env("", argument);
        let mut rest = argument.trim_start_matches('-');
        // One within the other, as in `--header=Authorization: …`.
        while let Some((name, value)) = rest.split_once(['=', ':']) {
            rest = value.trim_start();
            if name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                self.add_named(name, rest);
            }
        }
    }

    /// Adds the password of an address, or its user where that stands alone, what its query calls a secret, and parts of its
    /// path that a machine has made: who knows these may call.
    pub fn add_address(&mut self, address: &str) {
        let Some((_, rest)) = address.split_once("://") else { return };
        let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = before_query.split(['/', '#']);
        let authority = parts.next().unwrap_or_default();
        for part in parts.filter(|part| part.len() >= MIN_LINE && rules::looks_generated(part)) {
            self.add_encoded(part);
        }
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
        other.values.iter().for_each(|(value, credential)| self.insert_value(value, *credential));
    }

    /// Takes a value out again that is one no longer.
    pub fn remove(&mut self, value: &str) {
        if self.values.remove(value.trim()).is_some() {
            self.clear_caches();
        }
    }

    /// Takes all out that have this character.
    pub(super) fn remove_containing(&mut self, character: char) {
        self.values.retain(|value, _| !value.contains(character));
        self.clear_caches();
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The text with `[REDACTED]` in place of every secret, also where it is escaped, percent-encoded, in base64 or
    /// in lower case as hosts are. What was JSON stays JSON.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = match self.finder.get_or_init(|| build(&self.values)) {
            Some(finder) if finder.is_match(text) => find_all(finder, text),
            _ => Vec::new(),
        };
        if found.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(json::replace(text, &found, REDACTED)) }
    }

    /// The credentials among them, which are hidden in whatever a server says. Cheap where nothing was added since.
    pub fn credentials(&self) -> Arc<Credentials> {
        let build = || {
            let credentials = self.values.iter().filter(|(_, credential)| **credential);
            Arc::new(Credentials::new(credentials.map(|(value, _)| value.as_str())))
        };
        Arc::clone(self.credentials.get_or_init(build))
    }

    fn add_unless_ordinary(&mut self, origin: SecretOrigin<'_>, name: &str, value: &str) {
        if looks_secret(name) || !names::is_ordinary(value) {
            self.add_from(origin, value);
        }
    }

    fn insert(&mut self, value: &str, credential: bool) {
        if names::is_worth_hiding(value) {
            self.insert_value(value, credential);
        }
    }

    /// Keeps a value; what is a credential anywhere is one everywhere.
    fn insert_value(&mut self, value: &str, credential: bool) {
        match self.values.get_mut(value) {
            Some(known) if *known || !credential => return,
            Some(known) => *known = true,
            None => {
                self.values.insert(value.to_owned(), credential);
            }
        }
        self.clear_caches();
    }

    fn clear_caches(&mut self) {
        self.finder = OnceLock::new();
        self.credentials = OnceLock::new();
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

fn build(values: &BTreeMap<String, bool>) -> Option<Arc<AhoCorasick>> {
    let forms: BTreeSet<String> = values.keys().flat_map(|value| encodings::encoded_forms(value)).collect();
    if forms.is_empty() {
        return None;
    }
    Some(Arc::new(AhoCorasick::new(forms).expect("a configuration holds far fewer bytes than a finder can")))
}

/// Where secrets stand, in order.
fn find_all(finder: &AhoCorasick, text: &str) -> Vec<Range<usize>> {
    let places = finder.find_overlapping_iter(text).map(|found| found.range());
    merge_ranges(places.filter(|place| !names::is_within_word(text, place)))
}

/// Places in the order of their ends, in order. Those that overlap are one, so that no end of a secret is left beside another.
fn merge_ranges(places: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for mut one in places {
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
