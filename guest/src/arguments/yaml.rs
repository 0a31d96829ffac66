//! Reads YAML that pairs cannot express: one mapping that contains a list, a mapping or a block of text.

use super::draft::{Draft, Members};
use super::{MAX_TEXT, Refusal};
use crate::json::{MAX_DEPTH, MAX_VALUES, Value};
use crate::schema::Schema;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Reads a text that is one mapping and contains a list or mapping, or a block of text (`|` or `>`) for a property that
/// the schema names; returns `None` otherwise.
///
/// Tags other than `!!str` are ignored, and a merge key is an ordinary key, as in the core schema of YAML 1.2.
pub(super) fn read<'a>(text: &'a str, schema: Option<Schema<'_>>) -> Result<Option<Members<'a>>, Refusal> {
    if text.len() > MAX_YAML || !may_nest(text) {
        return Ok(None);
    }
    let mut builder = Builder::default();
    let mut documents = 0;
    let mut has_block = false;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let Ok((event, _)) = event else { return Ok(None) };
        documents += usize::from(matches!(event, Event::DocumentStart(_)));
        has_block |= schema.is_some_and(|schema| builder.is_block(&event, schema));
        if documents > 1 || builder.take(event)? == Verdict::Reject {
            return Ok(None);
        }
    }
    let Some(Draft::Map(members)) = builder.root else { return Ok(None) };
    let nested = members.iter().any(|(_, value)| matches!(value, Draft::List(_) | Draft::Map(_)));
    Ok((nested || has_block).then_some(members))
}

/// Reports whether the text can contain a nested list or mapping; most texts cannot, and need no parser.
fn may_nest(text: &str) -> bool {
    text.contains(':')
        && (text.contains(['[', '{']) || text.split(['\n', '\r']).skip(1).any(|line| line.starts_with([' ', '-', ':'])))
}

#[derive(PartialEq)]
enum Verdict {
    Continue,
    Reject,
}

/// A list or mapping that is not closed yet.
struct Open<'a> {
    anchor: usize,
    before: Size,
    node: Node<'a>,
}

enum Node<'a> {
    List(Vec<Draft<'a>>),
    Map(Members<'a>, Option<Cow<'a, str>>),
}

/// The size of what has been built: an alias of a few bytes can stand for a large value.
#[derive(Clone, Copy, Default)]
struct Size {
    values: usize,
    bytes: usize,
}

#[derive(Default)]
struct Builder<'a> {
    root: Option<Draft<'a>>,
    stack: Vec<Open<'a>>,
    anchors: BTreeMap<usize, (Draft<'a>, Size, usize)>,
    size: Size,
    kept: Size,
}

impl<'a> Builder<'a> {
    fn take(&mut self, event: Event<'a>) -> Result<Verdict, Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let before = self.size;
                let is_key = matches!(self.stack.last(), Some(Open { node: Node::Map(_, None), .. }));
                grow(&mut self.size, Size { values: usize::from(!is_key), bytes: text.len() })?;
                let string = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let draft = match (style, text.as_ref()) {
                    (ScalarStyle::Plain, "" | "~") if !string => Draft::Word(text, Value::Null),
                    (ScalarStyle::Plain, _) if !string => Draft::word(text),
                    _ => Draft::Text(text),
                };
                self.keep(anchor, &draft, before)?;
                Ok(self.put(draft))
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, Node::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.open(anchor, Node::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.stack.pop() else { return Ok(Verdict::Reject) };
                let draft = match open.node {
                    Node::List(items) => Draft::List(items),
                    Node::Map(members, _) => Draft::Map(members),
                };
                self.keep(open.anchor, &draft, open.before)?;
                Ok(self.put(draft))
            }
            Event::Alias(anchor) => {
                // A value whose anchor is still open would contain itself.
                let Some((draft, size, depth)) = self.anchors.get(&anchor) else { return Ok(Verdict::Reject) };
                grow(&mut self.size, *size)?;
                if self.stack.len() + depth > MAX_DEPTH {
                    return Err(Refusal::TooDeep(MAX_DEPTH as u64));
                }
                let draft = draft.clone();
                Ok(self.put(draft))
            }
            _ => Ok(Verdict::Continue),
        }
    }

    /// Reports whether an event is a block of text for a property that the schema names.
    fn is_block(&self, event: &Event<'_>, schema: Schema<'_>) -> bool {
        let block = matches!(event, Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..));
        block && matches!(&*self.stack, [Open { node: Node::Map(_, Some(key)), .. }] if schema.names(key))
    }

    fn open(&mut self, anchor: usize, node: Node<'a>) -> Result<Verdict, Refusal> {
        // The top level must be a mapping, and a key must be a word.
        let misplaced = match self.stack.last() {
            None => matches!(node, Node::List(_)),
            Some(open) => matches!(open.node, Node::Map(_, None)),
        };
        if misplaced {
            return Ok(Verdict::Reject);
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(Refusal::TooDeep(MAX_DEPTH as u64));
        }
        let before = self.size;
        grow(&mut self.size, Size { values: 1, bytes: 0 })?;
        self.stack.push(Open { anchor, before, node });
        Ok(Verdict::Continue)
    }

    /// Adds a finished value to the list or mapping that contains it.
    fn put(&mut self, draft: Draft<'a>) -> Verdict {
        match self.stack.last_mut().map(|open| &mut open.node) {
            None => self.root = Some(draft),
            Some(Node::List(items)) => items.push(draft),
            Some(Node::Map(members, key)) => match (key.take(), draft) {
                // `{app="nginx"}` is a selector, not a mapping with a key and no value.
                (Some(key), Draft::Word(word, _)) if word.is_empty() && key.contains('=') => return Verdict::Reject,
                (Some(key), draft) => members.push((key, draft)),
                (None, Draft::Word(word, _) | Draft::Text(word)) if !word.is_empty() => *key = Some(word),
                (None, _) => return Verdict::Reject,
            },
        }
        Verdict::Continue
    }

    /// Stores a value that aliases may repeat, within the same limits as the built value.
    fn keep(&mut self, anchor: usize, draft: &Draft<'a>, before: Size) -> Result<(), Refusal> {
        if anchor == 0 {
            return Ok(());
        }
        let size = Size { values: self.size.values - before.values, bytes: self.size.bytes - before.bytes };
        grow(&mut self.kept, size)?;
        self.anchors.insert(anchor, (draft.clone(), size, depth(draft)));
        Ok(())
    }
}

