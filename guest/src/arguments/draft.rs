//! Arguments from text without quotes, whose words get their types from the schema later.

use crate::json::{Value, is_number};
use std::borrow::Cow;

/// A value whose unquoted words keep both their text and their default meaning.
#[derive(Clone, Debug)]
pub(super) enum Draft<'a> {
    /// An unquoted word, and its meaning if no schema decides.
    Word(Cow<'a, str>, Value<'a>),
    /// A quoted text, which is always a string.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Draft<'a>>),
    /// A mapping, with its members in order.
    Map(Members<'a>),
}

/// The members of a draft object.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, Draft<'a>)>;

impl<'a> Draft<'a> {
    /// Returns a word with its default meaning: `true`, `false`, `null`, `none`, a JSON number, or a string.
    pub(super) fn word(text: Cow<'a, str>) -> Self {
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        let value = if is("true") || is("false") {
            Value::Bool(is("true"))
        } else if is("null") || is("none") {
            Value::Null
        } else if is_number(&text) {
            Value::Number(text.clone())
        } else {
            Value::String(text.clone())
        };
        Draft::Word(text, value)
    }
}
