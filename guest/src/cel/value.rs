//! The values of conditions: those of JSON, times and durations.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::time::{Duration, Timestamp};
use crate::{broad, json};

/// A value, which borrows from JSON and from the condition if possible.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
    /// A number of JSON that is no whole one of 64 bits, as written. It counts as a double, which may have fewer digits.
    Number(&'a str),
    /// A text.
    String(Cow<'a, str>),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A length of time.
    Duration(Duration),
    /// The name of a type.
    Type(&'static str),
}

/// The names of the types, except those of times and types.
pub(super) const TYPES: &[&str] = &["null_type", "bool", "int", "double", "string", "list", "map", "type"];
pub(super) const TIMESTAMP_TYPE: &str = "google.protobuf.Timestamp";
pub(super) const DURATION_TYPE: &str = "google.protobuf.Duration";

/// A list, as JSON has it or as a condition made it.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// A list of JSON.
    Json(&'a [json::Value<'a>]),
    /// A list that a condition made.
    Made(Rc<[Value<'a>]>),
}

/// A map, as JSON has it or as a condition made it.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// An object of JSON.
    Json(&'a json::Object<'a>),
    /// A map that a condition made, with unique keys.
    Made(Rc<[(Value<'a>, Value<'a>)]>),
}

impl<'a> List<'a> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        match self {
            List::Json(items) => items.len(),
            List::Made(items) => items.len(),
        }
    }

    /// Reports whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an item.
    pub fn get(&self, at: usize) -> Option<Value<'a>> {
        match self {
            List::Json(items) => items.get(at).map(Value::from_json),
            List::Made(items) => items.get(at).cloned(),
        }
    }

    /// Returns the items, in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl<'a> Map<'a> {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match self {
            Map::Json(members) => members.len(),
            Map::Made(members) => members.len(),
        }
    }

    /// Reports whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &Value<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (Map::Json(members), Value::String(key)) => members.get(key).map(Value::from_json),
            (Map::Json(_), _) => None,
            (Map::Made(members), key) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone()),
        }
    }

    /// Returns a name of JSON that some servers take for this one, if the members have one: it differs only in case, or in
    /// how its words are joined.
    pub(super) fn twin_of(&self, name: &str) -> Option<&'a str> {
        let Map::Json(members) = self else { return None };
        members.iter().map(|(other, _)| other).find(|other| *other != name && broad::is_same_name(other, name))
    }

    /// Returns two names of JSON that some servers take for one, if there are some.
    pub(super) fn twins(&self) -> Option<(&'a str, &'a str)> {
        let Map::Json(members) = self else { return None };
        let mut names: BTreeMap<String, &'a str> = BTreeMap::new();
        for (name, _) in members.iter() {
            if let Some(earlier) = names.insert(broad::folded(name), name) {
                return Some((earlier, name));
            }
        }
        None
    }

    /// Returns the members, in order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Value<'a>, Value<'a>)> + '_> {
        match self {
            Map::Json(members) => {
                Box::new(members.iter().map(|(key, value)| (Value::String(key.into()), Value::from_json(value))))
            }
            Map::Made(members) => Box::new(members.iter().cloned()),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns a value of JSON; a number that is whole and has 64 bits becomes an integer.
    pub fn from_json(value: &'a json::Value<'a>) -> Self {
        match value {
            json::Value::Null => Value::Null,
            json::Value::Bool(truth) => Value::Bool(*truth),
            json::Value::Number(digits) => match digits.parse() {
                Ok(whole) => Value::Int(whole),
                Err(_) => Value::Number(digits),
            },
            json::Value::String(text) => Value::String(Cow::Borrowed(text)),
            json::Value::Array(items) => Value::List(List::Json(items)),
            json::Value::Object(members) => Value::Map(Map::Json(members)),
        }
    }

    /// Creates a list.
    pub fn list(items: impl IntoIterator<Item = Value<'a>>) -> Self {
        Value::List(List::Made(items.into_iter().collect()))
    }

    /// Creates a map with texts as keys.
    pub fn map(members: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let member = |(key, value): (&'a str, Value<'a>)| (Value::String(Cow::Borrowed(key)), value);
        Value::Map(Map::Made(members.into_iter().map(member).collect()))
    }

    /// Names the type of the value.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Double(_) | Value::Number(_) => "double",
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Timestamp(_) => "timestamp",
            Value::Duration(_) => "duration",
            Value::Type(_) => "type",
        }
    }

    /// Returns the name that CEL has for the type of the value.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Timestamp(_) => TIMESTAMP_TYPE,
            Value::Duration(_) => DURATION_TYPE,
            other => other.kind(),
        }
    }

    /// Returns the value for a calculation: a number of JSON becomes a double.
    pub(super) fn calculable(&self) -> Cow<'_, Value<'a>> {
        match self {
            Value::Number(digits) => Cow::Owned(Value::Double(double(digits))),
            other => Cow::Borrowed(other),
        }
    }

    /// Returns the text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Estimates how much work it is to read all of the value, but not beyond a limit: values share parts, so that a
    /// small condition can make a huge one.
    pub(super) fn weight(&self, most: usize) -> usize {
        let sum = |parts: &mut dyn Iterator<Item = Value<'a>>| {
            let mut weight = 1;
            while let Some(part) = parts.next().filter(|_| weight < most) {
                weight += part.weight(most - weight);
            }
            weight
        };
        match self {
            Value::String(text) => 1 + text.len() / 16,
            Value::Number(digits) => 1 + digits.len() / 16,
            Value::List(items) => sum(&mut items.iter()),
            Value::Map(members) => sum(&mut members.iter().flat_map(|(key, value)| [key, value])),
            _ => 1,
        }
    }

    /// Compares two values of one order: numbers with each other, or two texts, truths, times or durations.
    pub(super) fn order(&self, other: &Value<'_>) -> Option<Compared> {
        let known = |order: Ordering| Some(Compared(Some(order)));
        match (self, other) {
            (Value::Number(digits), other) => Value::Double(double(digits)).order(other),
            (one, Value::Number(digits)) => one.order(&Value::Double(double(digits))),
            (Value::Bool(one), Value::Bool(other)) => known(one.cmp(other)),
            (Value::Int(one), Value::Int(other)) => known(one.cmp(other)),
            (Value::Double(one), Value::Double(other)) => Some(Compared(one.partial_cmp(other))),
            (Value::Int(one), Value::Double(other)) => Some(Compared(order_mixed(*one, *other))),
            (Value::Double(one), Value::Int(other)) => Some(Compared(order_mixed(*other, *one).map(Ordering::reverse))),
            (Value::String(one), Value::String(other)) => known(one.cmp(other)),
            (Value::Timestamp(one), Value::Timestamp(other)) => known(one.cmp(other)),
            (Value::Duration(one), Value::Duration(other)) => known(one.cmp(other)),
            _ => None,
        }
    }
}

/// How two values compare; nothing compares with a double that is not a number.
pub(super) struct Compared(pub(super) Option<Ordering>);

/// Returns the double that is closest to a number of JSON.
fn double(digits: &str) -> f64 {
    digits.parse().unwrap_or(f64::NAN)
}

/// Compares a whole number with a double, as doubles: this is how CEL does it.
fn order_mixed(whole: i64, double: f64) -> Option<Ordering> {
    (whole as f64).partial_cmp(&double)
}

/// Values are equal if their types and contents are; a whole number may equal a double.
impl PartialEq<Value<'_>> for Value<'_> {
    fn eq(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Type(one), Value::Type(other)) => one == other,
            (Value::List(one), Value::List(other)) => {
                one.len() == other.len() && one.iter().zip(other.iter()).all(|(one, other)| one == other)
            }
            (Value::Map(one), Value::Map(other)) => {
                one.len() == other.len() && one.iter().all(|(key, value)| other.get(&key).is_some_and(|v| v == value))
            }
            (one, other) => one.order(other).is_some_and(|Compared(order)| order == Some(Ordering::Equal)),
        }
    }
}
