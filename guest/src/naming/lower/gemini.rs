//! Schemas for Gemini: a subset of OpenAPI 3.0, without references and with a single type each.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::facts::{Facts, Part, Shape, choose, cost};
use super::{Lowering, MAX_DEPTH, schema_of, without_twins};
use crate::json::{Object, Value};
use crate::ordered;

impl<'v> Lowering<'v> {
    /// Returns the schema in the subset of OpenAPI 3.0 that Gemini reads.
    pub(super) fn openapi(&mut self) -> Value<'v> {
        let mut facts = Facts::default();
        self.gather(&mut facts, &[Part { schema: self.references.root, trail: 0 }]);
        if !self.references.root.as_object().is_some_and(|_| facts.may_be_object()) {
            return bare_object();
        }
        (facts.null, facts.values) = (false, None);
        self.merge_choices(&mut facts, 0);
        self.of_kind(&facts, "object", 0)
    }

    /// Lowers a schema below the top, for Gemini.
    fn shape(&mut self, shape: &Shape<'v>, depth: usize) -> Value<'v> {
        let mut facts = Facts::default();
        self.gather(&mut facts, &shape.all);
        let mut only = Vec::new();
        choose(&mut facts, shape.any.iter().copied(), &mut only);
        self.gather(&mut facts, &only);
        self.finish(facts, depth)
    }

    /// Returns the schema that states these facts, for Gemini.
    fn finish(&mut self, mut facts: Facts<'v>, depth: usize) -> Value<'v> {
        if depth >= MAX_DEPTH {
            return bare_object();
        }
        if !facts.properties.is_empty() {
            self.merge_choices(&mut facts, 0);
        }
        // Values or items say more than the choice beside them, and copying them into each branch would make the schema
        // large.
        let settled = facts.values.is_some() || !facts.items.is_empty();
        let choice = std::mem::take(&mut facts.choices).into_iter().next().filter(|_| !settled);
        if let Some(branches) = choice {
            let description = take_description(&mut facts);
            let cost: usize = facts.plain.iter().map(|(key, value)| cost(key, value)).sum();
            let mut lowered = Vec::new();
            for branch in branches {
                let shared = cost == 0 || self.spend(cost);
                let bare = || Facts { kinds: facts.kinds.clone(), null: facts.null, ..Facts::default() };
                let mut branch_facts = if shared { facts.clone() } else { bare() };
                self.gather(&mut branch_facts, &[branch]);
                lowered.push(self.finish(branch_facts, depth + 1));
            }
            return alternatives(lowered, description);
        }
        // Gemini has no word for "anything", so an empty schema becomes a choice of all types: longer than a mere
        // string, but it loses no value that the tool accepts.
        let mut kinds = facts.likely_kinds().unwrap_or_else(|| ANYTHING.to_vec());
        if kinds.contains(&"number") {
            kinds.retain(|kind| *kind != "integer");
        }
        if let Some(values) = facts.values.as_ref().filter(|_| kinds.len() > 1) {
            kinds.retain(|kind| values.iter().any(|value| is_of(value, kind)));
        }
        match kinds[..] {
            // Only null: any type will do, but there must be one.
            [] => self.of_kind(&facts, "string", depth),
            [kind] => self.of_kind(&facts, kind, depth),
            _ => {
                let description = take_description(&mut facts);
                let lowered = kinds.iter().map(|kind| self.of_kind(&facts, kind, depth + 1)).collect();
                alternatives(lowered, description)
            }
        }
    }

    /// Returns the schema of one type that states these facts, for Gemini.
    fn of_kind(&mut self, facts: &Facts<'v>, kind: &'static str, depth: usize) -> Value<'v> {
        if depth >= MAX_DEPTH {
            return bare_object();
        }
        let mut out = vec![("type", Value::string(kind))];
        out.extend(
            facts
                .plain
                .iter()
                .filter(|(key, value)| keeps(key, value, kind))
                .map(|(key, value)| (*key, (*value).clone())),
        );
        if facts.null {
            out.push(("nullable", Value::Bool(true)));
        }
        if let Some(values) = &facts.values {
            limit_values(&mut out, values, kind);
        }
        if kind == "array" {
            let said = !facts.items.is_empty() || depth + 1 == MAX_DEPTH;
            let items =
                if said { self.shape(&facts.items, depth + 1) } else { schema_of("type", Value::string("string")) };
            out.push(("items", items));
        }
        if kind == "object" {
            let possible = |shape: &Shape| !shape.all.iter().any(|part| *part.schema == Value::Bool(false));
            let offered: Vec<&(&str, Shape)> = facts.properties.iter().filter(|(_, shape)| possible(shape)).collect();
            let names: BTreeSet<&str> = ordered::set(offered.iter().map(|(name, _)| *name));
            let required = facts.required(&names);
            let ordering = facts.plain.get("propertyOrdering").and_then(|names| names.as_array()).unwrap_or_default();
            let ordering: Vec<Value> = ordering
                .iter()
                .filter(|name| name.as_str().is_some_and(|name| names.contains(name)))
                .cloned()
                .collect();
            let properties: Object =
                offered.iter().map(|(name, shape)| (Cow::Borrowed(*name), self.shape(shape, depth + 1))).collect();
            if !properties.is_empty() {
                out.push(("properties", Value::Object(properties)));
            }
            if !required.is_empty() {
                out.push(("required", Value::Array(required)));
            }
            if !ordering.is_empty() {
                out.push(("propertyOrdering", Value::Array(ordering)));
            }
        }
        facts.ordered(out)
    }
}

