//! Calls as JSON objects, with the small mistakes that models make.

use super::CallForm;
use super::cursor::{Cursor, Read, Stop, is_word};
use super::known::{Named, refused, stopped, unambiguous};
use super::scan::Scan;
use super::{AmbiguousCall, ReadingError, short};
use crate::arguments::repair;
use crate::json::{self, Object, Repeated, Value};
use std::borrow::Cow;

/// An object in the text, and where its members stand.
pub(super) struct Located<'t> {
    pub object: Object<'t>,
    /// A key that the object, or one in it, has more than once.
    pub repeated: Option<Repeated>,
    /// The byte after the object.
    pub end: usize,
    /// Whether the object has its closing bracket.
    is_closed: bool,
    /// For each key that can hold calls, where the key and its value begin, and where the value ends.
    places: Vec<(Cow<'t, str>, [usize; 3])>,
}

impl<'t> Scan<'_, 't> {
    /// Reads the object at this byte and adds the calls that it means; returns the byte after it.
    ///
    /// `form` is the form of what is around the object; what is marked as a call can be less complete than what is not.
    pub(super) fn object(&mut self, at: usize, form: Option<CallForm>, depth: usize) -> Read<usize> {
        let located = object(self.text, at)?;
        let end = located.end;
        let known = self.calls.len();
        if let Some((named, arguments, own_form)) = self.meant(&located.object, at, form)? {
            self.add(named, arguments, form.unwrap_or(own_form), at, end);
        } else if !self.by_key(&located, form, at) && depth < MAX_WRAPPERS {
            for (key, [_, start, end]) in &located.places {
                // Only the caller's mark or a key that means calls says more than the object itself.
                let inner = form.or((*key == "tool_calls" || *key == "function_call").then_some(CallForm::OpenAi));
                if WRAPPERS.contains(&&**key) {
                    self.sequence(&mut Cursor::new(&self.text[..*end], *start), inner, depth + 1)?;
                }
            }
        }
        if depth > 0 {
            // Each level of wrappers reads its inside again.
            self.burn(at, end)?;
        }
        if self.calls.len() > known {
            unambiguous(located.repeated.as_ref(), at)?;
        }
        if self.calls.len() == known && !located.is_closed {
            return Err(Stop::NotHere(end));
        }
        Ok(end)
    }

    /// Reads objects, one after the other or in a list.
    #[inline(never)]
    pub(super) fn sequence(&mut self, cursor: &mut Cursor<'t>, form: Option<CallForm>, depth: usize) -> Read<()> {
        loop {
            cursor.blanks_and_comments(true);
            match cursor.peek() {
                Some(b'[' | b']' | b',' | b';') => cursor.at += 1,
                Some(b'{') => cursor.at = self.object(cursor.at, form, depth)?,
                _ => return Ok(()),
            }
        }
    }

    /// Adds the calls of an object whose keys are all names of tools: `{"f": {"a": 1}}`.
    #[inline(never)]
    fn by_key(&mut self, located: &Located<'t>, form: Option<CallForm>, at: usize) -> bool {
        let is_call =
            |(key, value): (&str, &Value<'_>)| value.as_object().is_some() && self.tools.named(key).is_exact();
        let members = &located.object;
        if members.is_empty() || members.len() > MAX_KEYS || !members.iter().all(is_call) {
            return false;
        }
        let alone = members.len() == 1;
        for (key, value) in members.iter() {
            let place = located.places.iter().rfind(|(name, _)| name == key);
            let (start, end) = match place {
                Some((_, [start, _, end])) if !alone => (*start, *end),
                _ => (at, located.end),
            };
            self.add(self.tools.named(key), value.to_json(), form.unwrap_or(CallForm::Json), start, end);
        }
        true
    }

    /// Returns the call that an object means, if it names a tool and has arguments.
    #[inline(never)]
    fn meant(&self, object: &Object<'_>, at: usize, form: Option<CallForm>) -> Read<Option<(Named, String, CallForm)>> {
        // `{"function": {"name": …}}` has the name, and mostly the arguments, one level deeper.
        let inner = INNER.iter().find_map(|key| object.get(key).and_then(Value::as_object));
        let mut names = Vec::new();
        let mut written = Vec::new();
        let mut described = false;
        for level in [Some(object), inner].into_iter().flatten() {
            for (key, value) in level.iter() {
                if NAMES.contains(&key) {
                    names.push(value);
                } else if ARGUMENTS.contains(&key) {
                    written.push(value);
                }
                described |= key == "description";
            }
        }
        let Some((named, rival)) = self.name_of(&names) else { return Ok(None) };
        let is_parameters = object.get("parameters").or(inner.and_then(|inner| inner.get("parameters"))).is_some();
        let is_quoted = self.text[..at].ends_with(['"', '\'']);
        if form.is_none()
            && (named.tool.is_none() && is_quoted
                || written.iter().any(|value| is_definition(value, described, is_parameters)))
        {
            return Ok(None);
        }
        let marked = form.is_some() || named.tool.is_some() || object.get("action_input").is_some();
        let mut arguments: Option<String> = None;
        for value in written {
            let Some(read) = self.arguments_of(value, named.tool, marked, at)? else { return Ok(None) };
            match &arguments {
                Some(first) if *first != read => {
                    let (one, other) = (short(first), short(&read));
                    return Err(Stop::refused(ReadingError::Ambiguous(AmbiguousCall { at, one, other })));
                }
                _ => arguments = Some(read),
            }
        }
        let arguments = arguments.or_else(|| self.rest_of(object, inner, &named, form.is_some()));
        if let (Some(rival), true) = (rival, arguments.is_some()) {
            let (one, other) = (Value::string(&*named.name), Value::string(rival.name));
            return Err(Stop::refused(ReadingError::ambiguous(at, &one, &other)));
        }
        let form = match object.get("type").and_then(Value::as_str) {
            Some("tool_use") => CallForm::Anthropic,
            Some("function_call") => CallForm::OpenAi,
            _ if inner.is_some() => CallForm::OpenAi,
            _ => CallForm::Json,
        };
        Ok(arguments.map(|arguments| (named, arguments, form)))
    }

    /// Returns the name that these values give, or the one of them that is a known tool, and another that is as good.
    #[inline(never)]
    fn name_of(&self, values: &[&Value<'_>]) -> Option<(Named, Option<Named>)> {
        let mut best: Option<Named> = None;
        let mut rival = None;
        for written in values.iter().filter_map(|value| value.as_str()) {
            let named = self.tools.named(written);
            let is_known = named.tool.is_some();
            if !is_known && !is_name(&named.name) {
                continue;
            }
            match &best {
                Some(other) if other.name == named.name => {}
                Some(other) if other.tool.is_some() == is_known => rival = Some(named),
                Some(_) if !is_known => {}
                _ => (best, rival) = (Some(named), None),
            }
        }
        Some((best?, rival))
    }

    /// Returns arguments as a JSON object; `marked` says that the object is a call for other reasons too.
    fn arguments_of(&self, value: &Value<'_>, tool: Option<usize>, marked: bool, at: usize) -> Read<Option<String>> {
        Ok(match value {
            Value::Object(_) => Some(value.to_json()),
            Value::Null => Some("{}".to_owned()),
            Value::String(text) => match json::parse_noting(text) {
                Ok((object @ Value::Object(_), repeated)) => {
                    unambiguous(repeated.as_ref(), at)?;
                    Some(object.to_json())
                }
                _ if marked => Some(self.tools.arguments(tool, text, at)?),
                _ => None,
            },
            other if marked => Some(self.tools.arguments(tool, &other.to_json(), at)?),
            _ => None,
        })
    }

    /// Returns the arguments of a known tool that stand beside its name: `{"tool": "f", "a": 1}`.
    #[inline(never)]
    fn rest_of(&self, object: &Object<'_>, inner: Option<&Object<'_>>, named: &Named, marked: bool) -> Option<String> {
        let is_other = |(key, value): &(&str, &Value<'_>)| {
            let is_name = value.as_str().is_some_and(|text| self.tools.named(text) == *named);
            !(is_name && NAMES.contains(key) || ["type", "id", "call_id"].contains(key))
        };
        let level = inner.unwrap_or(object);
        let rest: Object<'_> =
            level.iter().filter(is_other).map(|(key, value)| (Cow::Borrowed(key), value.clone())).collect();
        let fits = match named.tool {
            Some(tool) => self.tools.fits(tool, &rest),
            None => marked && rest.is_empty(),
        };
        fits.then(|| Value::Object(rest).to_json())
    }
}

/// Reads the object at this byte; a bracket that is missing at the end is added if the last member is complete.
pub(super) fn object(text: &str, at: usize) -> Read<Located<'_>> {
    let mut cursor = Cursor::new(text, at);
    cursor.expect("{")?;
    let mut members: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    let mut places = Vec::new();
    let mut repeated = None;
    let is_closed = loop {
        let new_line = cursor.blanks_and_comments(true);
        let comma = !members.is_empty() && cursor.accept(",");
        cursor.blanks_and_comments(true);
        if cursor.accept("}") {
            break true;
        }
        let is_complete = matches!(members.last(), Some((_, Value::Object(_) | Value::Array(_))));
        if is_complete && (cursor.at_end() || cursor.sees("]")) {
            break false;
        }
        if !members.is_empty() && !comma && !new_line {
            return cursor.stop();
        }
        let start = cursor.at;
        let key = key(&mut cursor)?;
        cursor.blanks_and_comments(true);
        cursor.expect(":")?;
        cursor.blanks_and_comments(true);
        let value_start = cursor.at;
        let (value, inner) = value(&mut cursor)?;
        repeated = match inner {
            Some(inner) if inner.differs() || repeated.is_none() => Some(inner),
            _ => repeated,
        };
        if matches!(value, Value::Object(_) | Value::Array(_)) {
            places.push((key.clone(), [start, value_start, cursor.at]));
        }
        members.push((key, value));
    };
    let object = Object::united(members, &mut repeated);
    Ok(Located { object, repeated, end: cursor.at, is_closed, places })
}

