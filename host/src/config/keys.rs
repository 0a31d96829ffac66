//! The keys of a configuration file: one table per section drives parsing, hints for misspelt keys, and the JSON
//! Schema.

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

/// A key of one section of the configuration, whose value is stored in a `T`.
pub struct ConfigKey<T: 'static> {
    /// The name of the key.
    pub name: &'static str,
    /// Other accepted names. Case, `_` and `-` are ignored, so `envFile` need not be listed.
    pub aliases: &'static [&'static str],
    /// The kind of value that the key takes.
    pub form: KeyForm,
    /// The default value as JSON; empty if there is none.
    pub default: &'static str,
    /// What the key is for, as one sentence.
    pub about: &'static str,
    /// Whether the key is in the schema; hidden keys are accepted because people write them.
    pub in_schema: bool,
    /// Whether the key restricts something. A rule is never skipped silently: without a value, misspelt or given twice,
    /// it is an error in every file format.
    pub is_rule: bool,
    set: SetValue<T>,
}

/// Stores a value in its target.
pub type SetValue<T> = fn(&mut T, &ConfigField<'_>, &mut ReadContext) -> Result<(), FieldError>;

/// The kind of value that a key takes.
pub enum KeyForm {
    /// `true` or `false`.
    Flag,
    /// Text.
    Text,
    /// One of the listed words.
    Choice(&'static [&'static str]),
    /// A duration.
    Span,
    /// A list of one duration or more, up to the given number.
    Spans(usize),
    /// A number of bytes.
    Bytes,
    /// A whole number in this inclusive range.
    Number(u64, u64),
    /// A number from 0 to 1.
    Fraction,
    /// A list of strings.
    Texts,
    /// A program, or a list of a program and its arguments.
    Command,
    /// A map from names to strings.
    TextMap,
    /// A map whose keys have their own table.
    Section(fn() -> serde_json::Value),
    /// A list of maps whose keys have their own table.
    Sections(fn() -> serde_json::Value),
    /// A map from names to maps whose keys have their own table.
    NamedSections(fn() -> serde_json::Value),
}

impl<T> ConfigKey<T> {
    /// Creates a key that is in the schema.
    pub const fn new(
        name: &'static str,
        form: KeyForm,
        default: &'static str,
        about: &'static str,
        set: SetValue<T>,
    ) -> Self {
        ConfigKey { name, aliases: &[], form, default, about, in_schema: true, is_rule: false, set }
    }

    /// Creates a key that is accepted because people write it, but is not in the schema.
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

    /// Adds other names to a key.
    pub const fn aliased(aliases: &'static [&'static str], mut key: Self) -> Self {
        key.aliases = aliases;
        key
    }

    /// Marks a key as a rule.
    pub const fn as_rule(mut key: Self) -> Self {
        key.is_rule = true;
        key
    }

    /// Reports whether `name` is one of this key's names.
    pub fn is_called(&self, name: &str) -> bool {
        self.names().any(|known| nearest::is_same_word(known, name))
    }

    /// Returns all names of this key.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<T> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Reads a map by its table; errors go to `context`, so that one mistake does not hide the next.
pub fn read_keys<T>(keys: &[ConfigKey<T>], target: &mut T, given: &ConfigField<'_>, context: &mut ReadContext) {
    let entries = match given.map() {
        Ok(entries) => entries,
        Err(error) => return context.add_problem(error),
    };
    if entries.len() > MAX_KEYS {
        return context.add_problem(given.error(format!("{} keys are too many for one map", entries.len())));
    }
    let mut taken: Vec<(&str, &str)> = Vec::new();
    for entry in entries {
        let name = entry.key.as_str();
        let Some(key) = keys.iter().find(|key| key.is_called(name)) else {
            report_unknown(keys, entry, &given.field, context);
            continue;
        };
        let field = || field::join(&given.field, name);
        // A key without a value counts as not given. For a rule, that would guess what the author wants to forbid.
        if entry.value.is_null() {
            if key.is_rule {
                let text = "has no value; write one, such as [] for none, or remove the key".to_owned();
                context.add_problem(FieldError { place: entry.place.clone(), field: field(), text });
            }
            continue;
        }
        if let Some((_, first)) = taken.iter().find(|(taken, _)| *taken == key.name) {
            let text = format!("{name:?} means the same as {first:?}; keep one of them");
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

/// Reads a section of the file whose values are expanded later; field names start at the section, as those of a server
/// do.
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
        return report_or_notice(context, position, field, format!("{name:?} is not supported: {advice}"), "");
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
    report_or_notice(context, position, field, format!("unknown key {name:?}{hint}"), " (ignored)");
}

/// Reports an unusable key: as an error in toolgate's own files, and as a notice in those of other clients.
fn report_or_notice(context: &mut ReadContext, position: &FilePosition, field: &str, text: String, otherwise: &str) {
    match context.is_strict() {
        true => context.add_problem(FieldError { place: position.clone(), field: field.to_owned(), text }),
        false => context.add_notice(position, format!("{text}{otherwise}")),
    }
}

/// Reports whether a key of another program says nothing about how to reach a server.
pub fn is_ignorable(name: &str) -> bool {
    name.starts_with(['_', '$', '/', '#']) || IDLE.iter().any(|idle| nearest::is_same_word(idle, name))
}

/// Keys that other clients write and toolgate ignores. Some look like rules, but they say when the client itself asks
/// its user, and most of them when it does not.
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
    ("lifecycle", "in a server, write its keys directly, such as `idle_timeout: 10m`"),
    ("headersHelper", "write the header under `headers`, with a variable such as ${TOKEN}"),
    ("authProviderType", "write the token under `auth`, with a variable such as ${TOKEN}"),
    ("targetServiceAccount", "write the token under `auth`, with a variable such as ${TOKEN}"),
    ("sandbox", "the program runs with toolgate's own rights"),
    ("sandboxEnabled", "the program runs with toolgate's own rights"),
];

const MAX_KEYS: usize = 1000;
