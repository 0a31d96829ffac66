//! Everything that a schema says, including its references, `allOf` and choices, in one table.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{Lowering, MAX_DEPTH};
use crate::json::Value;
use crate::ordered;

/// A schema, and the reference that led to it, if any.
#[derive(Clone, Copy)]
pub(super) struct Part<'v> {
    pub(super) schema: &'v Value<'v>,
    /// The index of the last reference that led here; 0 means none.
    pub(super) trail: usize,
}

/// A schema in parts: all parts in the first list must hold, and one in the second if it is not empty.
#[derive(Clone, Default)]
pub(super) struct Shape<'v> {
    pub(super) all: Vec<Part<'v>>,
    pub(super) any: Vec<Part<'v>>,
}

impl Shape<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.any.is_empty()
    }
}

/// A reference that was followed, and the one before it.
pub(super) struct Trail<'v> {
    pub(super) target: &'v Value<'v>,
    pub(super) up: usize,
    pub(super) depth: usize,
}

/// Everything that a schema, its `$ref` and its `allOf` say; if two disagree, the outer one wins.
#[derive(Clone, Default)]
pub(super) struct Facts<'v> {
    /// The order in which keywords were first found.
    pub(super) order: BTreeMap<&'v str, usize>,
    /// The references that are already included.
    pub(super) seen: BTreeSet<*const Value<'v>>,
    /// The possible types of the value besides null; an empty list means only null.
    pub(super) kinds: Option<Vec<&'static str>>,
    pub(super) null: bool,
    /// The values of `enum` or `const` besides null.
    pub(super) values: Option<Vec<&'v Value<'v>>>,
    pub(super) properties: Vec<(&'v str, Shape<'v>)>,
    /// The index of each property in `properties`.
    pub(super) places: BTreeMap<&'v str, usize>,
    pub(super) required: Vec<&'v str>,
    pub(super) items: Shape<'v>,
    /// The branches of each `anyOf` and `oneOf` with more than one possibility.
    pub(super) choices: Vec<Vec<Part<'v>>>,
    /// Whether a reference could not be resolved.
    pub(super) unknown: bool,
    pub(super) plain: BTreeMap<&'v str, &'v Value<'v>>,
}

impl<'v> Facts<'v> {
    /// Adds a `type`; an unknown type is ignored.
    pub(super) fn narrow(&mut self, value: &Value) {
        let words = if let Value::Array(words) = value { words } else { std::slice::from_ref(value) };
        let null = words.iter().any(|word| word.as_str() == Some("null"));
        let mut kinds: Vec<&str> = Vec::new();
        for word in words {
            let known = KINDS.into_iter().find(|kind| word.as_str() == Some(kind));
            kinds.extend(known.filter(|kind| !kinds.contains(kind)));
        }
        if kinds.is_empty() && !null {
            return;
        }
        self.null |= null;
        let Some(old) = &self.kinds else {
            self.kinds = Some(kinds);
            return;
        };
        let allows =
            |kinds: &[&str], kind: &str| kinds.contains(&kind) || kind == "integer" && kinds.contains(&"number");
        let both: Vec<&str> = KINDS.into_iter().filter(|kind| allows(old, kind) && allows(&kinds, kind)).collect();
        if !both.is_empty() {
            self.kinds = Some(both);
        }
    }

