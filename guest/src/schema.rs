//! A small JSON Schema validator: it covers what helps a model to correct its arguments.
//!
//! It knows `type`, `nullable`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`,
//! `prefixItems`, `minLength`, `maxLength`, `minimum`, `maximum` and their exclusive forms, `minItems`, `maxItems`,
//! `anyOf`, `oneOf`, `allOf` and local `$ref`, and the names in `patternProperties`. Everything else passes: the server
//! has the last word.

mod check;
mod coerce;
pub(crate) mod decimal;
mod document;
mod patterns;

pub use check::check;
pub use coerce::{Source, coerce, coercible};
pub use document::Document;

use crate::json::{MAX_DEPTH, Object, Value};
use crate::naming::distance;
use patterns::PatternCache;
use std::cell::Cell;
use std::fmt;

/// A position in a schema, with the whole schema and the remaining work budget.
#[derive(Clone, Copy)]
pub struct Schema<'s> {
    walk: &'s Walk<'s>,
    here: &'s Value<'s>,
}

/// A whole schema, and the remaining work budget.
///
/// Nested alternatives grow without bound, so a walk without steps left accepts the rest.
pub struct Walk<'s> {
    root: &'s Value<'s>,
    steps: Cell<usize>,
    patterns: PatternCache,
}

impl<'s> Walk<'s> {
    /// Begins a walk.
    pub fn new(root: &'s Value<'s>) -> Self {
        Walk { root, steps: Cell::new(MAX_STEPS), patterns: PatternCache::default() }
    }

    /// Returns the position where a walk begins.
    pub fn top(&'s self) -> Schema<'s> {
        Schema::new(self, self.root).resolved()
    }

    /// Spends steps; returns false when none are left.
    fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(steps);
        self.steps.set(left);
        left > 0
    }

    /// Reports whether the walk ran out of steps and accepted something unchecked.
    fn is_spent(&self) -> bool {
        self.steps.get() == 0
    }
}

impl<'s> Schema<'s> {
    fn new(walk: &'s Walk<'s>, here: &'s Value<'s>) -> Self {
        Schema { walk, here }
    }

    /// Returns the kinds of values that are allowed here.
    pub fn kinds(self) -> Kinds {
        self.kinds_within(0)
    }

