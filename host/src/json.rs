//! JSON objects that keep the order and the text of their members, so that what servers write is passed on without
//! loss.

mod members;
mod object;
pub(crate) mod scan;

use std::collections::HashSet;
use std::fmt;

use memchr::memmem;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

pub(crate) use members::{find_members, find_members_and_depth};
pub(crate) use object::{Object, read_object};

/// Searches JSON texts for a member name; a text without it has no such member and need not be parsed.
pub struct MemberFinder(&'static str);

impl MemberFinder {
    /// Creates a finder for this text.
    pub const fn new(text: &'static str) -> Self {
        MemberFinder(text)
    }

    /// Reports whether it occurs anywhere in the text.
    pub fn is_in(&self, json: &str) -> bool {
        memmem::find(json.as_bytes(), self.0.as_bytes()).is_some()
    }

    /// Returns the rest of the text after each occurrence.
    pub fn after<'a>(&'a self, json: &'a str) -> impl Iterator<Item = &'a str> {
        memmem::find_iter(json.as_bytes(), self.0).map(|at| &json[at + self.0.len()..])
    }

    /// Returns the rest of the text after each occurrence and its colon: where the member's value starts.
    pub fn values<'a>(&'a self, json: &'a str) -> impl Iterator<Item = &'a str> {
        self.after(json).map(|rest| rest.trim_start().strip_prefix(':').unwrap_or(rest).trim_start())
    }
}

/// The member with the metadata of a message.
pub static META: MemberFinder = MemberFinder::new("\"_meta\"");
/// The member that says whether a result is complete.
pub static RESULT_TYPE: MemberFinder = MemberFinder::new("\"resultType\"");
/// The member with the state that a server wants back unchanged.
pub static REQUEST_STATE: MemberFinder = MemberFinder::new("\"requestState\"");
/// The member with the answers to a server's questions.
pub static INPUT_RESPONSES: MemberFinder = MemberFinder::new("\"inputResponses\"");
/// The member of a schema that marks an argument to be repeated in a header.
pub static SHOWN: MemberFinder = MemberFinder::new("\"x-mcp-header\"");

static ESCAPED: MemberFinder = MemberFinder::new("\\u00");

/// A JSON object whose members keep their order and their text.
#[derive(Clone, Default)]
pub struct JsonObject(Vec<(String, Box<RawValue>)>);

impl JsonObject {
    /// Parses an object; returns `None` for anything else.
    pub fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns the first member with this name.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Removes and returns the first member with this name.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// Replaces the value of a member in place, or appends the member.
    pub fn set<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        let value = to_raw(value);
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets all members of another object.
    pub fn extend(&mut self, other: &JsonObject) {
        for (name, value) in &other.0 {
            self.set(name, value);
        }
    }

    /// Iterates over the members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| (name, value.get()))
    }

    /// Reports whether the object has no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps only the members whose names pass.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| keep(name));
    }

    /// Removes duplicate names; the last member counts, as in most parsers.
    pub fn dedup_names(mut self) -> Self {
        let mut seen = HashSet::new();
        let last: Vec<bool> = self.0.iter().rev().map(|(name, _)| seen.insert(name.clone())).collect();
        let mut last = last.into_iter().rev();
        self.0.retain(|_| last.next().unwrap_or(true));
        self
    }

    /// Returns the object as JSON text.
    pub fn to_text(&self) -> String {
        to_raw(self).get().to_owned()
    }
}

/// Two objects are equal if their members have the same text in the same order.
impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.texts().eq(other.texts())
    }
}

impl FromIterator<(String, Box<RawValue>)> for JsonObject {
    fn from_iter<I: IntoIterator<Item = (String, Box<RawValue>)>>(members: I) -> Self {
        JsonObject(members.into_iter().collect())
    }
}

/// Reports whether printable ASCII is written as a `\u` escape, so that names may occur that no [`MemberFinder`] finds.
pub fn has_escaped_ascii(json: &str) -> bool {
    ESCAPED.after(json).any(|rest| matches!(rest.as_bytes().first(), Some(b'2'..=b'7')))
}

/// Serializes a value to JSON.
pub fn to_raw<T: Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("shapes have string keys only, so they are always JSON")
}

