//! Masks tool definitions like results: titles, descriptions, and the defaults and examples of schemas. Everything else
//! stays as it is.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{self, JsonObject, to_raw};

/// Masks the descriptions of these tools with the given function, which masks JSON.
pub(crate) fn mask_tools<E>(
    tools: &mut [&mut JsonObject],
    mut mask: impl FnMut(&str) -> Result<String, E>,
) -> Result<(), E> {
    let mut texts = Vec::new();
    for tool in tools.iter_mut() {
        walk(tool, &mut |text| {
            texts.push(text.clone());
            text
        });
    }
    // One request for all texts. Each is in an object of its own, because two adjacent strings in a list would be read
    // as a name and its value.
    let entries: Vec<Entry> = texts.iter().map(|text| Entry { text: text.into() }).collect();
    let masked = mask(to_raw(&entries).get())?;
    let masked = serde_json::from_str::<Vec<Entry>>(&masked).ok().filter(|masked| masked.len() == texts.len());
    let masked = match masked {
        Some(masked) => masked.into_iter().map(|entry| entry.text.into_owned()).collect(),
        None => {
            let each = texts.iter().map(|text| mask(to_raw(text).get()));
            let read = |masked: String| serde_json::from_str(&masked).unwrap_or(masked);
            each.map(|masked| masked.map(read)).collect::<Result<_, E>>()?
        }
    };
    let mut masked = Vec::into_iter(masked);
    for tool in tools {
        walk(tool, &mut |text| masked.next().unwrap_or(text));
    }
    Ok(())
}

/// One text of a tool, in the form that the component masks.
#[derive(serde::Serialize, serde::Deserialize)]
struct Entry<'a> {
    text: Cow<'a, str>,
}

/// Replaces the texts of an object at any depth, in order.
fn walk(object: &mut JsonObject, change: &mut dyn FnMut(String) -> String) {
    let names: Vec<_> = object.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let changed = object.get(&name).and_then(|value| change_texts(&name, value, change));
        if let Some(changed) = changed {
            object.set(&name, &changed);
        }
    }
}

/// Returns a value with its texts replaced; `None` if there are none.
fn change_texts(name: &str, value: &RawValue, change: &mut dyn FnMut(String) -> String) -> Option<Box<RawValue>> {
    let text = value.get();
    let is_text = matches!(name, "title" | "description") && text.starts_with('"');
    if is_text {
        return Some(to_raw(&change(json::string_value(value)?)));
    }
    if matches!(name, "default" | "examples") {
        return each(value, change);
    }
    if !NAMES.iter().any(|name| text.contains(name)) && !json::has_escaped_ascii(text) {
        return None;
    }
    if text.starts_with('[') {
        let items: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
        let items = items.into_iter().map(|item| change_texts("", &item, change).unwrap_or(item));
        return Some(to_raw(&items.collect::<Vec<_>>()));
    }
    let mut object = JsonObject::read(text)?;
    walk(&mut object, change);
    Some(to_raw(&object))
}

/// Returns a value with all its strings replaced; `None` if there are none.
fn each(value: &RawValue, change: &mut dyn FnMut(String) -> String) -> Option<Box<RawValue>> {
    match value.get().as_bytes().first()? {
        b'"' => Some(to_raw(&change(json::string_value(value)?))),
        b'[' => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(value.get()).ok()?;
            Some(to_raw(&items.into_iter().map(|item| each(&item, change).unwrap_or(item)).collect::<Vec<_>>()))
        }
        b'{' => {
            let mut object = JsonObject::read(value.get())?;
            let names: Vec<_> = object.iter().map(|(name, _)| name.to_owned()).collect();
            for name in names {
                if let Some(changed) = object.get(&name).and_then(|value| each(value, change)) {
                    object.set(&name, &changed);
                }
            }
            Some(to_raw(&object))
        }
        _ => None,
    }
}

const NAMES: [&str; 4] = ["\"title\"", "\"description\"", "\"default\"", "\"examples\""];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_and_given_values_change() {
        let tool = r#"{"name":"title","title":"a","inputSchema":{"properties":{"title":{"title":"b","const":1.10,"default":"d"},
            "description":{"anyOf":[{"description":"c"},{"enum":["title","description"],"examples":["e",1.10,{"f":"f"}]}]}},
            "required":["title"]},"x":{"y": 1},"default":1.10}"#;
        let mut object = JsonObject::read(tool).unwrap();
        let mut seen = Vec::new();
        walk(&mut object, &mut |text| {
            seen.push(text.clone());
            text.to_uppercase()
        });
        assert_eq!(seen, ["a", "b", "d", "c", "e", "f"]);
        let expected = concat!(
            r#"{"name":"title","title":"A","inputSchema":{"properties":{"title":{"title":"B","const":1.10,"default":"D"},"#,
            r#""description":{"anyOf":[{"description":"C"},{"enum":["title","description"],"examples":["E",1.10,{"f":"F"}]}]}},"#,
            r#""required":["title"]},"x":{"y": 1},"default":1.10}"#
        );
        assert_eq!(object.to_text(), expected);
    }

    #[test]
    fn texts_of_different_tools_are_never_taken_for_a_name_and_its_value() {
        let mut tools =
            [r#"{"title":"password"}"#, r#"{"title":"Tr0ub4dor"}"#].map(|tool| JsonObject::read(tool).unwrap());
        let mut asked = String::new();
        let masked: Result<(), ()> = mask_tools(&mut tools.iter_mut().collect::<Vec<_>>(), |json| {
            asked = json.to_owned();
            Ok(json.replace("Tr0ub4dor", "masked"))
        });
        masked.unwrap();
        assert_eq!(asked, r#"[{"text":"password"},{"text":"Tr0ub4dor"}]"#);
        assert_eq!(tools.map(|tool| tool.to_text()), [r#"{"title":"password"}"#, r#"{"title":"masked"}"#]);
    }

    #[test]
    fn a_name_means_the_same_however_it_is_spelt() {
        let mut object = JsonObject::read(r#"{"inputSchema":{"d\u0065scription":"a"}}"#).unwrap();
        walk(&mut object, &mut |text| text.to_uppercase());
        assert_eq!(object.to_text(), r#"{"inputSchema":{"description":"A"}}"#);
    }
}