    /// Adds an `enum` or `const`.
    fn limit(&mut self, values: &'v [Value<'v>]) {
        self.null |= values.contains(&Value::Null);
        let mut rest: Vec<&Value> = values.iter().filter(|value| **value != Value::Null).collect();
        if rest.is_empty() {
            self.kinds = self.kinds.take().or((!values.is_empty()).then(Vec::new));
            return;
        }
        if let Some(old) = self.values.take() {
            let texts: BTreeSet<String> = ordered::set(rest.iter().map(|value| value.to_json()));
            let both: Vec<&Value> = old.iter().copied().filter(|value| texts.contains(&value.to_json())).collect();
            rest = if both.is_empty() { old } else { both };
        }
        self.values = Some(rest);
    }

    /// Returns the shape of a property, and creates it if needed.
    fn property(&mut self, name: &'v str) -> &mut Shape<'v> {
        let place = *self.places.entry(name).or_insert(self.properties.len());
        if place == self.properties.len() {
            self.properties.push((name, Shape::default()));
        }
        &mut self.properties[place].1
    }

    /// Returns the possible types according to `type` or the allowed values.
    fn stated_kinds(&self) -> Option<Vec<&'static str>> {
        let of_values = || {
            let kinds: BTreeSet<&str> = ordered::set(self.values.as_ref()?.iter().map(|value| value.kind()));
            Some(KINDS.into_iter().filter(|kind| kinds.contains(kind)).collect())
        };
        self.kinds.clone().or_else(of_values)
    }

    /// Returns the possible types according to any keyword that implies them.
    pub(super) fn likely_kinds(&self) -> Option<Vec<&'static str>> {
        let hinted = |(kind, words): &(&'static str, &[&str])| {
            words.iter().any(|word| self.order.contains_key(word)).then(|| vec![*kind])
        };
        self.stated_kinds().or_else(|| HINTS.iter().find_map(hinted)).or_else(|| self.unknown.then(|| vec!["object"]))
    }

    pub(super) fn may_be_object(&self) -> bool {
        self.stated_kinds().is_none_or(|kinds| kinds.contains(&"object"))
    }

    /// Returns the required names that are properties, each once.
    pub(super) fn required(&self, offered: &BTreeSet<&str>) -> Vec<Value<'v>> {
        let mut met = BTreeSet::new();
        let wanted = self.required.iter().filter(|name| offered.contains(*name) && met.insert(**name));
        wanted.map(|name| Value::string(*name)).collect()
    }

    /// Builds an object of these members, in the order in which their keywords were found, new ones last.
    pub(super) fn ordered(&self, mut members: Vec<(&'v str, Value<'v>)>) -> Value<'v> {
        members.sort_by_key(|(key, _)| self.order.get(key).copied().unwrap_or(usize::MAX));
        Value::Object(members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect())
    }
}

impl<'v> Lowering<'v> {
    /// Adds everything that these parts say, including their references and `allOf`, in reading order.
    pub(super) fn gather(&mut self, facts: &mut Facts<'v>, parts: &[Part<'v>]) {
        let mut pending: Vec<Part> = parts.iter().rev().copied().collect();
        let mut unknown_text = None;
        while let Some(Part { schema, trail }) = pending.pop() {
            let Value::Object(members) = schema else { continue };
            // A second visit adds nothing, and skipping it keeps nested `allOf` from growing exponentially.
            if trail != 0 && !facts.seen.insert(schema) {
                continue;
            }
            if trail != 0 && !self.spend(members.iter().map(|(key, value)| cost(key, value)).sum()) {
                facts.unknown = true;
                continue;
            }
            let part = |schema| Part { schema, trail };
            let list = |value: &'v Value<'v>| value.as_array().unwrap_or_default().iter().map(part);
            let mut inner = Vec::new();
            for (key, value) in members.iter() {
                let place = facts.order.len();
                facts.order.entry(key).or_insert(place);
                match (key, value) {
                    ("$ref", Value::String(reference)) => match self.follow(reference, trail) {
                        Ok(part) => inner.push(part),
                        Err(text) => {
                            facts.unknown = true;
                            unknown_text = unknown_text.or(text);
                        }
                    },
                    ("allOf", _) => inner.extend(list(value)),
                    ("anyOf" | "oneOf", _) => choose(facts, list(value), &mut inner),
                    ("type", _) => facts.narrow(value),
                    ("nullable", _) => facts.null |= *value == Value::Bool(true),
                    ("enum", Value::Array(values)) => facts.limit(values),
                    ("const", _) => facts.limit(std::slice::from_ref(value)),
                    ("properties", Value::Object(properties)) => {
                        for (name, schema) in properties.iter() {
                            facts.property(name).all.push(part(schema));
                        }
                    }
                    ("required", _) => {
                        facts.required.extend(value.as_array().unwrap_or_default().iter().filter_map(Value::as_str));
                    }
                    // A tuple: Gemini has one schema for all items, so each item may be any of them.
                    ("prefixItems", _) | ("items", Value::Array(_)) => facts.items.any.extend(list(value)),
                    ("items", Value::Object(_)) if members.get("prefixItems").is_some() => {
                        facts.items.any.push(part(value))
                    }
                    ("items", Value::Object(_) | Value::Bool(true)) => facts.items.all.push(part(value)),
                    // A keyword that identifies a schema applies only to that schema.
                    _ if key.starts_with('$') && !std::ptr::eq(schema, self.references.root) => {}
                    _ => {
                        facts.plain.entry(key).or_insert(value);
                    }
                }
            }
            pending.extend(inner.into_iter().rev());
        }
        if let Some(text) = unknown_text {
            facts.plain.entry("description").or_insert(text);
        }
    }

    /// Resolves a reference; if it is circular or too deep, returns its description instead.
    fn follow(&mut self, reference: &str, trail: usize) -> Result<Part<'v>, Option<&'v Value<'v>>> {
        let target = self.references.resolve(reference).filter(|_| self.room > 0).ok_or(None)?;
        let depth = self.trails[trail].depth + 1;
        let mut step = trail;
        while step != 0 && !std::ptr::eq(self.trails[step].target, target) {
            step = self.trails[step].up;
        }
        if depth > MAX_DEPTH || std::ptr::eq(self.trails[step].target, target) {
            return Err(target.get("description"));
        }
        self.trails.push(Trail { target, up: trail, depth });
        Ok(Part { schema: target, trail: self.trails.len() - 1 })
    }

    /// Merges a choice of objects into one object: it has the properties of all branches, and requires what all
    /// branches require.
    pub(super) fn merge_choices(&mut self, facts: &mut Facts<'v>, depth: usize) {
        for branches in std::mem::take(&mut facts.choices) {
            let known = facts.properties.len();
            let mut common: Option<Vec<&str>> = None;
            for branch in branches {
                let mut branch_facts = Facts::default();
                self.gather(&mut branch_facts, &[branch]);
                if !branch_facts.may_be_object() {
                    continue;
                }
                if depth < MAX_DEPTH {
                    self.merge_choices(&mut branch_facts, depth + 1);
                }
                let required: BTreeSet<&str> = ordered::set(branch_facts.required.iter().copied());
                common.get_or_insert(branch_facts.required).retain(|name| required.contains(name));
                for (name, shape) in branch_facts.properties {
                    // What is said outside the choice applies to every branch.
                    if facts.places.get(name).is_none_or(|place| *place >= known) {
                        facts.property(name).any.extend(shape.all.into_iter().take(1).chain(shape.any));
                    }
                }
            }
            facts.required.extend(common.unwrap_or_default());
        }
    }
}

