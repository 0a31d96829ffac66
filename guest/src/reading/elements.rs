//! Calls as elements: `<function=f>` and `<invoke name="f">`, with a parameter in each element inside.

use super::CallForm;
use super::cursor::{Cursor, Read, find};
use super::known::{Parameter, unambiguous};
use super::marks::{Tag, TagKind};
use super::objects::{is_name, object};
use super::scan::Scan;
use crate::json::Value;

impl<'t> Scan<'_, 't> {
    /// Reads the element at this byte; returns the byte after it.
    pub(super) fn element(&mut self, start: usize) -> Read<usize> {
        let mut cursor = Cursor::new(self.text, start);
        let Some((tag, name)) = opened(&cursor) else { return cursor.stop() };
        let named = self.tools.named(name);
        if named.tool.is_none() && !is_name(&named.name) {
            return cursor.stop();
        }
        cursor.at = tag.end;
        let mut parameters = Vec::new();
        let mut whole = None;
        loop {
            cursor.blanks();
            let next = Tag::read(self.text, cursor.at);
            match next {
                Some(next) if next.kind == TagKind::Close && next.full == tag.full => {
                    cursor.at = next.end;
                    break;
                }
                // The end of what is around the element also ends the element.
                Some(next) if next.kind != TagKind::Open => break,
                // An object says itself where it ends; there could be more parameters.
                _ if whole.is_some() => break,
                Some(_) => parameters.push(parameter(&mut cursor)?),
                None if cursor.peek() == Some(b'{') && parameters.is_empty() => {
                    let located = object(self.text, cursor.at)?;
                    cursor.at = located.end;
                    unambiguous(located.repeated.as_ref(), start)?;
                    whole = Some(Value::Object(located.object).to_json());
                }
                None => return cursor.stop(),
            }
        }
        let arguments = match whole {
            Some(arguments) => arguments,
            None => self.tools.typed(named.tool, parameters, start)?,
        };
        let form = if tag.is(&["invoke"]) { CallForm::Invoke } else { CallForm::FunctionTag };
        self.add(named, arguments, form, start, cursor.at);
        Ok(cursor.at)
    }
}

/// Reads a parameter: its name, and the text up to its closing tag.
fn parameter<'t>(cursor: &mut Cursor<'t>) -> Read<Parameter<'t>> {
    let Some((tag, name)) = opened(cursor).filter(|(tag, _)| tag.is(&["parameter", "param", "arg", "argument"])) else {
        return cursor.stop();
    };
    cursor.at = tag.end;
    let text = cursor.take_until(&format!("</{}>", tag.full))?;
    Ok(Parameter { name, text, is_text: find(tag.attributes, "string=\"true\"").is_some() })
}

/// Reads an opening tag and the name in it: `<a=b>` or `<a name="b">`.
fn opened<'t>(cursor: &Cursor<'t>) -> Option<(Tag<'t>, &'t str)> {
    let tag = Tag::read(cursor.text, cursor.at).filter(|tag| tag.kind == TagKind::Open)?;
    let mut cursor = Cursor::new(tag.attributes, 0);
    cursor.spaces();
    if !cursor.sees("=") {
        cursor.take_until("name").ok()?;
        cursor.spaces();
    }
    cursor.accept("=").then_some(())?;
    cursor.spaces();
    cursor.take(|byte| matches!(byte, b'"' | b'\''));
    let name = cursor.take(|byte| !matches!(byte, b'"' | b'\'' | b' '));
    (!name.is_empty()).then_some((tag, name))
}
