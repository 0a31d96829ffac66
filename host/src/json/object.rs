//! Reads a value that must be an object. What `derive(Deserialize)` makes for a struct also takes a list as the values of
//! its fields in order, so that `["accept"]` would be an answer that accepts.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Reads JSON text as an object; a list is an error. Members that are structs themselves need [`Object`] around them.
pub(crate) fn read_object<'a, T: Deserialize<'a>>(text: &'a (impl AsRef<[u8]> + ?Sized)) -> serde_json::Result<T> {
    serde_json::from_slice(text.as_ref()).map(|Object(value)| value)
}

/// A value that is read from an object, and from nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Answer<'a> {
        action: String,
        #[serde(default, borrow)]
        raw: Option<&'a RawValue>,
        #[serde(default)]
        content: Option<Object<Content>>,
    }

    #[derive(Debug, Deserialize)]
    struct Content {
        approve: bool,
    }

    #[test]
    fn a_list_is_no_object() {
        let text = r#" {"action":"accept","raw":[1, 2],"content":{"approve":true}}"#;
        let answer: Answer<'_> = read_object(text).unwrap();
        assert_eq!((answer.action.as_str(), answer.raw.unwrap().get()), ("accept", "[1, 2]"));
        assert!(answer.content.unwrap().0.approve);
        for text in [r#"["accept"]"#, r#"{"action":"accept","content":[true]}"#, "[]", "null", r#"{"action":"a"} x"#] {
            assert!(read_object::<Answer<'_>>(text).is_err(), "{text}");
        }
    }
}