/// Reads a key, with or without quotes.
fn key<'t>(cursor: &mut Cursor<'t>) -> Read<Cow<'t, str>> {
    let bare = cursor.take(|byte| is_word(byte) || matches!(byte, b'-' | b'.' | b'$'));
    if !bare.is_empty() {
        return Ok(bare.into());
    }
    // Most braces in a text are no objects, and that is seen here.
    if !cursor.rest().starts_with(['"', '\'', '`', '“', '”', '„', '‘', '’', '‚']) {
        return cursor.stop();
    }
    match value(cursor)? {
        (Value::String(key), _) => Ok(key),
        _ => cursor.stop(),
    }
}

/// Reads a value as JSON or, if it is none, as JSON with mistakes; returns it with a key that it has more than once.
fn value<'t>(cursor: &mut Cursor<'t>) -> Read<(Value<'t>, Option<Repeated>)> {
    let read = match json::parse_prefix(cursor.rest()) {
        Ok(read) => Ok(read),
        Err(json::Error::Syntax(_, strict)) => {
            repair::prefix(cursor.rest()).map_err(refused)?.map_err(|repaired| strict.max(repaired))
        }
        Err(error) => return Err(stopped(&error, cursor.at)),
    };
    match read {
        Ok((value, length, repeated)) => {
            cursor.at += length;
            Ok((value, repeated))
        }
        Err(length) => Err(Stop::NotHere(cursor.at + length)),
    }
}

