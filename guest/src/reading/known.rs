//! The known tools: which one a written name means, and what its schema says about arguments.

use super::cursor::{Cursor, Read, Stop, find};
use super::python::{PythonCall, cleaned};
use super::{AmbiguousCall, KnownTool, ReadingError, short};
use crate::arguments::{self, Refusal, repair};
use crate::json::{self, MAX_DEPTH, MAX_VALUES, Object, Repeated, Value};
use crate::schema::{self, Document, Kinds, Source, Walk};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// The known tools by their names.
pub(super) struct Tools<'a> {
    all: &'a [KnownTool<'a>],
    places: BTreeMap<&'a str, usize>,
    /// The tools by their folded names; none where several tools have the same one.
    folded: OnceCell<BTreeMap<String, Option<usize>>>,
    /// The schemas that texts were read with.
    documents: Vec<OnceCell<Document<'a>>>,
}

/// A name in the text, and the tool that it means.
#[derive(Clone, PartialEq)]
pub(super) struct Named {
    pub name: String,
    pub tool: Option<usize>,
    /// Whether the tool was only found by its folded name.
    is_folded: bool,
}

impl Named {
    fn exact(name: &str, tool: Option<usize>) -> Self {
        Named { name: name.to_owned(), tool, is_folded: false }
    }

    /// Reports whether the name is that of a tool as it is written.
    pub(super) fn is_exact(&self) -> bool {
        self.tool.is_some() && !self.is_folded
    }
}

/// A parameter in a tag.
pub(super) struct Parameter<'t> {
    pub name: &'t str,
    pub text: &'t str,
    /// Whether the tag says that the value is a text.
    pub is_text: bool,
}

impl<'a> Tools<'a> {
    /// Prepares the tools for looking them up.
    pub(super) fn new(all: &'a [KnownTool<'a>]) -> Self {
        let places = crate::ordered::map(all.iter().enumerate().map(|(place, tool)| (tool.name, place)));
        Tools { all, places, folded: OnceCell::new(), documents: all.iter().map(|_| OnceCell::new()).collect() }
    }

    /// Reports whether no tool is known.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the name without what models put before and around it, and the tool that it means.
    ///
    /// A name that no tool has as it is written may still be one in other case, with blanks, or with `-` for `_`.
    #[inline(never)]
    pub(super) fn named(&self, written: &str) -> Named {
        let name = cleaned(bare(written));
        if let Some(&tool) = self.places.get(&*name) {
            return Named::exact(&name, Some(tool));
        }
        let bare = NAMESPACES.iter().find_map(|space| name.strip_prefix(space)).unwrap_or(&name);
        let dot = bare.bytes().rposition(|byte| byte == b'.').map(|dot| dot + 1);
        let last = dot.or_else(|| find(bare, "__").map(|joint| joint + 2));
        let whole = self.places.get(bare).copied();
        if let Some(tool) = whole.or_else(|| self.places.get(&bare[last?..]).copied()) {
            return Named::exact(bare, Some(tool));
        }
        if let Some(tool) = self.folded(bare) {
            return Named { name: self.all[tool].name.to_owned(), tool: Some(tool), is_folded: true };
        }
        // The server stays as it is written.
        let Some((server, own)) = last.map(|last| bare.split_at(last)) else { return Named::exact(bare, None) };
        match self.folded(own) {
            Some(tool) => Named { name: format!("{server}{}", self.all[tool].name), tool: Some(tool), is_folded: true },
            None => Named::exact(bare, None),
        }
    }

    /// Returns the only tool with this name after folding.
    fn folded(&self, name: &str) -> Option<usize> {
        if self.is_empty() || name.len() > MAX_FOLDED {
            return None;
        }
        let places = self.folded.get_or_init(|| {
            let mut places: BTreeMap<String, Option<usize>> = BTreeMap::new();
            for (place, tool) in self.all.iter().enumerate() {
                places.entry(fold(tool.name)).and_modify(|several| *several = None).or_insert(Some(place));
            }
            places
        });
        let name = fold(name);
        let inner = FOLDED_NAMESPACES.iter().find_map(|space| name.strip_prefix(space));
        places.get(&name).or_else(|| places.get(inner?)).copied().flatten()
    }

    /// Gives the positions of a Python call the names that the schema has for them; returns the arguments, or the first
    /// position without a name, counted from one.
    #[inline(never)]
    pub(super) fn bound<'t>(&self, call: PythonCall<'t>, tool: Option<usize>) -> Read<Result<Object<'t>, usize>> {
        let PythonCall { mut positions, keywords, start, repeated, .. } = call;
        unambiguous(repeated.as_ref(), start)?;
        if positions.is_empty() {
            return united(keywords, start).map(Ok);
        }
        let Some(schema) = tool.and_then(|tool| self.all[tool].input_schema) else { return Ok(Err(1)) };
        let walk = Walk::new(schema);
        let top = walk.top();
        let Some(properties) = top.properties() else { return Ok(Err(1)) };
        if let ([Value::Object(_)], true) = (&*positions, keywords.is_empty()) {
            let only = positions.pop().expect("there is one");
            return in_one_object(only, schema, start).map(Ok);
        }
        let mut names = properties.iter();
        let mut named = Vec::new();
        for (n, value) in positions.into_iter().enumerate() {
            let Some((name, _)) = names.next() else { return Ok(Err(n + 1)) };
            named.push((name.to_owned().into(), value));
        }
        named.extend(keywords);
        united(named, start).map(Ok)
    }

    /// Reports whether the schema names all these arguments and requires no others.
    pub(super) fn fits(&self, tool: usize, arguments: &Object<'_>) -> bool {
        let Some(schema) = self.all[tool].input_schema else { return true };
        let walk = Walk::new(schema);
        let top = walk.top();
        let named = !top.lists_properties() || arguments.iter().all(|(name, _)| top.names(name));
        named && top.required().all(|name| arguments.get(name).is_some())
    }

    /// Reports whether the tool can be called without arguments.
    pub(super) fn requires_nothing(&self, tool: usize) -> bool {
        self.all[tool].input_schema.is_some() && self.fits(tool, &Object::new())
    }

    /// Reads a text as the arguments of a tool, as a call of that tool reads it; the call begins at this byte.
    pub(super) fn arguments(&self, tool: Option<usize>, text: &str, start: usize) -> Read<String> {
        let document = tool.and_then(|tool| {
            let schema = self.all[tool].input_schema?;
            Some(self.documents[tool].get_or_init(|| Document::new(schema.clone())))
        });
        let (parsed, doubts) = arguments::parse_noting(text, document).map_err(refused)?;
        unambiguous(doubts.repeated.as_ref(), start)?;
        if doubts.is_broken {
            return Err(Stop::refused(ReadingError::Malformed(start)));
        }
        Ok(parsed.arguments)
    }

    /// Makes arguments of parameters whose values are texts: the schema decides their types.
    pub(super) fn typed(&self, tool: Option<usize>, parameters: Vec<Parameter<'_>>, start: usize) -> Read<String> {
        let schema = tool.and_then(|tool| self.all[tool].input_schema);
        let walk = schema.map(Walk::new);
        let mut values = Vec::with_capacity(parameters.len());
        for Parameter { name, text, is_text } in parameters {
            let property = walk.as_ref().and_then(|walk| walk.top().property(name));
            let kinds = property.map(|property| property.kinds());
            let kinds = kinds.unwrap_or(if is_text { Kinds::STRING } else { Kinds::ALL });
            let value = match meaning(text, kinds, start)? {
                Some(value) => value,
                None => Value::string(without_line_breaks(text)),
            };
            values.push((name.into(), value));
        }
        let mut arguments = Value::Object(united(values, start)?);
        if let Some(schema) = schema {
            schema::coerce(&mut arguments, schema, Source::Text);
        }
        Ok(arguments.to_json())
    }
}

