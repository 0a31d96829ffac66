//! Rewrites the schema of a tool's arguments into what a model's provider accepts, and changes nothing else.

mod facts;
mod gemini;
mod reference;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use self::facts::{Facts, Part, Shape, Trail, weight};
use self::reference::ReferenceResolver;
use super::target::Target;
use crate::json::{self, Object, Value};
use crate::ordered;

/// Returns the schema in a form that the target accepts; lowering it again changes nothing.
pub fn lower(schema: Option<&str>, target: Target) -> Result<String, json::Error> {
    let root = schema.map(json::parse).transpose()?.unwrap_or(Value::Bool(true));
    let start = Trail { target: &root, up: 0, depth: 0 };
    let mut lowering = Lowering { references: ReferenceResolver::new(&root), trails: vec![start], room: ROOM };
    let lowered = match target {
        Target::Mcp => typed(&root),
        Target::Anthropic | Target::Openai | Target::Cursor => lowering.one_object(),
        Target::Gemini => lowering.openapi(),
    };
    Ok(lowered.to_json())
}

/// Returns the schema with the `type` that MCP requires.
fn typed<'v>(root: &Value<'v>) -> Value<'v> {
    let Value::Object(mut members) = root.clone() else { return no_arguments() };
    if members.get("type").is_none() {
        members.set("type", Value::string("object"));
    }
    Value::Object(members)
}

/// A schema that is being lowered.
struct Lowering<'v> {
    references: ReferenceResolver<'v>,
    trails: Vec<Trail<'v>>,
    /// How many values may still be duplicated.
    room: usize,
}

impl<'v> Lowering<'v> {
    /// Returns the schema as one object without a choice at the top; the rest stays as it is.
    fn one_object(&mut self) -> Value<'v> {
        let Value::Object(members) = self.references.root else { return no_arguments() };
        let mut facts = Facts::default();
        let merging = members.iter().any(|(key, _)| MERGED.contains(&key));
        if merging {
            self.gather(&mut facts, &[Part { schema: self.references.root, trail: 0 }]);
        } else if let Some(kinds) = members.get("type") {
            facts.narrow(kinds);
        }
        if !facts.may_be_object() {
            return no_arguments();
        }
        if !merging {
            let mut members = members.clone();
            members.set("type", Value::string("object"));
            if members.get("properties").and_then(Value::as_object).is_none() {
                members.set("properties", Value::Object(Object::new()));
            }
            return Value::Object(members);
        }
        self.merge_choices(&mut facts, 0);
        let mut out: Vec<(&str, Value)> = facts.plain.iter().map(|(key, value)| (*key, (*value).clone())).collect();
        out.retain(|(key, _)| !MERGED.contains(key));
        out.push(("type", Value::string("object")));
        let properties = facts.properties.iter().map(|(name, shape)| (Cow::Borrowed(*name), joined(shape)));
        out.push(("properties", Value::Object(properties.collect())));
        // Keep a name that is required but not described.
        let required = facts.required(&facts.required.iter().copied().collect());
        if !required.is_empty() {
            out.push(("required", Value::Array(required)));
        }
        self.relinked(facts.ordered(out))
    }

    /// Moves definitions that references can no longer reach, because the choice around them is gone, into `$defs`.
    fn relinked(&mut self, mut schema: Value<'v>) -> Value<'v> {
        let mut moved: BTreeMap<String, &'v Value<'v>> = BTreeMap::new();
        let mut pending: Vec<String> = Vec::new();
        references(&schema, &mut pending);
        let mut result = ReferenceResolver::new(&schema);
        while let Some(reference) = pending.pop() {
            if moved.contains_key(&reference) || result.resolve(&reference).is_some() {
                continue;
            }
            let Some(target) = self.references.resolve(&reference).filter(|_| self.room > 0) else { continue };
            self.spend(weight(target));
            references(target, &mut pending);
            moved.insert(reference, target);
        }
        let old = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
        let taken: BTreeSet<&str> = ordered::set(old.iter().map(|(name, _)| name));
        let free = (1..).map(|n| format!("moved_{n}")).filter(|name| !taken.contains(name.as_str()));
        let names: BTreeMap<&str, String> = ordered::map(moved.keys().map(String::as_str).zip(free));
        if let (false, Value::Object(members)) = (names.is_empty(), &mut schema) {
            let new =
                moved.iter().map(|(reference, target)| (names[reference.as_str()].clone().into(), (*target).clone()));
            members.set("$defs", Value::Object(old.clone().into_iter().chain(new).collect()));
            relink(&mut schema, &names);
        }
        schema
    }

    /// Spends some of the room for duplicates; reports whether any was left, so the last duplicate may exceed it.
    fn spend(&mut self, cost: usize) -> bool {
        let any_left = self.room > 0;
        self.room = self.room.saturating_sub(cost);
        any_left
    }
}

/// Returns one schema that says what a shape says.
fn joined<'v>(shape: &Shape<'v>) -> Value<'v> {
    let (word, parts) = if shape.any.is_empty() { ("allOf", &shape.all) } else { ("anyOf", &shape.any) };
    let mut schemas: Vec<Value> = parts.iter().map(|part| part.schema.clone()).collect();
    without_twins(&mut schemas);
    if schemas.len() == 1 { schemas.remove(0) } else { schema_of(word, Value::Array(schemas)) }
}

/// Collects every reference in a schema.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.iter().for_each(|(_, member)| references(member, found));
        }
        _ => {}
    }
}

/// Redirects the references of a schema to the definitions with these names.
fn relink(value: &mut Value, names: &BTreeMap<&str, String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| relink(item, names)),
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match member.as_str().filter(|_| key == "$ref").and_then(|reference| names.get(reference)) {
                    Some(name) => *member = Value::string(format!("#/$defs/{name}")),
                    None => relink(member, names),
                }
            }
        }
        _ => {}
    }
}

fn without_twins(values: &mut Vec<Value>) {
    let mut met = BTreeSet::new();
    values.retain(|value| met.insert(value.to_json()));
}

fn schema_of<'v>(key: &'static str, value: Value<'v>) -> Value<'v> {
    Value::Object([(Cow::Borrowed(key), value)].into_iter().collect())
}

fn no_arguments() -> Value<'static> {
    let members = [("type", Value::string("object")), ("properties", Value::Object(Object::new()))];
    Value::Object(members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect())
}

/// The maximum number of duplicated values, so that nested references stay small.
const ROOM: usize = 10_000;
/// The maximum nesting of schemas for Gemini, and of references for all targets.
const MAX_DEPTH: usize = 32;
/// Keywords that OpenAI and Anthropic reject at the top of a schema.
const MERGED: [&str; 7] = ["$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"];
