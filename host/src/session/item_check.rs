//! Checks the items of a list, so that one bad item does not make the whole list unreadable for clients.

use serde_json::value::RawValue;

use super::ListKind;
use crate::json::{JsonObject, to_raw};

/// The outcome of checking an item.
#[derive(Debug)]
pub(super) enum ItemCheck {
    /// The item conforms to MCP.
    Valid,
    /// The item conforms after unreadable members were removed.
    Repaired(Box<RawValue>),
}

/// The type of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberType {
    Text,
    Flag,
    Number,
    Object,
    List,
}

/// Checks an item of a list; the error says why it cannot be used.
pub(super) fn check_item(kind: ListKind, item: &RawValue) -> Result<ItemCheck, String> {
    let mut object = JsonObject::read(item.get()).ok_or("it is not an object")?;
    let mut changed = match kind {
        ListKind::Tools => tool(&mut object)?,
        ListKind::Resources => resource(&mut object, "uri")?,
        ListKind::Templates => resource(&mut object, "uriTemplate")?,
        ListKind::Prompts => prompt(&mut object)?,
    };
    changed |= keep(
        &mut object,
        &[("title", MemberType::Text), ("description", MemberType::Text), ("_meta", MemberType::Object)],
    );
    changed |= keep_if(&mut object, "icons", |icons| each(icons, |icon| is_text(icon, "src")));
    Ok(if changed { ItemCheck::Repaired(to_raw(&object)) } else { ItemCheck::Valid })
}

/// Removes the output schema of a tool if clients before 2026-07-28 cannot read it; `None` if nothing changes.
pub(crate) fn strip_output_schema(tool: &RawValue) -> Option<Box<RawValue>> {
    if !tool.get().contains(OUTPUT) {
        return None;
    }
    let mut object = JsonObject::read(tool.get())?;
    let schema = JsonObject::read(object.get(OUTPUT)?.get());
    if schema.is_some_and(|mut schema| matches!(normalize_schema(&mut schema), Ok(false))) {
        return None;
    }
    object.remove(OUTPUT);
    Some(to_raw(&object))
}

