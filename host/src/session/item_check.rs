//! Checks the items of a list, so that one bad item does not make the whole list unreadable for clients.

use serde_json::value::RawValue;

use super::list_kind::ListKind;
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
use MemberType::{Flag, List, Number, Object, Text};

/// Checks an item of a list; the error says why it cannot be used.
pub(super) fn check_item(kind: ListKind, item: &RawValue) -> Result<ItemCheck, String> {
    let mut object = JsonObject::read(item.get()).ok_or("it is not an object")?;
    let written = object.clone();
    match kind {
        ListKind::Tools => repair_tool(&mut object)?,
        ListKind::Resources => repair_resource(&mut object, "uri")?,
        ListKind::Templates => repair_resource(&mut object, "uriTemplate")?,
        ListKind::Prompts => repair_prompt(&mut object)?,
    }
    keep(&mut object, &[("title", Text), ("description", Text), ("_meta", Object)]);
    keep_if(&mut object, "icons", |icons| each(icons, |icon| is_text(icon, "src")));
    Ok(if object == written { ItemCheck::Valid } else { ItemCheck::Repaired(to_raw(&object)) })
}

/// Removes the output schema of a tool if clients before 2026-07-28 cannot read it; `None` if nothing changes.
pub(crate) fn strip_output_schema(tool: &RawValue) -> Option<Box<RawValue>> {
    if !tool.get().contains(OUTPUT) {
        return None;
    }
    let mut object = JsonObject::read(tool.get())?;
    let is_readable = |written: JsonObject| {
        let mut schema = written.clone();
        normalize_schema(&mut schema).is_ok() && schema == written
    };
    if JsonObject::read(object.get(OUTPUT)?.get()).is_some_and(is_readable) {
        return None;
    }
    object.remove(OUTPUT);
    Some(to_raw(&object))
}

