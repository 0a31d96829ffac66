//! Finds members of an object by name, as ranges of the text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::scan;

/// Returns where the values of these members are; a member that occurs twice is an error.
pub(crate) fn find_members<const N: usize>(text: &str, names: [&'static str; N]) -> serde_json::Result<Found<N>> {
    match scanned(text, names) {
        Some(found) => Ok(found),
        None => parsed(text, names),
    }
}

/// Returns where these members are, and whether the text is nested deeper than `most` levels.
///
/// The scanner gives up far below any limit, so almost no text is read once more.
pub(crate) fn find_members_and_depth<const N: usize>(
    text: &str,
    names: [&'static str; N],
    most: usize,
) -> serde_json::Result<(Found<N>, bool)> {
    match scanned(text, names) {
        Some(found) => Ok((found, false)),
        None => Ok((parsed(text, names)?, scan::is_deeper_than(text, most))),
    }
}

pub(crate) type Found<const N: usize> = [Option<Range<usize>>; N];

/// Finds them in a text that is written plainly; anything else is for the parser.
fn scanned<const N: usize>(text: &str, names: [&'static str; N]) -> Option<Found<N>> {
    let mut found = [const { None }; N];
    scan::members(text, |name, place| match names.iter().position(|known| *known == name) {
        Some(member) => found[member].replace(place).is_none(),
        None => true,
    })?;
    Some(found)
}

fn parsed<const N: usize>(text: &str, names: [&'static str; N]) -> serde_json::Result<Found<N>> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = parser.deserialize_map(MembersVisitor { text, names })?;
    parser.end()?;
    Ok(found)
}

struct MembersVisitor<'a, const N: usize> {
    text: &'a str,
    names: [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for MembersVisitor<'de, N> {
    type Value = Found<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<N>, A::Error> {
        let mut found = [const { None }; N];
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.names.iter().position(|known| *known == name) {
                Some(member) if found[member].is_some() => {
                    return Err(A::Error::duplicate_field(self.names[member]));
                }
                Some(member) => found[member] = Some(range_within(self.text, map.next_value::<&RawValue>()?.get())),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Returns the range of a part of a text.
fn range_within(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The parser judges the scanner: where both read a text, they find the same.
        #[test]
        fn the_scanner_finds_what_the_parser_finds(
            members in prop::collection::vec(
                (
                    prop::sample::select(vec!["id", "method", "params", "result", "error", "jsonrpc", "x", "n\\u0061"]),
                    prop::sample::select(vec!["1", "null", "\"a\"", "\"\\n\"", "{}", r#"{"name":"b","name":1}"#, "[1, 2]"]),
                ),
                0..6,
            ),
        ) {
            let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\" : {value}")).collect();
            let text = format!("{{{}}}", members.join(","));
            let names = ["id", "method", "params", "result", "error", "jsonrpc"];
            if let Some(scanned) = scanned(&text, names) {
                let parsed = parsed(&text, names).unwrap_or_else(|_| panic!("{text}"));
                prop_assert_eq!(scanned, parsed, "{}", text);
            }
        }
    }
}