/// Reports whether arguments are the description of a tool's parameters instead.
fn is_definition(arguments: &Value<'_>, described: bool, is_parameters: bool) -> bool {
    let Value::Object(members) = arguments else { return false };
    let is_schema = members.get("properties").is_some_and(|all| all.as_object().is_some())
        && members.get("type").and_then(Value::as_str).is_some_and(|kind| kind == "object" || kind == "dict");
    is_schema && (described || is_parameters)
        || described && !members.is_empty() && members.iter().all(|(_, value)| value.get("type").is_some())
}

/// Reports whether a text can be the name of a tool that is not known.
pub(super) fn is_name(text: &str) -> bool {
    let goes_on = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'-' | b'/' | b':');
    text.len() <= MAX_NAME
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(goes_on)
}

/// The keys for the name of a tool.
const NAMES: [&str; 7] = ["name", "function", "tool", "tool_name", "function_name", "action", "recipient_name"];
/// The keys for the arguments.
const ARGUMENTS: [&str; 8] =
    ["arguments", "parameters", "args", "input", "action_input", "tool_input", "kwargs", "params"];
/// The keys for an object that has the name.
const INNER: [&str; 4] = ["function", "tool", "action", "tool_call"];
/// The keys for an object or a list that has calls.
const WRAPPERS: [&str; 12] = [
    "tool_calls",
    "function_calls",
    "tool_call",
    "function_call",
    "tool_uses",
    "calls",
    "actions",
    "functions",
    "content",
    "message",
    "choices",
    "output",
];
/// The maximum number of objects around a call.
const MAX_WRAPPERS: usize = 6;
/// The maximum number of tools in one object; so many are looked up for each object that is no call.
const MAX_KEYS: usize = 64;
/// The maximum length of a name.
const MAX_NAME: usize = 256;