/// Removes what is said about the choice as a whole, and returns its description.
fn take_description<'v>(facts: &mut Facts<'v>) -> Option<&'v str> {
    facts.plain.remove("title");
    facts.plain.remove("default");
    facts.plain.remove("description").and_then(Value::as_str)
}

/// Builds a choice of these schemas. Gemini rejects any keyword beside `anyOf`, so the description goes into the first.
fn alternatives<'v>(branches: Vec<Value<'v>>, description: Option<&'v str>) -> Value<'v> {
    let mut flat: Vec<Value> = Vec::new();
    for branch in branches {
        match branch.get("anyOf") {
            Some(Value::Array(inner)) => flat.extend(inner.iter().cloned()),
            _ => flat.push(branch),
        }
    }
    without_twins(&mut flat);
    if let (Some(text), Some(Value::Object(first))) = (description, flat.first_mut()) {
        let text = match first.get("description").and_then(Value::as_str) {
            Some(own) => Value::string(format!("{text} {own}")),
            None => Value::string(text),
        };
        first.set("description", text);
    }
    without_twins(&mut flat);
    if flat.len() == 1 { flat.remove(0) } else { schema_of("anyOf", Value::Array(flat)) }
}

/// States the allowed values: Gemini accepts an `enum` of non-empty strings, and other values go into the description.
fn limit_values<'v>(out: &mut Vec<(&'v str, Value<'v>)>, values: &[&'v Value<'v>], kind: &str) {
    let mut fitting: Vec<&Value> = values.iter().copied().filter(|value| is_of(value, kind)).collect();
    if fitting.is_empty() {
        fitting = values.to_vec();
    } else if kind == "string" && fitting.iter().all(|value| value.as_str() != Some("")) {
        out.push(("enum", Value::Array(fitting.into_iter().cloned().collect())));
        return;
    }
    let texts: Vec<String> = fitting.iter().map(|value| value.to_json()).collect();
    let note = format!("Allowed values: {}.", texts.join(", "));
    match out.iter_mut().find(|(key, _)| *key == "description") {
        Some((_, Value::String(text))) => *text = Cow::Owned(format!("{text} {note}")),
        _ => out.push(("description", Value::string(note))),
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    value.kind() == kind || kind == "number" && value.kind() == "integer"
}

/// Reports whether Gemini accepts this keyword in a schema of this type.
pub(super) fn keeps(key: &str, value: &Value, kind: &str) -> bool {
    let number = matches!(value, Value::Number(_));
    match key {
        "title" | "description" => value.as_str().is_some(),
        "default" => true,
        "format" => matches!(
            (kind, value.as_str()),
            ("string", Some("date-time" | "enum"))
                | ("number", Some("float" | "double"))
                | ("integer", Some("int32" | "int64"))
        ),
        "pattern" => kind == "string" && value.as_str().is_some(),
        "minLength" | "maxLength" => kind == "string" && number,
        "minimum" | "maximum" => matches!(kind, "number" | "integer") && number,
        "minItems" | "maxItems" => kind == "array" && number,
        "minProperties" | "maxProperties" => kind == "object" && number,
        _ => false,
    }
}

fn bare_object() -> Value<'static> {
    schema_of("type", Value::string("object"))
}

const ANYTHING: [&str; 5] = ["string", "number", "boolean", "object", "array"];
