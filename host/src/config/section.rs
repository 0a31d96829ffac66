//! A section of a configuration file: one table of keys drives parsing, hints for misspelt keys, and the JSON Schema.

mod forms;
mod ignorable;
mod key;
pub mod misspelt;
mod read;
pub mod schema;
mod spans;

pub use forms::{ChoiceForm, OptionalSectionForm, SectionForm, name_of};
pub use ignorable::is_ignorable;
pub use key::{ConfigKey, KeyForm};
pub use read::{read_keys, read_section};
pub use spans::{read_limit_in, read_span};
