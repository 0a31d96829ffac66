//! Values that must never be shown, and how they are removed from a text.
//!
//! Values from variables, files, commands, headers and credential settings are secrets, wherever they appear: in a
//! text, a name or a key. One rule keeps toolgate's own words and the names of tools readable: **an ordinary word is a
//! secret only if its name says so**. `orders` from `DB_NAME` is not a secret, `orders` from `DB_PASSWORD` is. Anything
//! but a single short word is a secret from either.
//!
//! Some secrets are credentials (`rules`): these are also hidden from clients, in everything that a server says
//! (`credentials`).

mod credentials;
mod encodings;
mod finder;
mod json;
mod names;
mod rules;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use credentials::Credentials;
use finder::SecretFinder;
pub use json::REDACTED;
pub(super) use names::COMMON_VARIABLES;
pub use names::{is_harmless_variable, looks_secret};
use rules::{SecretOrigin, is_credential};

/// Values that must never be shown. `Debug` shows only how many there are. Clones share everything until they change.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Each value, and whether it is a credential.
    values: Arc<BTreeMap<String, bool>>,
    /// Finds all forms of all values; built when first needed.
    finder: Arc<OnceLock<SecretFinder>>,
    /// The credentials among the values; built when first needed.
    credentials: Arc<OnceLock<Arc<Credentials>>>,
}

impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for Secrets {}

impl Secrets {
    /// Adds a value. Skips values that would hide half of every text: a few bytes, a small number, a common word.
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
            // The first and last lines of a key file are the same for everybody.
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

    /// Adds the value of a variable, unless the variable is known to be harmless, or the value is an ordinary word and
    /// the name does not suggest a secret.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        if !is_harmless_variable(name) {
            self.add_unless_ordinary(SecretOrigin::Named(name), name, value);
        }
    }

    /// Adds the value of a header: a credential without its scheme, and the parts of cookies.
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

    /// Adds a value if its name suggests a secret, and the secrets inside the value.
    pub fn add_named(&mut self, name: &str, value: &str) {
        if looks_secret(name) {
            self.add_header(name, value);
        }
        self.add_address(value);
        self.add_json(value);
    }

    /// Adds the secrets of a variable that the configuration sets for a program: like `add_named`, and also a generated
    /// value under any name.
    pub fn add_env(&mut self, name: &str, value: &str) {
        self.add_named(name, value);
        if !is_harmless_variable(name) && is_credential(SecretOrigin::Named(name), value) {
            self.add_from(SecretOrigin::Named(name), value);
        }
    }

    /// Adds the secrets of a variable that a program inherits, by its name or inside its value. A number or a path is
    /// never a secret, whatever its name: MAX_TOKENS, SSH_AUTH_SOCK.
    pub fn add_inherited_env(&mut self, name: &str, value: &str) {
        let plain = rules::is_path(value) || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !plain {
            self.add_named(name, value);
        }
    }

    /// Adds the secrets in an argument by their look: `--api-key=…`, `TOKEN=…`, `Authorization: …`, addresses. `before`
    /// is the argument before it, which may be `--api-key`.
    pub fn add_argument(&mut self, before: Option<&str>, argument: &str) {
        let announced = before.filter(|before| before.starts_with('-') && !before.contains('='));
        if announced.is_some_and(looks_secret) && !argument.starts_with('-') {
            self.add(argument);
        }
        self.add_env("", argument);
        let mut rest = argument.trim_start_matches('-');
        // One may contain the other, as in `--header=Authorization: …`.
        while let Some((name, value)) = rest.split_once(['=', ':']) {
            rest = value.trim_start();
            if name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
                self.add_named(name, rest);
            }
        }
    }

    /// Adds the secrets of an address: its password, or the user if there is none; query parameters named like secrets;
    /// and generated parts of its path, which often grant access.
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

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Secrets) {
        other.values.iter().for_each(|(value, credential)| self.insert_value(value, *credential));
    }

    /// Removes a value that is no longer a secret.
    pub fn remove(&mut self, value: &str) {
        if self.values.contains_key(value.trim()) {
            Arc::make_mut(&mut self.values).remove(value.trim());
            self.clear_caches();
        }
    }

    /// Removes all values that contain this character.
    pub(super) fn remove_containing(&mut self, character: char) {
        Arc::make_mut(&mut self.values).retain(|value, _| !value.contains(character));
        self.clear_caches();
    }

    /// Reports whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Replaces every secret in a text by `[REDACTED]`, also if it is escaped, percent-encoded, in base64, or in lower
    /// case as in host names. JSON stays JSON.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let build = || SecretFinder::new(self.values.keys().map(String::as_str));
        let found = self.finder.get_or_init(build).find(text, names::is_within_word);
        json::redact(text, &found)
    }

    /// Returns the credentials, which are hidden in everything that a server says. Cheap if nothing was added since the
    /// last call.
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

    /// Keeps a value; a credential from one origin is a credential everywhere.
    fn insert_value(&mut self, value: &str, credential: bool) {
        if self.values.get(value).is_none_or(|known| credential && !known) {
            Arc::make_mut(&mut self.values).insert(value.to_owned(), credential);
            self.clear_caches();
        }
    }

    fn clear_caches(&mut self) {
        (self.finder, self.credentials) = Default::default();
    }

    /// Adds the members of a JSON object that are named like secrets, as in the key file of a service.
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

/// Lines of this length in a multi-line secret are secrets of their own.
const MIN_LINE: usize = 16;

#[cfg(test)]
mod tests;
