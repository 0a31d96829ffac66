//! Resolves local `$ref`s.

use std::collections::BTreeMap;

use crate::json::Value;

/// A schema in which references are resolved.
pub(super) struct ReferenceResolver<'v> {
    pub(super) root: &'v Value<'v>,
    /// Indexes of the large objects that were searched, because finding a member of an object is linear.
    large: BTreeMap<*const Value<'v>, BTreeMap<&'v str, &'v Value<'v>>>,
}

impl<'v> ReferenceResolver<'v> {
    pub(super) fn new(root: &'v Value<'v>) -> Self {
        ReferenceResolver { root, large: BTreeMap::new() }
    }

    /// Resolves a local reference: `#`, or `#/` and a JSON pointer (RFC 6901, section 6).
    pub(super) fn resolve(&mut self, reference: &str) -> Option<&'v Value<'v>> {
        let pointer = unescaped(reference.strip_prefix('#')?)?;
        let mut steps = pointer.split('/');
        if steps.next() != Some("") {
            return None;
        }
        steps.try_fold(self.root, |value, step| self.member(value, &step.replace("~1", "/").replace("~0", "~")))
    }

    fn member(&mut self, value: &'v Value<'v>, name: &str) -> Option<&'v Value<'v>> {
        match value {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            Value::Object(members) if members.len() > 32 => {
                self.large.entry(value).or_insert_with(|| members.iter().collect()).get(name).copied()
            }
            _ => value.get(name),
        }
    }
}

/// Decodes %-escapes.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}