/// Returns a name without the blanks, the quotes and the marks of Markdown around it.
fn bare(written: &str) -> &str {
    written.trim_matches(|edge: char| edge.is_whitespace() || "`*\"'".contains(edge))
}

/// Returns a name in lower case, with one `_` for all that models write between the words of a name.
fn fold(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_whitespace() || "_-./:".contains(letter) {
            if !out.ends_with('_') {
                out.push('_');
            }
        } else {
            out.extend(letter.to_lowercase());
        }
    }
    out
}

/// Returns what `f({"a": 1})` means: all arguments in one object, or an object for the first property. If both can be
/// meant, only the first may satisfy the schema.
fn in_one_object<'t>(only: Value<'t>, schema: &Value<'_>, start: usize) -> Read<Object<'t>> {
    let walk = Walk::new(schema);
    let top = walk.top();
    let first = top.properties().and_then(|all| all.iter().next()).map_or("", |(name, _)| name);
    let takes_object = top.property(first).is_some_and(|first| first.kinds().has(Kinds::OBJECT));
    let placed = object_of(first.to_owned().into(), only.clone());
    let is_named = only.as_object().is_some_and(|members| members.iter().all(|(name, _)| top.names(name)));
    let satisfies = |arguments: &Value<'_>| schema::check(arguments, schema).is_empty();
    let meant = match (takes_object, is_named) {
        (false, _) => only,
        (true, false) => placed,
        (true, true) if satisfies(&only) && !satisfies(&placed) => only,
        _ => return Err(Stop::refused(ReadingError::ambiguous(start, &only, &placed))),
    };
    if let Value::Object(members) = meant { Ok(members) } else { Ok(Object::new()) }
}

/// Returns an object with one member.
fn object_of<'t>(key: Cow<'t, str>, value: Value<'t>) -> Value<'t> {
    let mut object = Object::new();
    object.set(key, value);
    Value::Object(object)
}