    /// Returns the schema for a member of an object here.
    pub fn property(self, name: &str) -> Option<Schema<'s>> {
        self.find(MAX_NESTING, &|schema| {
            let named = schema.properties().and_then(|all| schema.lookup(all, name));
            // `false` forbids unknown members and says nothing about their type.
            named.or_else(|| schema.additional(name).filter(|rest| rest.as_object().is_some()))
        })
    }

    /// Returns what `additionalProperties` says about a member that `properties` does not name.
    fn additional(self, name: &str) -> Option<&'s Value<'s>> {
        let additional = self.keyword("additionalProperties")?;
        if self.has_pattern_for(name) { None } else { Some(additional) }
    }

    /// Returns the schema for the items of a list here.
    pub fn items(self) -> Option<Schema<'s>> {
        self.find(MAX_NESTING, &|schema| schema.keyword("items"))
    }

    /// Returns the one property that a bare value must mean: the only one, or the only required one, that `accepts` it.
    pub fn sole_property(self, accepts: impl Fn(Kinds) -> bool) -> Option<&'s str> {
        let properties = self.properties()?;
        let fitting = |name: &&'s str| self.property(name).is_some_and(|property| accepts(property.kinds()));
        let mut required = self.required().filter(fitting);
        if let (Some(name), None) = (required.next(), required.next()) {
            return Some(name);
        }
        let mut all = properties.iter().map(|(name, _)| name);
        all.next().filter(fitting).filter(|_| properties.len() == 1)
    }

    /// Reports whether an object here has a property with this name.
    pub fn names(self, name: &str) -> bool {
        self.find(MAX_NESTING, &|schema| schema.lookup(schema.properties()?, name)).is_some()
    }

    /// Reports whether the properties of an object here are listed.
    pub fn lists_properties(self) -> bool {
        self.find(MAX_NESTING, &|schema| schema.keyword("properties")).is_some()
    }

    /// Reports whether a name looks like a misspelt property.
    pub fn resembles(self, name: &str) -> bool {
        let letters: Vec<char> = name.chars().collect();
        let near =
            |known: &str| known.len().abs_diff(name.len()) <= 2 && distance(known, &letters) * 3 <= letters.len();
        self.properties().is_some_and(|properties| properties.iter().any(|(known, _)| near(known)))
    }

    /// Reports whether an object here may only have the named properties.
    pub fn is_closed(self) -> bool {
        // A name that no pattern allows may be one that its author expects to be allowed.
        self.keyword("additionalProperties") == Some(&Value::Bool(false)) && self.keyword("patternProperties").is_none()
    }

    fn kinds_within(self, nesting: usize) -> Kinds {
        // The caller's step covers the first level.
        if nesting == MAX_NESTING || !self.walk.spend(nesting.min(1)) {
            return Kinds::ALL;
        }
        if let Value::Bool(false) = self.here {
            return Kinds::NONE;
        }
        let mut kinds = match self.keyword("type") {
            Some(Value::String(name)) => Kinds::named(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(Kinds::named).fold(Kinds::NONE, Kinds::or)
            }
            _ => Kinds::ALL,
        };
        if let Some(Value::Bool(true)) = self.keyword("nullable") {
            kinds = kinds.or(Kinds::NULL);
        }
        if let Some(values) = self.keyword("enum").and_then(Value::as_array) {
            kinds = kinds.and(values.iter().map(Kinds::of).fold(Kinds::NONE, Kinds::or));
        }
        if let Some(value) = self.keyword("const") {
            kinds = kinds.and(Kinds::of(value));
        }
        for keyword in ["anyOf", "oneOf"] {
            if self.keyword(keyword).is_some() {
                let any = self.branches(keyword).map(|branch| branch.kinds_within(nesting + 1));
                kinds = kinds.and(any.fold(Kinds::NONE, Kinds::or));
            }
        }
        self.branches("allOf").map(|branch| branch.kinds_within(nesting + 1)).fold(kinds, Kinds::and)
    }

    /// Searches for a schema here, then in the alternatives.
    fn find(self, nesting: usize, look: &dyn Fn(Schema<'s>) -> Option<&'s Value<'s>>) -> Option<Schema<'s>> {
        if nesting == 0 || !self.walk.spend(1) {
            return None;
        }
        if let Some(found) = look(self) {
            return Some(self.at(found));
        }
        let mut branches = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|keyword| self.branches(keyword));
        branches.find_map(|branch| branch.find(nesting - 1, look))
    }

    /// Returns another position in the same walk.
    fn at(self, here: &'s Value<'s>) -> Schema<'s> {
        Schema::new(self.walk, here).resolved()
    }

    /// Follows local references, up to a limit.
    fn resolved(mut self) -> Schema<'s> {
        for _ in 0..MAX_NESTING {
            let Some(reference) = self.keyword("$ref").and_then(Value::as_str) else { break };
            let Some(target) = self.pointed(reference) else { break };
            self = Schema::new(self.walk, target);
        }
        self
    }

    /// Returns the position that `#/a/b` points to (RFC 6901).
    fn pointed(self, reference: &str) -> Option<&'s Value<'s>> {
        let pointer = reference.strip_prefix('#')?;
        pointer.split('/').skip(1).try_fold(self.walk.root, |at, step| {
            let step = step.replace("~1", "/").replace("~0", "~");
            match at {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                Value::Object(members) => self.lookup(members, &step),
                _ => None,
            }
        })
    }

    fn keyword(self, name: &str) -> Option<&'s Value<'s>> {
        self.here.get(name)
    }

    /// Returns the named properties, in the order of the schema.
    pub(crate) fn properties(self) -> Option<&'s Object<'s>> {
        self.keyword("properties").and_then(Value::as_object)
    }

    /// Returns the names of the required properties.
    pub(crate) fn required(self) -> impl Iterator<Item = &'s str> {
        self.keyword("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    fn branches(self, keyword: &str) -> impl Iterator<Item = Schema<'s>> {
        self.keyword(keyword).and_then(Value::as_array).into_iter().flatten().map(move |branch| self.at(branch))
    }

    /// Finds a member, and spends the cost of the search.
    fn lookup<'v>(self, members: &'v Object<'_>, name: &str) -> Option<&'v Value<'v>> {
        // One step is about as much work as comparing eight names.
        if self.walk.spend(members.len() / 8) { members.get(name) } else { None }
    }
}

