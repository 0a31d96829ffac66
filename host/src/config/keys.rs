//! The keys of a configuration: one table drives reading, hints for typing errors, and the schema.

pub mod auth;
pub mod gateway;
pub mod lifecycle;
pub mod misspelt;
pub mod queues;
pub mod record;
pub mod results;
pub mod server;
pub mod settings;
pub mod shadow;

use super::document::Entry;
use super::model::Place;
use super::reading::{Given, Misfit, Reading};
use super::{nearest, reading};

/// A key of some part of the configuration that is read into a `T`.
pub struct Key<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Other names that are understood. Case, `_` and `-` make no difference, so `envFile` need not be here.
    pub aliases: &'static [&'static str],
    /// What stands there.
    pub form: Form,
    /// The value where none is given, as JSON; empty where there is none.
    pub default: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// It is in the schema; the others are read because people write them.
    pub shown: bool,
    /// It says what may not be done, so it is never passed over without a word: not where it has no value, nor where it is
    /// misspelt or given twice, in files of whatever shape.
    pub rule: bool,
    set: Set<T>,
}

/// Puts a value where it belongs.
pub type Set<T> = fn(&mut T, &Given<'_>, &mut Reading) -> Result<(), Misfit>;

/// What stands at a key.
pub enum Form {
    /// `true` or `false`.
    Flag,
    /// Text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A span of time.
    Span,
    /// A list of at least one and at most this many spans of time.
    Spans(usize),
    /// An amount of bytes.
    Bytes,
    /// A whole number between these.
    Number(u64, u64),
    /// A number from 0 to 1.
    Fraction,
    /// A list of texts.
    Texts,
    /// A program, or a list of a program and its arguments.
    Command,
    /// A map from names to texts.
    TextMap,
    /// A map with the keys of another table.
    Section(fn() -> serde_json::Value),
    /// A list of such maps.
    Sections(fn() -> serde_json::Value),
    /// A map from names to such maps.
    NamedSections(fn() -> serde_json::Value),
}

impl<T> Key<T> {
    /// A key of the schema.
    pub const fn new(name: &'static str, form: Form, default: &'static str, about: &'static str, set: Set<T>) -> Self {
        Key { name, aliases: &[], form, default, about, shown: true, rule: false, set }
    }

    /// A key that is read because people write it, but has no place in the schema.
    pub const fn hidden(name: &'static str, set: Set<T>) -> Self {
        Key { name, aliases: &[], form: Form::Text, default: "", about: "", shown: false, rule: false, set }
    }

    /// The same key under other names too.
    pub const fn or(aliases: &'static [&'static str], mut key: Self) -> Self {
        key.aliases = aliases;
        key
    }

    /// The same key as one that says what may not be done.
    pub const fn rule(mut key: Self) -> Self {
        key.rule = true;
        key
    }

    /// Whether it is meant by this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.names().any(|known| nearest::same(known, name))
    }

    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Reads a map by its table. What is wrong goes to the reading, so that one mistake does not hide the next.
pub fn read<T>(keys: &[Key<T>], target: &mut T, given: &Given<'_>, reading: &mut Reading) {
    let entries = match given.map() {
        Ok(entries) => entries,
        Err(misfit) => return reading.problem(misfit),
    };
    if entries.len() > MAX_KEYS {
        return reading.problem(given.misfit(format!("{} keys are too many to be meant", entries.len())));
    }
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for entry in entries {
        let name = entry.key.as_str();
        let Some(key) = keys.iter().find(|key| key.is_called(name)) else {
            unknown(keys, entry, &given.field, reading);
            continue;
        };
        let field = || reading::join(&given.field, name);
        // What stands there without a value is not given. Of a rule nobody can tell what was meant to stand there.
        if entry.value.is_null() {
            if key.rule {
                let text = "has no value; write what is meant, such as [] for none, or take the key out".to_owned();
                reading.problem(Misfit { place: entry.place.clone(), field: field(), text });
            }
            continue;
        }
        if let Some((_, first)) = taken.iter().find(|(taken, _)| *taken == key.name) {
            let text = format!("{name:?} says the same as {first:?}; keep one of them");
            match key.rule {
                true => reading.problem(Misfit { place: entry.place.clone(), field: given.field.clone(), text }),
                false => complain(reading, &entry.place, &given.field, text, " (the first is used)"),
            }
            continue;
        }
        taken.push((key.name, name));
        let value = Given { node: &entry.value, field: reading::join(&given.field, key.name) };
        if let Err(misfit) = (key.set)(target, &value, reading) {
            reading.problem(misfit);
        }
    }
}