/// Turns a JSON text into one line. Line breaks can only occur between tokens, where a space means the same; unchanged,
/// they would end the message and start another.
pub fn line(mut text: String) -> String {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some() {
        text = text.replace(['\n', '\r'], " ");
    }
    text.push('\n');
    text
}

/// Decodes a JSON string; returns `None` for any other value.
pub fn string_value(value: &RawValue) -> Option<String> {
    decode_string(value.get())
}

/// Decodes a JSON string; returns `None` for any other text.
pub fn decode_string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok().map(|LossyString(text)| text)
}

/// A JSON string that may contain lone surrogates, as programs write that cut a text inside a character. Each becomes
/// U+FFFD, because a `String` cannot hold it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossyString(pub String);

impl From<LossyString> for String {
    fn from(text: LossyString) -> Self {
        text.0
    }
}

impl<'de> Deserialize<'de> for LossyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LossyVisitor;
        impl Visitor<'_> for LossyVisitor {
            type Value = LossyString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<LossyString, E> {
                Ok(LossyString(text.to_owned()))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<LossyString, E> {
                Ok(LossyString(decode_lossy(bytes)))
            }
        }
        // Only as bytes does the parser return strings with lone surrogates.
        deserializer.deserialize_bytes(LossyVisitor)
    }
}

/// Decodes bytes that are UTF-8 except for surrogates.
fn decode_lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        // Each of the three bytes of a surrogate is invalid by itself; count only the first.
        if chunk.invalid().first() == Some(&0xed) {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = JsonObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonObject, A::Error> {
                let mut members = Vec::new();
                while let Some((LossyString(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(JsonObject(members))
            }
        }
        deserializer.deserialize_map(ObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_members_of_one_name_the_last_counts() {
        let object = JsonObject::read(r#"{"a":1.10,"b":2,"\u0061":3,"c":4}"#).unwrap().dedup_names();
        assert_eq!(object.to_text(), r#"{"b":2,"a":3,"c":4}"#);
    }

    #[test]
    fn letters_that_are_spelt_with_their_numbers_are_noticed() {
        for (json, expected) in
            [(r#"{"\u0061":1}"#, true), (r#"{"\u005f":1}"#, true), (r#""\u00e9 \u001b \u2028""#, false), ("{}", false)]
        {
            assert_eq!(has_escaped_ascii(json), expected, "{json}");
        }
    }

    #[test]
    fn members_keep_their_order_and_their_digits() {
        let mut object = JsonObject::read(r#"{"b":12345678901234567890123,"a": {"x" : 1.10},"c":1}"#).unwrap();
        object.set("a2", "é");
        object.set("c", &2);
        object.remove("missing");
        assert_eq!(object.to_text(), r#"{"b":12345678901234567890123,"a":{"x" : 1.10},"c":2,"a2":"é"}"#);
        assert!(JsonObject::read("[1]").is_none());
    }

    #[test]
    fn a_text_over_several_lines_becomes_one_line() {
        assert_eq!(line(r#"{"a":"\n"}"#.to_owned()), "{\"a\":\"\\n\"}\n");
        assert_eq!(line("{\r\n \"a\": 1\n}".to_owned()), "{   \"a\": 1 }\n");
    }

    #[test]
    fn half_a_letter_costs_nothing_but_itself() {
        let rows = [
            (r#""plain é \n""#, Some("plain é \n")),
            (r#""\u00e9 \ud83d\ude00 \" \\ \/""#, Some("é 😀 \" \\ /")),
            (r#""cut \ud83d""#, Some("cut \u{fffd}")),
            (r#""\ude00\ud83d\ud83d\ude00 \ud83d\n\udc00x""#, Some("\u{fffd}\u{fffd}😀 \u{fffd}\n\u{fffd}x")),
            (r#"["a"]"#, None),
            ("[97]", None),
            ("7", None),
        ];
        for (json, expected) in rows {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(string_value(&raw).as_deref(), expected, "{json}");
            let read = serde_json::from_str(json).ok().map(|LossyString(text)| text);
            assert_eq!(read.as_deref(), expected, "{json}");
        }
        let object = JsonObject::read(r#"{"\ud83d":"\ud83d","b":1}"#).unwrap();
        assert_eq!(object.to_text(), "{\"\u{fffd}\":\"\\ud83d\",\"b\":1}");
    }
}