/// Returns the arguments as an object, unless two of them have one name and different values.
fn united<'t>(named: Vec<(Cow<'t, str>, Value<'t>)>, start: usize) -> Read<Object<'t>> {
    let is_new = |n: usize| named[..n].iter().all(|(key, _)| *key != named[n].0);
    if named.len() > FEW || !(1..named.len()).all(is_new) {
        let mut places = BTreeMap::new();
        for (place, (key, value)) in named.iter().enumerate() {
            if let Some(first) = places.insert(&**key, place)
                && named[first].1 != *value
            {
                let (one, other) = (named[first].1.clone(), value.clone());
                let (one, other) = (object_of(key.clone(), one), object_of(key.clone(), other));
                return Err(Stop::refused(ReadingError::ambiguous(start, &one, &other)));
            }
        }
    }
    Ok(named.into_iter().collect())
}

/// Returns what a text means if it is not just a text, for a property of these kinds.
fn meaning(text: &str, kinds: Kinds, start: usize) -> Read<Option<Value<'_>>> {
    let text = text.trim();
    let is_open = kinds == Kinds::ALL;
    let read = match json::parse_noting(text) {
        Ok(read) => Some(read),
        Err(json::Error::Syntax(..)) if kinds.has(Kinds::STRING) => None,
        Err(json::Error::Syntax(..)) => repair::read(text).map_err(refused)?.map(|read| (read.value, read.repeated)),
        Err(error) => return Err(stopped(&error, 0)),
    };
    let Some((value, repeated)) = read else { return Ok(None) };
    // Without a schema, quotes and `null` are text: who writes tags has no other way to write them.
    let counts = |value: &Value<'_>| match value {
        Value::String(_) => !kinds.has(Kinds::STRING),
        Value::Null => !is_open && kinds.has(Kinds::NULL),
        value => kinds.has(Kinds::of(value)),
    };
    if !counts(&value) {
        return Ok(None);
    }
    unambiguous(repeated.as_ref(), start)?;
    Ok(Some(value))
}

/// Stops if an object of a call has a key twice with two values; the call begins at this byte.
pub(super) fn unambiguous(repeated: Option<&Repeated>, at: usize) -> Read<()> {
    match repeated {
        Some(repeated) if repeated.differs() => {
            let (one, other) = (short(&repeated.first), short(&repeated.last));
            Err(Stop::refused(ReadingError::Ambiguous(AmbiguousCall { at, one, other })))
        }
        _ => Ok(()),
    }
}

/// Returns a text without the line breaks that tags are written with.
fn without_line_breaks(text: &str) -> String {
    let text = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text);
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    unescaped(text).unwrap_or_else(|| text.to_owned())
}

/// Returns a text without entities, if it has some and nothing that contradicts: `a &lt; b` has, `<p>&lt;</p>` is HTML.
fn unescaped(text: &str) -> Option<String> {
    let mut cursor = Cursor::new(text, 0);
    if cursor.take(|byte| byte != b'&').len() == text.len() {
        return None;
    }
    cursor.at = 0;
    let mut out = String::with_capacity(text.len());
    loop {
        out.push_str(cursor.take(|byte| !matches!(byte, b'&' | b'<' | b'>')));
        if cursor.peek().is_none() {
            return Some(out);
        }
        let (_, letter) = ENTITIES.iter().find(|(entity, _)| cursor.accept(entity))?;
        out.push(*letter);
    }
}

/// Returns why JSON at this byte is not read.
pub(super) fn stopped(error: &json::Error, at: usize) -> Stop {
    Stop::refused(match error {
        json::Error::Syntax(_, length) => return Stop::NotHere(at + length),
        json::Error::TooManyValues => ReadingError::TooManyValues(MAX_VALUES as u64),
        json::Error::TooDeep => ReadingError::TooDeep(MAX_DEPTH as u64),
    })
}

/// Returns the error for a limit that arguments exceed.
pub(super) fn refused(refusal: Refusal) -> Stop {
    Stop::refused(match refusal {
        Refusal::TooLarge(limit) => ReadingError::TooLarge(limit),
        Refusal::TooManyValues(limit) => ReadingError::TooManyValues(limit),
        Refusal::TooDeep(limit) => ReadingError::TooDeep(limit),
    })
}

/// The entities that a text in tags needs.
const ENTITIES: [(&str, char); 7] = [
    ("&amp;", '&'),
    ("&lt;", '<'),
    ("&gt;", '>'),
    ("&quot;", '"'),
    ("&apos;", '\''),
    ("&#39;", '\''),
    ("&#x27;", '\''),
];
/// Up to this many arguments, comparing all pairs of names is faster than a map.
const FEW: usize = 12;
/// What models put before the name of a tool, although no tool is named so.
const NAMESPACES: [&str; 2] = ["functions.", "default_api."];
/// The same, folded.
const FOLDED_NAMESPACES: [&str; 2] = ["functions_", "default_api_"];
/// The maximum length of a name that is folded.
const MAX_FOLDED: usize = 256;