/// Reads a part of the file of which some is filled in later. Its values are named within it, as those of a server are.
pub fn part<T>(
    given: &Given<'_>,
    reading: &mut Reading,
    read: impl FnOnce(&Given<'_>, &mut Reading) -> Result<T, Misfit>,
) -> Option<T> {
    let outer = std::mem::replace(&mut reading.path, given.field.clone());
    let found = read(&Given { node: given.node, field: String::new() }, reading);
    let found = found.map_err(|misfit| reading.problem(misfit)).ok();
    reading.path = outer;
    found
}

fn unknown<T>(keys: &[Key<T>], entry: &Entry, field: &str, reading: &mut Reading) {
    let (name, place) = (entry.key.as_str(), &entry.place);
    if !reading.is_strict() && is_idle(name) {
        return;
    }
    if let Some((_, advice)) = CANNOT.iter().find(|(known, _)| nearest::same(known, name)) {
        return complain(reading, place, field, format!("{name:?} cannot be done here: {advice}"), "");
    }
    let meant = misspelt::rule_meant(keys, entry);
    if let Some(meant) = meant.filter(|_| !reading.is_strict()) {
        let field = field.to_owned();
        return reading.problem(Misfit { place: place.clone(), field, text: misspelt::advice(name, meant) });
    }
    let shown = keys.iter().filter(|key| key.shown).map(|key| key.name);
    let hint = match (nearest::hint(name, shown), meant) {
        (hint, Some(meant)) if hint.is_empty() => misspelt::hint(meant),
        (hint, _) => hint,
    };
    complain(reading, place, field, format!("unknown key {name:?}{hint}"), " (left out)");
}

/// In our own files a key that does nothing is a mistake; in those of others it is worth a word.
fn complain(reading: &mut Reading, place: &Place, field: &str, text: String, otherwise: &str) {
    match reading.is_strict() {
        true => reading.problem(Misfit { place: place.clone(), field: field.to_owned(), text }),
        false => reading.notice(place, format!("{text}{otherwise}")),
    }
}

/// Keys of other programs that say nothing about how a server is reached.
pub fn is_idle(name: &str) -> bool {
    name.starts_with(['_', '$', '/', '#']) || IDLE.iter().any(|idle| nearest::same(idle, name))
}

/// Among them keys that look like rules of ours and that clients are known to write: they say when the client itself asks
/// its user, and most of them say when it does not.
const IDLE: [&str; 29] = [
    "name",
    "id",
    "displayName",
    "title",
    "description",
    "icon",
    "iconUrl",
    "comment",
    "note",
    "version",
    "gallery",
    "metadata",
    "tags",
    "source",
    "dev",
    "trust",
    "isTrusted",
    "autoApprove",
    "alwaysAllow",
    "disabledAutoApproveTools",
    "approvalMode",
    "approvalPolicy",
    "defaultToolsApprovalMode",
    "autoStart",
    "required",
    "requiresOAuth",
    "supportsParallelToolCalls",
    "disabledReason",
    "settings",
];

const CANNOT: [(&str, &str); 6] = [
    ("lifecycle", "a server has its keys without it, such as `idle_timeout: 10m`"),
    ("headersHelper", "write the header under `headers`, with a variable such as ${TOKEN}"),
    ("authProviderType", "write the token under `auth`, with a variable such as ${TOKEN}"),
    ("targetServiceAccount", "write the token under `auth`, with a variable such as ${TOKEN}"),
    ("sandbox", "the program runs with the rights of toolgate"),
    ("sandboxEnabled", "the program runs with the rights of toolgate"),
];

const MAX_KEYS: usize = 1000;
