//! Titles and descriptions of tools, masked; all else that a tool says of itself stays as it is.

use serde_json::value::RawValue;

use super::Front;
use crate::decide::Answer;
use crate::json::{self, Object, raw};

/// A tool and its server.
pub(super) type Tool = (String, Object);

/// Masks what tools say of themselves to a model, also in their schemas.
pub(super) fn mask(front: &Front, tools: &mut [Tool]) -> Answer<()> {
    for of_server in tools.chunk_by_mut(|(one, _), (other, _)| one == other) {
        let Some(server) = of_server.first().map(|(server, _)| server.clone()) else { continue };
        if !front.gate.masks(&server) {
            continue;
        }
        let mut texts = Vec::new();
        for (_, tool) in of_server.iter_mut() {
            walk(tool, &mut |text| {
                texts.push(text.clone());
                text
            });
        }
        // The component is asked once for all of them.
        let masked = front.gate.mask(&server, raw(&texts).get())?;
        let masked = serde_json::from_str::<Vec<String>>(&masked).ok().filter(|masked| masked.len() == texts.len());
        let masked = match masked {
            Some(masked) => masked,
            None => texts.iter().map(|text| front.gate.mask_text(&server, text)).collect::<Answer<_>>()?,
        };
        let mut masked = masked.into_iter();
        for (_, tool) in of_server.iter_mut() {
            walk(tool, &mut |text| masked.next().unwrap_or(text));
        }
    }
    Ok(())
}

/// Changes each title and description in an object, however deep, in its order.
fn walk(object: &mut Object, change: &mut dyn FnMut(String) -> String) {
    let names: Vec<_> = object.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        let changed = object.get(&name).and_then(|value| changed(&name, value, change));
        if let Some(changed) = changed {
            object.set(&name, &changed);
        }
    }
}

/// A value with its texts changed; none where there are none.
fn changed(name: &str, value: &RawValue, change: &mut dyn FnMut(String) -> String) -> Option<Box<RawValue>> {
    let text = value.get();
    let is_text = matches!(name, "title" | "description") && text.starts_with('"');
    if is_text {
        return Some(raw(&change(json::text(value)?)));
    }
    if !NAMES.iter().any(|name| text.contains(name)) {
        return None;
    }
    if text.starts_with('[') {
        let items: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
        let items = items.into_iter().map(|item| changed("", &item, change).unwrap_or(item));
        return Some(raw(&items.collect::<Vec<_>>()));
    }
    let mut object = Object::read(text)?;
    walk(&mut object, change);
    Some(raw(&object))
}

const NAMES: [&str; 2] = ["\"title\"", "\"description\""];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_titles_and_descriptions_change() {
        let tool = r#"{"name":"title","title":"a","inputSchema":{"properties":{"title":{"title":"b","const":1.10},
            "description":{"anyOf":[{"description":"c"},{"enum":["title","description"]}]}},"required":["title"]},"x":{"y": 1}}"#;
        let mut object = Object::read(tool).unwrap();
        let mut seen = Vec::new();
        walk(&mut object, &mut |text| {
            seen.push(text.clone());
            text.to_uppercase()
        });
        assert_eq!(seen, ["a", "b", "c"]);
        let expected = r#"{"name":"title","title":"A","inputSchema":{"properties":{"title":{"title":"B","const":1.10},"description":{"anyOf":[{"description":"C"},{"enum":["title","description"]}]}},"required":["title"]},"x":{"y": 1}}"#;
        assert_eq!(object.to_text(), expected);
    }
}