fn tool(tool: &mut JsonObject) -> Result<bool, String> {
    if !is(tool, "name", MemberType::Text) {
        return Err("its name is not a string".to_owned());
    }
    let mut changed = keep(
        tool,
        &[("annotations", MemberType::Object), ("execution", MemberType::Object), (OUTPUT, MemberType::Object)],
    );
    let schema = tool.get(INPUT).filter(|schema| schema.get() != "null");
    match schema.map(|schema| JsonObject::read(schema.get())) {
        // Without a schema, the tool has no known arguments.
        None => {
            tool.set(INPUT, &RawValue::from_string(r#"{"type":"object"}"#.to_owned()).expect("this is JSON"));
            changed = true;
        }
        Some(None) => return Err("its inputSchema is not an object".to_owned()),
        Some(Some(mut schema)) => {
            if normalize_schema(&mut schema).map_err(|why| format!("its inputSchema {why}"))? {
                tool.set(INPUT, &schema);
                changed = true;
            }
        }
    }
    if let Some(mut hints) = tool.get("annotations").and_then(|hints| JsonObject::read(hints.get()))
        && keep(&mut hints, &HINTS)
    {
        tool.set("annotations", &hints);
        changed = true;
    }
    changed |= keep_if(tool, "execution", |execution| {
        let support =
            JsonObject::read(execution.get()).and_then(|execution| execution.get("taskSupport").map(ToOwned::to_owned));
        support.is_none_or(|support| matches!(support.get(), r#""forbidden""# | r#""optional""# | r#""required""#))
    });
    Ok(changed)
}

/// Normalizes a schema to one of type `object` as SDKs expect it, if that is what it means; returns whether it changed.
fn normalize_schema(schema: &mut JsonObject) -> Result<bool, &'static str> {
    let mut changed = ["properties", "required"].into_iter().fold(false, |changed, name| {
        // Some languages write empty members as null.
        let none = schema.get(name).is_some_and(|value| value.get() == "null");
        if none {
            schema.remove(name);
        }
        changed || none
    });
    match schema.get("type").map(RawValue::get) {
        Some(r#""object""#) => {}
        Some(kinds) if kinds.starts_with('"') || !kinds.contains(r#""object""#) => return Err("is not of type object"),
        // Arguments are always objects, whatever else the schema allows.
        _ => {
            schema.set("type", "object");
            changed = true;
        }
    }
    if schema.get("required").is_some_and(|names| !each(names, |name| type_of(name) == Some(MemberType::Text))) {
        return Err("has a `required` that is not a list of names");
    }
    let Some(properties) = schema.get("properties") else { return Ok(changed) };
    let mut properties = JsonObject::read(properties.get()).ok_or("has `properties` that are not an object")?;
    let odd = |(_, value): &(&str, &RawValue)| type_of(value) != Some(MemberType::Object);
    let odd: Vec<_> =
        properties.iter().filter(odd).map(|(name, value)| (name.to_owned(), value.get() == "true")).collect();
    if odd.is_empty() {
        return Ok(changed);
    }
    for (name, any) in odd {
        // JSON Schema allows `true` and `false` as schemas, but many clients do not know them.
        let said = properties.get(&name).map(RawValue::get);
        if !any && said != Some("false") {
            return Err("has a property without a valid schema");
        }
        let same = if any { "{}" } else { r#"{"not":{}}"# };
        properties.set(&name, &RawValue::from_string(same.to_owned()).expect("this is JSON"));
    }
    schema.set("properties", &properties);
    Ok(true)
}

fn resource(resource: &mut JsonObject, address: &str) -> Result<bool, String> {
    if !is(resource, address, MemberType::Text) {
        return Err(format!("its {address} is not a string"));
    }
    let mut changed = keep(
        resource,
        &[("mimeType", MemberType::Text), ("size", MemberType::Number), ("annotations", MemberType::Object)],
    );
    if !is(resource, "name", MemberType::Text) {
        // A resource without a name can still be read.
        let named = resource.get(address).map(ToOwned::to_owned);
        resource.set("name", &named);
        changed = true;
    }
    if let Some(mut said) = resource.get("annotations").and_then(|said| JsonObject::read(said.get())) {
        let mut other = keep(&mut said, &[("lastModified", MemberType::Text)]);
        other |= keep_if(&mut said, "audience", |roles| {
            each(roles, |role| matches!(role.get(), r#""user""# | r#""assistant""#))
        });
        other |= keep_if(&mut said, "priority", |priority| {
            priority.get().parse::<f64>().is_ok_and(|priority| (0.0..=1.0).contains(&priority))
        });
        if other {
            resource.set("annotations", &said);
            changed = true;
        }
    }
    Ok(changed)
}

fn prompt(prompt: &mut JsonObject) -> Result<bool, String> {
    if !is(prompt, "name", MemberType::Text) {
        return Err("its name is not a string".to_owned());
    }
    let Some(arguments) = prompt.get("arguments") else { return Ok(false) };
    if arguments.get() == "null" {
        prompt.remove("arguments");
        return Ok(true);
    }
    let read = serde_json::from_str::<Vec<JsonObject>>(arguments.get());
    let mut arguments = read.map_err(|_| "its arguments are not a list of objects")?;
    let mut changed = false;
    for argument in &mut arguments {
        if !is(argument, "name", MemberType::Text) {
            return Err("the name of an argument is not a string".to_owned());
        }
        changed |= keep(
            argument,
            &[("title", MemberType::Text), ("description", MemberType::Text), ("required", MemberType::Flag)],
        );
    }
    if changed {
        prompt.set("arguments", &arguments);
    }
    Ok(changed)
}

/// Removes members of a wrong type; returns whether there were any.
fn keep(object: &mut JsonObject, members: &[(&str, MemberType)]) -> bool {
    members.iter().fold(false, |changed, (name, wanted)| {
        keep_if(object, name, |value| type_of(value) == Some(*wanted)) || changed
    })
}

/// Removes a member that fails the test; returns whether it did.
fn keep_if(object: &mut JsonObject, name: &str, good: impl Fn(&RawValue) -> bool) -> bool {
    let bad = object.get(name).is_some_and(|value| !good(value));
    if bad {
        object.remove(name);
    }
    bad
}

fn is(object: &JsonObject, name: &str, wanted: MemberType) -> bool {
    object.get(name).is_some_and(|value| type_of(value) == Some(wanted))
}

fn is_text(object: &RawValue, name: &str) -> bool {
    JsonObject::read(object.get()).is_some_and(|object| is(&object, name, MemberType::Text))
}

/// Reports whether a value is a list whose items all pass the test.
fn each(list: &RawValue, good: impl Fn(&RawValue) -> bool) -> bool {
    serde_json::from_str::<Vec<&RawValue>>(list.get()).is_ok_and(|items| items.into_iter().all(good))
}

/// Returns the type of a value; `None` for `null`, which no member here may be.
fn type_of(value: &RawValue) -> Option<MemberType> {
    match value.get().as_bytes().first()? {
        b'"' => Some(MemberType::Text),
        b't' | b'f' => Some(MemberType::Flag),
        b'{' => Some(MemberType::Object),
        b'[' => Some(MemberType::List),
        b'n' => None,
        _ => Some(MemberType::Number),
    }
}

const INPUT: &str = "inputSchema";
const OUTPUT: &str = "outputSchema";
const HINTS: [(&str, MemberType); 5] = [
    ("title", MemberType::Text),
    ("readOnlyHint", MemberType::Flag),
    ("destructiveHint", MemberType::Flag),
    ("idempotentHint", MemberType::Flag),
    ("openWorldHint", MemberType::Flag),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(kind: ListKind, item: &str) -> String {
        match check_item(kind, &RawValue::from_string(item.to_owned()).unwrap()) {
            Ok(ItemCheck::Valid) => "good".to_owned(),
            Ok(ItemCheck::Repaired(item)) => item.get().to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn a_tool_is_what_clients_can_read_or_is_none() {
        for (item, expected) in [
            (r#"{"name":"a","inputSchema":{"type":"object","x":1.10},"description":"half \ud83d","y":null}"#, "good"),
            (r#"{"name":"a"}"#, r#"{"name":"a","inputSchema":{"type":"object"}}"#),
            (r#"{"name":"a","inputSchema":null}"#, r#"{"name":"a","inputSchema":{"type":"object"}}"#),
            (
                r#"{"name":"a","description":{},"title":7,"icons":[{}],"_meta":[],"outputSchema":"s","inputSchema":{}}"#,
                r#"{"name":"a","inputSchema":{"type":"object"}}"#,
            ),
            (
                r#"{"name":"a","inputSchema":{"type":["object","null"],"properties":null,"required":null}}"#,
                r#"{"name":"a","inputSchema":{"type":"object"}}"#,
            ),
            (
                r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":true,"y":false,"z":{"n":1.0}}}}"#,
                r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{"not":{}},"z":{"n":1.0}}}}"#,
            ),
            (
                r#"{"name":"a","annotations":{"readOnlyHint":"yes","title":"t","own":1},"execution":{"taskSupport":1},"inputSchema":{"type":"object"}}"#,
                r#"{"name":"a","annotations":{"title":"t","own":1},"inputSchema":{"type":"object"}}"#,
            ),
            (r#"{"name":"a","inputSchema":"str"}"#, "its inputSchema is not an object"),
            (r#"{"name":"a","inputSchema":{"type":"string"}}"#, "its inputSchema is not of type object"),
            (
                r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":7}}}"#,
                "its inputSchema has a property without a valid schema",
            ),
            (
                r#"{"name":"a","inputSchema":{"type":"object","required":"x"}}"#,
                "its inputSchema has a `required` that is not a list of names",
            ),
            (r#"{"inputSchema":{}}"#, "its name is not a string"),
            ("7", "it is not an object"),
        ] {
            assert_eq!(shaped(ListKind::Tools, item), expected, "{item}");
        }
    }

    #[test]
    fn resources_and_prompts_are_what_clients_can_read_or_are_none() {
        for (kind, item, expected) in [
            (ListKind::Resources, r#"{"uri":"a:b","name":"b","size":1.0,"annotations":{"priority":1,"x":2}}"#, "good"),
            (ListKind::Resources, r#"{"uri":"a:b","mimeType":null}"#, r#"{"uri":"a:b","name":"a:b"}"#),
            (
                ListKind::Resources,
                r#"{"uri":"a:b","name":"b","annotations":{"audience":["me"],"priority":5,"lastModified":1}}"#,
                r#"{"uri":"a:b","name":"b","annotations":{}}"#,
            ),
            (ListKind::Resources, r#"{"uri":5}"#, "its uri is not a string"),
            (ListKind::Resources, r#"{"nouri":1}"#, "its uri is not a string"),
            (ListKind::Templates, r#"{"uriTemplate":"a:{b}","name":"b"}"#, "good"),
            (ListKind::Templates, r#"{"uri":"a:b","name":"b"}"#, "its uriTemplate is not a string"),
            (ListKind::Prompts, r#"{"name":"p","arguments":[{"name":"a","required":true}]}"#, "good"),
            (ListKind::Prompts, r#"{"name":"p","arguments":null}"#, r#"{"name":"p"}"#),
            (
                ListKind::Prompts,
                r#"{"name":"p","arguments":[{"name":"a","required":"yes"}]}"#,
                r#"{"name":"p","arguments":[{"name":"a"}]}"#,
            ),
            (ListKind::Prompts, r#"{"name":"p","arguments":[{}]}"#, "the name of an argument is not a string"),
        ] {
            assert_eq!(shaped(kind, item), expected, "{item}");
        }
    }

    #[test]
    fn older_clients_get_a_tool_without_a_schema_of_answers_that_they_cannot_read() {
        let older = |tool: &str| {
            strip_output_schema(&RawValue::from_string(tool.to_owned()).unwrap()).map(|tool| tool.get().to_owned())
        };
        assert_eq!(older(r#"{"name":"a","outputSchema":{"type":"object"}}"#), None);
        assert_eq!(older(r#"{"name":"a"}"#), None);
        assert_eq!(older(r#"{"name":"a","outputSchema":{"type":"array"}}"#).as_deref(), Some(r#"{"name":"a"}"#));
    }
}