fn grow(size: &mut Size, more: Size) -> Result<(), Refusal> {
    size.values += more.values;
    size.bytes += more.bytes;
    if size.values > MAX_VALUES {
        return Err(Refusal::TooManyValues(MAX_VALUES as u64));
    }
    if size.bytes > MAX_TEXT {
        return Err(Refusal::TooLarge(MAX_TEXT as u64));
    }
    Ok(())
}

/// Returns the nesting depth of a value.
fn depth(draft: &Draft<'_>) -> usize {
    match draft {
        Draft::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Draft::Map(members) => 1 + members.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// The parser keeps every token of an unclosed bracket, which takes some hundred bytes per byte of text.
const MAX_YAML: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<String> {
        read(text, None).unwrap().map(|members| Draft::Map(members).settle(None).to_json())
    }

    #[test]
    fn a_mapping_with_something_in_it_is_read() {
        for (text, expected) in [
            (
                "namespaces:\n  - default\n  - kube-system\nlabel: app=nginx",
                r#"{"namespaces":["default","kube-system"],"label":"app=nginx"}"#,
            ),
            ("selector:\n  app: nginx\n  env: prod", r#"{"selector":{"app":"nginx","env":"prod"}}"#),
            (
                "a: [1, 1.10, 007, true, ~, None, 'null', \"2\", -5]",
                r#"{"a":[1,1.10,"007",true,null,null,"null","2",-5]}"#,
            ),
            ("{a: {b: c}}", r#"{"a":{"b":"c"}}"#),
            ("a:\n- b\nc: |\n  x\n  y\nd: >-\n  x\n  y", r#"{"a":["b"],"c":"x\ny\n","d":"x y"}"#),
            ("a:\n  b:\nc: ''", r#"{"a":{"b":null},"c":""}"#),
            ("1: []\ntrue: {}\n~: x", r#"{"1":[],"true":{},"~":"x"}"#),
            ("a: [!!str 1, !x 2, !!int 3]", r#"{"a":["1",2,3]}"#),
            ("a: &x [1]\nb: *x\n<<: *x", r#"{"a":[1],"b":[1],"<<":[1]}"#),
            ("a: 1\na: [2]", r#"{"a":[2]}"#),
            ("---\na: [é]\n...", r#"{"a":["é"]}"#),
        ] {
            assert_eq!(json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_left_to_others() {
        for text in [
            "a: b",
            "- a\n- b",
            "just words",
            "a: 1, b: [2",
            "a: [1]\n---\nb: [2]",
            "? [a]\n: [b]",
            "? \n: [b]",
            "a: &x [*x]",
            "a: *x\nb: [1]",
            r#"query: up{a="b",c="d"}"#,
            "a: [1]\n\tb: 2",
            "a: \0 [1]",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
    }

    #[test]
    fn aliases_are_bounded_in_number_size_and_depth() {
        let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        let mut shouts = format!("a0: &a0 [{}]\n", "x".repeat(1000));
        let mut depths = format!("a0: &a0 {}{}\n", "[".repeat(100), "]".repeat(100));
        for n in 1..=30 {
            laughs += &format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(10));
            shouts += &format!("a{n}: &a{n} [*a{0},*a{0}]\n", n - 1);
            depths += &format!("a{n}: &a{n} {}*a{}{}\n", "[".repeat(100), n - 1, "]".repeat(100));
        }
        assert_eq!(read(&laughs, None).unwrap_err(), Refusal::TooManyValues(MAX_VALUES as u64));
        assert_eq!(read(&shouts, None).unwrap_err(), Refusal::TooLarge(MAX_TEXT as u64));
        assert_eq!(read(&depths, None).unwrap_err(), Refusal::TooDeep(MAX_DEPTH as u64));
    }

    #[test]
    fn hostile_texts_end() {
        let size = 1 << 14;
        for unit in
            ["[", "{", "- ", "? ", ": ", "a: &a b\n", "some words: and more\n", "a: [:,", "!", "&a ", "\0", "a: |\n"]
        {
            let text = format!("a:\n {}", unit.repeat(size / unit.len()));
            let _ = read(&text, None);
            let _ = read(&text[4..], None);
        }
        assert!(read(&format!("a: [{}]", "x,".repeat(MAX_YAML)), None).unwrap().is_none());
    }
}