fn repair_tool(tool: &mut JsonObject) -> Result<(), String> {
    if !is(tool, "name", Text) {
        return Err("its name is not a string".to_owned());
    }
    keep(tool, &[("annotations", Object), ("execution", Object), (OUTPUT, Object)]);
    match tool.get(INPUT).map(RawValue::get) {
        // Without a schema, the tool has no known arguments.
        None | Some("null") => tool.set(INPUT, &raw(r#"{"type":"object"}"#)),
        Some(_) if !is(tool, INPUT, Object) => return Err("its inputSchema is not an object".to_owned()),
        Some(_) => edit(tool, INPUT, normalize_schema).map_err(|why| format!("its inputSchema {why}"))?,
    }
    edit::<String>(tool, "annotations", |hints| {
        keep(hints, &HINTS);
        Ok(())
    })?;
    keep_if(tool, "execution", |execution| {
        let execution = JsonObject::read(execution.get()).unwrap_or_default();
        let support = execution.get("taskSupport").map(RawValue::get);
        matches!(support, None | Some(r#""forbidden""# | r#""optional""# | r#""required""#))
    });
    Ok(())
}

/// Normalizes a schema to one of type `object` as SDKs expect it, if that is what it means.
fn normalize_schema(schema: &mut JsonObject) -> Result<(), &'static str> {
    // Some languages write empty members as null.
    for name in ["properties", "required"] {
        keep_if(schema, name, |value| value.get() != "null");
    }
    match schema.get("type").map(RawValue::get) {
        Some(r#""object""#) => {}
        Some(kinds) if kinds.starts_with('"') || !kinds.contains(r#""object""#) => return Err("is not of type object"),
        // Arguments are always objects, whatever else the schema allows.
        _ => schema.set("type", "object"),
    }
    if schema.get("required").is_some_and(|names| !each(names, |name| type_of(name) == Some(Text))) {
        return Err("has a `required` that is not a list of names");
    }
    if schema.get("properties").is_some() && !is(schema, "properties", Object) {
        return Err("has `properties` that are not an object");
    }
    edit(schema, "properties", |properties| {
        let odd = |(_, value): &(&str, &RawValue)| type_of(value) != Some(Object);
        let odd = properties.iter().filter(odd).map(|(name, value)| (name.to_owned(), value.to_owned()));
        for (name, value) in odd.collect::<Vec<_>>() {
            // JSON Schema allows `true` and `false` as schemas, but many clients do not know them.
            let same = match value.get() {
                "true" => "{}",
                "false" => r#"{"not":{}}"#,
                _ => return Err("has a property without a valid schema"),
            };
            properties.set(&name, &raw(same));
        }
        Ok(())
    })
}

fn repair_resource(resource: &mut JsonObject, address: &str) -> Result<(), String> {
    if !is(resource, address, Text) {
        return Err(format!("its {address} is not a string"));
    }
    keep(resource, &[("mimeType", Text), ("size", Number), ("annotations", Object)]);
    if !is(resource, "name", Text) {
        // A resource without a name can still be read.
        let named = resource.get(address).map(ToOwned::to_owned);
        resource.set("name", &named);
    }
    edit(resource, "annotations", |annotations| {
        keep(annotations, &[("lastModified", Text)]);
        keep_if(annotations, "audience", |roles| {
            each(roles, |role| matches!(role.get(), r#""user""# | r#""assistant""#))
        });
        keep_if(annotations, "priority", |priority| {
            priority.get().parse::<f64>().is_ok_and(|priority| (0.0..=1.0).contains(&priority))
        });
        Ok(())
    })
}

fn repair_prompt(prompt: &mut JsonObject) -> Result<(), String> {
    if !is(prompt, "name", Text) {
        return Err("its name is not a string".to_owned());
    }
    keep_if(prompt, "arguments", |arguments| arguments.get() != "null");
    let Some(arguments) = prompt.get("arguments") else { return Ok(()) };
    let read = serde_json::from_str::<Vec<JsonObject>>(arguments.get());
    let written = read.map_err(|_| "its arguments are not a list of objects")?;
    let mut arguments = written.clone();
    for argument in &mut arguments {
        if !is(argument, "name", Text) {
            return Err("the name of an argument is not a string".to_owned());
        }
        keep(argument, &[("title", Text), ("description", Text), ("required", Flag)]);
    }
    if arguments != written {
        prompt.set("arguments", &arguments);
    }
    Ok(())
}

/// Changes a member that is an object; if nothing changes, it keeps its text.
fn edit<E>(
    object: &mut JsonObject,
    name: &str,
    change: impl FnOnce(&mut JsonObject) -> Result<(), E>,
) -> Result<(), E> {
    let Some(written) = object.get(name).and_then(|member| JsonObject::read(member.get())) else { return Ok(()) };
    let mut member = written.clone();
    change(&mut member)?;
    if member != written {
        object.set(name, &member);
    }
    Ok(())
}

/// Removes members of a wrong type.
fn keep(object: &mut JsonObject, members: &[(&str, MemberType)]) {
    for (name, wanted) in members {
        keep_if(object, name, |value| type_of(value) == Some(*wanted));
    }
}

/// Removes a member that fails the test.
fn keep_if(object: &mut JsonObject, name: &str, good: impl Fn(&RawValue) -> bool) {
    if object.get(name).is_some_and(|value| !good(value)) {
        object.remove(name);
    }
}

fn is(object: &JsonObject, name: &str, wanted: MemberType) -> bool {
    object.get(name).is_some_and(|value| type_of(value) == Some(wanted))
}

fn is_text(object: &RawValue, name: &str) -> bool {
    JsonObject::read(object.get()).is_some_and(|object| is(&object, name, Text))
}

/// Reports whether a value is a list whose items all pass the test.
fn each(list: &RawValue, good: impl Fn(&RawValue) -> bool) -> bool {
    serde_json::from_str::<Vec<&RawValue>>(list.get()).is_ok_and(|items| items.into_iter().all(good))
}

/// Returns the type of a value; `None` for `null`, which no member here may be.
fn type_of(value: &RawValue) -> Option<MemberType> {
    match value.get().as_bytes().first()? {
        b'"' => Some(Text),
        b't' | b'f' => Some(Flag),
        b'{' => Some(Object),
        b'[' => Some(List),
        b'n' => None,
        _ => Some(Number),
    }
}

fn raw(json: &'static str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("this is JSON")
}

const INPUT: &str = "inputSchema";
const OUTPUT: &str = "outputSchema";
const HINTS: [(&str, MemberType); 5] = [
    ("title", Text),
    ("readOnlyHint", Flag),
    ("destructiveHint", Flag),
    ("idempotentHint", Flag),
    ("openWorldHint", Flag),
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
