//! A section of a configuration file: one table of keys drives parsing, hints for misspelt keys, and the JSON Schema.

mod forms;
mod ignorable;
mod key;
pub(super) mod misspelt;
mod read;
pub(super) mod schema;
mod spans;

pub(super) use forms::{ChoiceForm, OptionalSectionForm, SectionForm, name_of};
pub(super) use ignorable::is_ignorable;
pub(super) use key::{ConfigKey, KeyForm};
pub(super) use read::{read_keys, read_section};
pub(super) use spans::{read_limit_in, read_span};