/// A set of the kinds of values in JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// No value at all.
    pub const NONE: Kinds = Kinds(0);
    /// `null`
    pub const NULL: Kinds = Kinds(1);
    /// `true` and `false`
    pub const BOOLEAN: Kinds = Kinds(1 << 1);
    /// Numbers without a fraction.
    pub const INTEGER: Kinds = Kinds(1 << 2);
    /// Numbers with a fraction.
    pub const FRACTION: Kinds = Kinds(1 << 3);
    /// Strings.
    pub const STRING: Kinds = Kinds(1 << 4);
    /// Lists.
    pub const ARRAY: Kinds = Kinds(1 << 5);
    /// Objects.
    pub const OBJECT: Kinds = Kinds(1 << 6);
    /// Every value.
    pub const ALL: Kinds = Kinds((1 << 7) - 1);

    /// Returns the kind of a value.
    pub fn of(value: &Value<'_>) -> Kinds {
        match value {
            Value::Null => Kinds::NULL,
            Value::Bool(_) => Kinds::BOOLEAN,
            Value::Number(_) if value.kind() == "integer" => Kinds::INTEGER,
            Value::Number(_) => Kinds::FRACTION,
            Value::String(_) => Kinds::STRING,
            Value::Array(_) => Kinds::ARRAY,
            Value::Object(_) => Kinds::OBJECT,
        }
    }

    /// Reports whether the two sets overlap.
    pub fn has(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    fn named(name: &str) -> Kinds {
        match name {
            "null" => Kinds::NULL,
            "boolean" => Kinds::BOOLEAN,
            "integer" => Kinds::INTEGER,
            "number" => Kinds::INTEGER.or(Kinds::FRACTION),
            "string" => Kinds::STRING,
            "array" => Kinds::ARRAY,
            "object" => Kinds::OBJECT,
            _ => Kinds::ALL,
        }
    }

    fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["string", "number", "integer", "boolean", "array", "object", "null"];
        let number = self.has(Kinds::FRACTION);
        let mut names = names.into_iter().filter(|&name| match name {
            "number" => number,
            "integer" => !number && self.has(Kinds::INTEGER),
            name => self.has(Kinds::named(name)),
        });
        f.write_str(names.next().unwrap_or("nothing"))?;
        names.try_for_each(|name| write!(f, " or {name}"))
    }
}

/// Returns the number of values in a value, including itself, and its nesting depth.
pub fn measure(value: &Value<'_>) -> (usize, usize) {
    let sum = |(count, depth): (usize, usize), inner: &Value<'_>| {
        let (more, deeper) = measure(inner);
        (count + more, depth.max(deeper + 1))
    };
    match value {
        Value::Array(items) => items.iter().fold((1, 1), sum),
        Value::Object(members) => members.iter().map(|(_, value)| value).fold((1, 1), sum),
        _ => (1, 0),
    }
}

/// The position of a value in the arguments, written as a prefix of a note.
///
/// Each step borrows the one before: most walks have no notes, and then no path is ever written.
#[derive(Clone, Copy)]
enum Path<'p> {
    Top,
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn spell(&self, out: &mut String) {
        match self {
            Path::Top => {}
            Path::Member(outer, name) => {
                outer.spell(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&short(name));
            }
            Path::Item(outer, index) => {
                outer.spell(out);
                out.push_str(&format!("[{index}]"));
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        self.spell(&mut path);
        if path.is_empty() { Ok(()) } else { write!(f, "{}: ", Value::string(path).to_json()) }
    }
}

/// Describes a value and its kind, short enough for a note.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".into(),
        Value::String(text) => format!("string {}", Value::string(short(text)).to_json()),
        Value::Number(digits) => format!("{} {}", value.kind(), short(digits)),
        Value::Bool(truth) => format!("boolean {truth}"),
        Value::Array(_) | Value::Object(_) => value.kind().into(),
    }
}

