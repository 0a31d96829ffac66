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

use super::document::MapEntry;
use super::field::{ConfigField, FieldError, ReadContext};
use super::model::FilePosition;
use super::{field, nearest};

/// A key of some part of the configuration that is read into a `T`.
pub struct ConfigKey<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Other names that are understood. Case, `_` and `-` make no difference, so `envFile` need not be here.
    pub aliases: &'static [&'static str],
    /// What stands there.
    pub form: KeyForm,
    /// The value where none is given, as JSON; empty where there is none.
    pub default: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// It is in the schema; the others are read because people write them.
    pub in_schema: bool,
    /// It says what may not be done, so it is never passed over without a word: not where it has no value, nor where it is
    /// misspelt or given twice, in files of whatever shape.
    pub is_rule: bool,
    set: SetValue<T>,
}

/// Puts a value where it belongs.
pub type SetValue<T> = fn(&mut T, &ConfigField<'_>, &mut ReadContext) -> Result<(), FieldError>;

/// What stands at a key.
pub enum KeyForm {
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

impl<T> ConfigKey<T> {
    /// A key of the schema.
    pub const fn new(
        name: &'static str,
        form: KeyForm,
        default: &'static str,
        about: &'static str,
        set: SetValue<T>,
    ) -> Self {
        ConfigKey { name, aliases: &[], form, default, about, in_schema: true, is_rule: false, set }
    }

    /// A key that is read because people write it, but has no place in the schema.
    pub const fn hidden(name: &'static str, set: SetValue<T>) -> Self {
        ConfigKey {
            name,
            aliases: &[],
            form: KeyForm::Text,
            default: "",
            about: "",
            in_schema: false,
            is_rule: false,
            set,
        }
    }

    /// The same key under other names too.
    pub const fn aliased(aliases: &'static [&'static str], mut key: Self) -> Self {
        key.aliases = aliases;
        key
    }

    /// The same key as one that says what may not be done.
    pub const fn as_rule(mut key: Self) -> Self {
        key.is_rule = true;
        key
    }

    /// Whether it is meant by this name.
    pub fn is_called(&self, name: &str) -> bool {
        self.names().any(|known| nearest::is_same_word(known, name))
    }

    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Reads a map by its table. What is wrong goes to the reading, so that one mistake does not hide the next.
pub fn read_keys<T>(keys: &[ConfigKey<T>], target: &mut T, given: &ConfigField<'_>, context: &mut ReadContext) {
    let entries = match given.map() {
        Ok(entries) => entries,
        Err(error) => return context.add_problem(error),
    };
    if entries.len() > MAX_KEYS {
        return context.add_problem(given.error(format!("{} keys are too many to be meant", entries.len())));
    }
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for entry in entries {
        let name = entry.key.as_str();
        let Some(key) = keys.iter().find(|key| key.is_called(name)) else {
            report_unknown(keys, entry, &given.field, context);
            continue;
        };
        let field = || field::join(&given.field, name);
        // What stands there without a value is not given. Of a rule nobody can tell what was meant to stand there.
        if entry.value.is_null() {
            if key.is_rule {
                let text = "has no value; write what is meant, such as [] for none, or take the key out".to_owned();
                context.add_problem(FieldError { place: entry.place.clone(), field: field(), text });
            }
            continue;
        }
        if let Some((_, first)) = taken.iter().find(|(taken, _)| *taken == key.name) {
            let text = format!("{name:?} says the same as {first:?}; keep one of them");
            match key.is_rule {
                true => {
                    context.add_problem(FieldError { place: entry.place.clone(), field: given.field.clone(), text })
                }
                false => report_or_notice(context, &entry.place, &given.field, text, " (the first is used)"),
            }
            continue;
        }
        taken.push((key.name, name));
        let value = ConfigField { node: &entry.value, field: field::join(&given.field, key.name) };
        if let Err(error) = (key.set)(target, &value, context) {
            context.add_problem(error);
        }
    }
}

/// Reads a part of the file of which some is filled in later. Its values are named within it, as those of a server are.
pub fn read_section<T>(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
    read: impl FnOnce(&ConfigField<'_>, &mut ReadContext) -> Result<T, FieldError>,
) -> Option<T> {
    let outer = std::mem::replace(&mut context.path, field.field.clone());
    let found = read(&ConfigField { node: field.node, field: String::new() }, context);
    let found = found.map_err(|error| context.add_problem(error)).ok();
    context.path = outer;
    found
}

fn report_unknown<T>(keys: &[ConfigKey<T>], entry: &MapEntry, field: &str, context: &mut ReadContext) {
    let (name, position) = (entry.key.as_str(), &entry.place);
    if !context.is_strict() && is_ignorable(name) {
        return;
    }
    if let Some((_, advice)) = CANNOT.iter().find(|(known, _)| nearest::is_same_word(known, name)) {
        return report_or_notice(context, position, field, format!("{name:?} cannot be done here: {advice}"), "");
    }
    let meant = misspelt::intended_rule(keys, entry);
    if let Some(meant) = meant.filter(|_| !context.is_strict()) {
        let field = field.to_owned();
        return context.add_problem(FieldError { place: position.clone(), field, text: misspelt::advice(name, meant) });
    }
    let shown = keys.iter().filter(|key| key.in_schema).map(|key| key.name);
    let hint = match (nearest::hint(name, shown), meant) {
        (hint, Some(meant)) if hint.is_empty() => misspelt::hint(meant),
        (hint, _) => hint,
    };
    report_or_notice(context, position, field, format!("unknown key {name:?}{hint}"), " (left out)");
}

/// In our own files a key that does nothing is a mistake; in those of others it is worth a word.
fn report_or_notice(context: &mut ReadContext, position: &FilePosition, field: &str, text: String, otherwise: &str) {
    match context.is_strict() {
        true => context.add_problem(FieldError { place: position.clone(), field: field.to_owned(), text }),
        false => context.add_notice(position, format!("{text}{otherwise}")),
    }
}

/// Keys of other programs that say nothing about how a server is reached.
pub fn is_ignorable(name: &str) -> bool {
    name.starts_with(['_', '$', '/', '#']) || IDLE.iter().any(|idle| nearest::is_same_word(idle, name))
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
