//! A small JSON tree that loses nothing: it keeps the order of keys and every digit of every number.

mod read;
mod scan;

use std::borrow::Cow;

use read::Reader;
use scan::plain_run;

/// The maximum number of values in one text.
pub const MAX_VALUES: usize = 250_000;
/// The maximum nesting depth of one text.
pub const MAX_DEPTH: usize = 256;

/// One JSON value, which borrows from its text if possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as written.
    Number(Cow<'a, str>),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// A list of values.
    Array(Vec<Value<'a>>),
    /// An object, with its members as written.
    Object(Object<'a>),
}

/// The members of an object, in order and with unique keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// A key that one object of a text has more than once. The last value counts, but another reader may take the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeated {
    /// The key with the first value, as the JSON of an object.
    pub first: String,
    /// The key with the last value, as the JSON of an object.
    pub last: String,
}

impl Repeated {
    /// Reports whether the values differ, so that the key has two meanings.
    pub(crate) fn differs(&self) -> bool {
        self.first != self.last
    }
}

/// The reason why a text is not a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not JSON: what was expected, and at which byte.
    Syntax(&'static str, usize),
    /// The text has more than [`MAX_VALUES`] values.
    TooManyValues,
    /// The text is nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Syntax(expected, at) => write!(f, "expected {expected} at byte {at}"),
            Error::TooManyValues => write!(f, "more than {MAX_VALUES} JSON values"),
            Error::TooDeep => write!(f, "nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

/// Parses a text that is exactly one value.
pub fn parse(text: &str) -> Result<Value<'_>, Error> {
    Reader::new(text).document()
}

/// Parses a text that is exactly one value; returns it with a key that one of its objects has more than once, if any.
pub(crate) fn parse_noting(text: &str) -> Result<(Value<'_>, Option<Repeated>), Error> {
    Reader::new(text).document_noting()
}

/// Parses the value at the start of a text; returns it with the number of bytes that it takes, and a key that one of
/// its objects has more than once, if any.
pub(crate) fn parse_prefix(text: &str) -> Result<(Value<'_>, usize, Option<Repeated>), Error> {
    Reader::new(text).prefix()
}

/// Reports whether the text is a JSON number.
pub fn is_number(text: &str) -> bool {
    Reader::new(text).reads_number()
}

impl<'a> Value<'a> {
    /// Creates a string value.
    pub fn string(text: impl Into<Cow<'a, str>>) -> Self {
        Value::String(text.into())
    }

    /// Returns the member with this name, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.as_object()?.get(key)
    }

    /// Returns the text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the items, if this is a list.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the members, if this is an object.
    pub fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Returns the name that JSON Schema has for this kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(digits) if is_integer(digits) => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Converts the value to one that owns all its text.
    pub fn into_owned(self) -> Value<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        match self {
            Value::Null => Value::Null,
            Value::Bool(truth) => Value::Bool(truth),
            Value::Number(digits) => Value::Number(own(digits)),
            Value::String(text) => Value::String(own(text)),
            Value::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Value::Object(Object(members)) => {
                Value::Object(Object(members.into_iter().map(|(key, value)| (own(key), value.into_owned())).collect()))
            }
        }
    }

    /// Returns the value as compact JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the value as compact JSON.
    pub fn write(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(digits) => out.push_str(digits),
            Value::String(text) => write_string(text, out),
            Value::Array(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Value::Object(Object(members)) => {
                out.push('{');
                for (n, (key, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Reports whether a number has no fraction: `5`, `5.0` and `5e3` have none, `5.5` and `5e-3` have one.
fn is_integer(digits: &str) -> bool {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    !exponent.starts_with('-') && fraction.bytes().all(|digit| digit == b'0')
}

impl<'a> Object<'a> {
    /// Creates an empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the member with this name.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the member with this name, mutably.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets a member, in its place if it exists, else at the end.
    pub fn set(&mut self, key: impl Into<Cow<'a, str>>, value: Value<'a>) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(old) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value<'a>> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Returns the members, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Returns the members, in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value<'a>)> {
        self.0.iter_mut().map(|(key, value)| (&**key, value))
    }
}

impl<'a> Object<'a> {
    /// Builds an object and notes a key that it has more than once, unless one with two meanings was noted before.
    pub(crate) fn united(mut members: Vec<(Cow<'a, str>, Value<'a>)>, repeated: &mut Option<Repeated>) -> Self {
        unite(&mut members, repeated);
        Object(members)
    }
}

/// Builds an object; of several members with one key, the last value takes the place of the first.
impl<'a> FromIterator<(Cow<'a, str>, Value<'a>)> for Object<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Value<'a>)>>(members: I) -> Self {
        Object::united(members.into_iter().collect(), &mut None)
    }
}

/// Merges members with the same key, and notes one such key.
fn unite<'a>(members: &mut Vec<(Cow<'a, str>, Value<'a>)>, repeated: &mut Option<Repeated>) {
    /// Up to this many members, comparing all pairs of keys is faster than sorting.
    const FEW: usize = 12;
    if members.len() <= FEW && (1..members.len()).all(|n| members[..n].iter().all(|(key, _)| *key != members[n].0)) {
        return;
    }
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|&a, &b| members[a].0.cmp(&members[b].0));
    let twins: Vec<(usize, usize)> =
        order.windows(2).map(|pair| (pair[0], pair[1])).filter(|&(a, b)| members[a].0 == members[b].0).collect();
    if twins.is_empty() {
        return;
    }
    for &(earlier, later) in &twins {
        if !repeated.as_ref().is_some_and(Repeated::differs) {
            *repeated = noted(repeated.take(), &members[earlier], &members[later].1);
        }
    }
    // The sort is stable, so walking backwards carries the last value to the first place.
    for &(earlier, later) in twins.iter().rev() {
        members[earlier].1 = std::mem::replace(&mut members[later].1, Value::Null);
    }
    let mut extra = vec![false; members.len()];
    twins.iter().for_each(|&(_, later)| extra[later] = true);
    let mut extra = extra.into_iter();
    members.retain(|_| !extra.next().unwrap_or(false));
}

/// Returns the key that was noted before, or this one if there is none or if this one has two meanings.
fn noted(known: Option<Repeated>, (key, first): &(Cow<'_, str>, Value<'_>), last: &Value<'_>) -> Option<Repeated> {
    if known.is_some() && first == last {
        return known;
    }
    Some(Repeated { first: member_json(key, first), last: member_json(key, last) })
}

/// Writes an object with one member.
fn member_json(key: &str, value: &Value<'_>) -> String {
    let mut json = String::from("{");
    write_string(key, &mut json);
    json.push(':');
    value.write(&mut json);
    json + "}"
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Appends a string in quotes, escaped.
pub fn write_string(text: &str, out: &mut String) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    loop {
        let (plain, special) = rest.split_at(plain_run(rest.as_bytes()));
        out.push_str(plain);
        match special.as_bytes().first() {
            None => break,
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(b'\n') => out.push_str("\\n"),
            Some(b'\r') => out.push_str("\\r"),
            Some(b'\t') => out.push_str("\\t"),
            Some(control) => out.push_str(&format!("\\u{control:04x}")),
        }
        rest = &special[1..];
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