fn short(text: &str) -> String {
    beginning(text, MAX_SHOWN)
}

/// Returns the beginning of a text: at most this many letters.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    let mut letters = text.chars();
    let mut start: String = letters.by_ref().take(most).collect();
    if letters.next().is_some() {
        start.push('…');
    }
    start
}

/// The work budget of one walk: two steps for each of the maximum number of values, or about 0.1 s.
const MAX_STEPS: usize = 500_000;
/// The maximum nesting of alternatives and references.
const MAX_NESTING: usize = 16;
/// The maximum depth of values and alternatives together.
const MAX_WALK: usize = MAX_DEPTH;
/// The maximum number of notes of one kind.
const MAX_NOTES: usize = 20;
/// The maximum number of characters of a value in a note.
const MAX_SHOWN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn a_schema_says_which_kinds_it_accepts() {
        for (schema, kinds) in [
            (r#"{"type":"string"}"#, "string"),
            (r#"{"type":["integer","null"]}"#, "integer or null"),
            (r#"{"type":"number"}"#, "number"),
            (r#"{"type":"string","nullable":true}"#, "string or null"),
            (r#"{"enum":["a",1]}"#, "string or integer"),
            (r#"{"const":false}"#, "boolean"),
            (r#"{"anyOf":[{"type":"string"},{"type":"array"}]}"#, "string or array"),
            (r#"{"allOf":[{"type":["string","null"]},{"type":["null","array"]}]}"#, "null"),
            (r##"{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"object"}}}"##, "object"),
            (r##"{"$ref":"#/x/1","x":[0,{"type":"null"}]}"##, "null"),
            ("false", "nothing"),
        ] {
            let schema = parse(schema).unwrap();
            assert_eq!(Walk::new(&schema).top().kinds().to_string(), kinds, "{schema:?}");
        }
    }

    #[test]
    fn a_path_is_spelled_from_the_top() {
        let top = Path::Top;
        let unnamed = Path::Member(&top, "");
        let member = Path::Member(&unnamed, "a");
        let item = Path::Item(&member, 3);
        for (path, expected) in [
            (top, ""),
            (unnamed, ""),
            (member, "\"a\": "),
            (item, "\"a[3]\": "),
            (Path::Member(&item, "\""), "\"a[3].\\\"\": "),
            (Path::Item(&top, 0), "\"[0]\": "),
        ] {
            assert_eq!(path.to_string(), expected);
        }
    }

    #[test]
    fn what_cannot_be_judged_accepts_everything() {
        for schema in [
            "{}",
            "true",
            "7",
            r#"{"type":"date"}"#,
            r##"{"$ref":"#"}"##,
            r##"{"$ref":"#/gone"}"##,
            r#"{"$ref":"http://e.com/s"}"#,
            r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        ] {
            let schema = parse(schema).unwrap();
            assert_eq!(Walk::new(&schema).top().kinds(), Kinds::ALL, "{schema:?}");
        }
    }

    #[test]
    fn a_bare_value_means_the_sole_property_that_accepts_it() {
        for (schema, expected) in [
            (r#"{"properties":{"a":{"type":"string"}}}"#, Some("a")),
            (r#"{"properties":{"a":{"type":"integer"}}}"#, None),
            (r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}"#, None),
            (r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["b"]}"#, Some("b")),
            (r#"{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}"#, Some("a")),
            (r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}"#, None),
            (r##"{"properties":{"a":{"$ref":"#/s"}},"s":{"type":"string"}}"##, Some("a")),
            ("{}", None),
        ] {
            let schema = parse(schema).unwrap();
            let walk = Walk::new(&schema);
            assert_eq!(walk.top().sole_property(|kinds| kinds.has(Kinds::STRING)), expected, "{schema:?}");
        }
    }
}