/// Adds a choice: impossible branches are dropped, null becomes a flag, and a single branch is no choice.
pub(super) fn choose<'v>(facts: &mut Facts<'v>, branches: impl Iterator<Item = Part<'v>>, only: &mut Vec<Part<'v>>) {
    let (null, mut rest): (Vec<Part>, Vec<Part>) =
        branches.filter(|part| *part.schema != Value::Bool(false)).partition(|part| is_null(part.schema));
    facts.null |= !null.is_empty();
    match rest.len() {
        0 => only.extend(null.first()),
        1 => only.append(&mut rest),
        _ => facts.choices.push(rest),
    }
}

fn is_null(schema: &Value) -> bool {
    let one = |key, expected: &Value| match schema.get(key) {
        Some(Value::Array(words)) => words.len() == 1 && words[0] == *expected,
        Some(word) => word == expected,
        None => false,
    };
    one("type", &Value::string("null")) || one("enum", &Value::Null) || schema.get("const") == Some(&Value::Null)
}

/// Returns the cost of adding one keyword of a referenced schema; nested schemas are counted when they are reached.
pub(super) fn cost(key: &str, value: &Value) -> usize {
    match (key, value) {
        ("enum" | "const" | "default" | "title" | "description" | "pattern" | "propertyOrdering", _) => weight(value),
        (_, Value::Array(items)) => 1 + items.len(),
        ("properties", Value::Object(properties)) => 1 + properties.len(),
        _ => 1,
    }
}

/// Returns the size of a value: the number of values in it, plus the length of long texts.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) | Value::Number(text) => 1 + text.len() / 64,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => 1 + members.iter().map(|(key, value)| key.len() / 64 + weight(value)).sum::<usize>(),
        _ => 1,
    }
}

/// The types of values, besides null.
pub(super) const KINDS: [&str; 6] = ["string", "number", "integer", "boolean", "object", "array"];
/// Keywords that imply the type if `type` is missing.
const HINTS: [(&str, &[&str]); 4] = [
    (
        "object",
        &["properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"],
    ),
    ("array", &["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"]),
    ("string", &["pattern", "minLength", "maxLength"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];
