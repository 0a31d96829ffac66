//! What the JSON of several types of the contract has in common.

use serde::de::{Error, IgnoredAny, MapAccess};

/// Gives types of the contract the JSON that a `Json` type describes.
macro_rules! json_as {
    ($($type:ty as $form:ident),* $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $form::serialize(self, serializer)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $form::deserialize(deserializer)
            }
        }
    )*};
}
pub(super) use json_as;

/// Deserializes a word or an object; serde's own `untagged` would lose the digits of raw JSON.
macro_rules! word_or_object {
    ($type:ty, $expected:literal, $word:expr, $object:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Shape;
                impl<'de> serde::de::Visitor<'de> for Shape {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$type, E> {
                        $word(word).map_err(E::custom)
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        $object(map)
                    }
                }
                deserializer.deserialize_any(Shape)
            }
        }
    };
}
pub(crate) use word_or_object;

/// Reads an object that has exactly one member.
pub(crate) fn read_single_member<'de, A: MapAccess<'de>, T>(
    mut map: A,
    read: impl FnOnce(&str, &mut A) -> Result<T, A::Error>,
) -> Result<T, A::Error> {
    let key: String = map.next_key()?.ok_or_else(|| A::Error::custom("an event needs a member"))?;
    let value = read(&key, &mut map)?;
    match map.next_entry::<IgnoredAny, IgnoredAny>()? {
        None => Ok(value),
        Some(_) => Err(A::Error::custom("an event has only one member")),
    }
}

/// Gives cases the JSON string with their name.
macro_rules! json_by_name {
    ($($type:ty),* $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(crate::words::NamedCase::name(*self))
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                crate::words::NamedCase::parse(&name).map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(super) use json_by_name;
