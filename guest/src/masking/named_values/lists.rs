//! Names and values in lists and objects, in JSON, Python, TOML and YAML syntax.

use std::ops::Range;

use memchr::{memchr, memchr3};

use super::{MAX_NAME, MIN_VALUE, NAMES, NameRelation, NamedValue, VALUES, is_one_of, singular};
use crate::masking::Span;

/// Reports the entries, pairs and rows of a text, which need be neither JSON as a whole nor complete, given where words
/// of names are, in order.
pub(super) fn find(text: &str, words: &[usize], found: &mut Vec<NamedValue>) {
    let mut reader = Reader { text, all_words: words, words, frames: Vec::new(), found };
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if reader.frames.is_empty() {
            // Outside brackets there is nothing to find, and quotes mean nothing.
            let Some(open) = memchr3(b'{', b'[', b'(', &bytes[at..]) else { break };
            at += open;
        }
        let Some(sign) = bytes[at..].iter().position(|byte| IS_SIGN[usize::from(*byte)]) else { break };
        at += sign + 1;
        let byte = bytes[at - 1];
        match byte {
            b'"' | b'\'' if byte == b'"' || reader.follows(at - 1, b"{[(,:") => {
                if let Some(end) = string_end(bytes, at, byte) {
                    reader.push_string(at..end);
                    at = end + 1;
                }
            }
            b'{' => reader.open(Kind::Object, at),
            b'[' => reader.open(Kind::List, at),
            // A Python tuple is an item of a list; other parentheses belong to calls and prose.
            b'(' if reader.follows(at - 1, b"[,(") => reader.open(Kind::List, at),
            b'(' => reader.open(Kind::Other, at),
            b'}' => reader.close(Kind::Object, at),
            b']' | b')' => reader.close(Kind::List, at),
            b':' => reader.colon(at),
            b',' => reader.comma(at),
            b'0'..=b'9' => {
                let start = at - 1;
                at +=
                    bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(byte)).count();
                reader.push_scalar(Scalar { place: start..at, string: false, names: false, bare: false });
            }
            _ => {}
        }
    }
    while !reader.frames.is_empty() {
        // Use what was read before the text broke off.
        reader.comma(bytes.len() + 1);
        reader.pop(false);
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    Object,
    List,
    #[default]
    Other,
}

/// A string without its quotes, or a number.
#[derive(Clone)]
struct Scalar {
    place: Range<usize>,
    string: bool,
    /// Whether it is short and contains a word of names.
    names: bool,
    /// Whether it is a word without quotes, which may also be prose.
    bare: bool,
}

/// A list or an object in progress.
#[derive(Default)]
struct Frame {
    kind: Kind,
    /// The key of this list or object.
    key: Option<Range<usize>>,
    /// The last scalar, which is neither a key nor a value yet.
    last_scalar: Option<Scalar>,
    /// The key whose value follows.
    member: Option<Range<usize>>,
    /// The number of items, and the first of them.
    count: usize,
    items: Vec<Option<Scalar>>,
    /// The name of an entry.
    name: Option<Scalar>,
    /// The column names, for the lists inside this one.
    columns: Vec<Option<Scalar>>,
    /// Whether the last item was a list or object.
    nested: bool,
    /// Whether the values inside it may belong to a name around it: its own key, or that of an entry.
    gathers: bool,
    /// These values.
    values: Vec<Scalar>,
    /// The position of the item that is being read.
    item: usize,
}

struct Reader<'a> {
    text: &'a str,
    /// Where words of names are.
    all_words: &'a [usize],
    /// Where words of names are, from the last string on.
    words: &'a [usize],
    frames: Vec<Frame>,
    found: &'a mut Vec<NamedValue>,
}

impl Reader<'_> {
    /// Reports whether the last character before a place that is no blank is one of these: a single quote after them
    /// begins a string and is no apostrophe.
    fn follows(&self, at: usize, signs: &[u8]) -> bool {
        let before = &self.text[..at];
        match before.as_bytes().last() {
            Some(last) if last.is_ascii_alphanumeric() => false,
            _ => before.trim_end().bytes().next_back().is_some_and(|last| signs.contains(&last)),
        }
    }

    fn push_string(&mut self, place: Range<usize>) {
        let passed = self.words.iter().take_while(|word| **word < place.start).count();
        self.words = &self.words[passed..];
        let names = place.len() <= MAX_NAME && self.words.first().is_some_and(|word| *word < place.end);
        self.push_scalar(Scalar { place, string: true, names, bare: false });
    }

    fn push_scalar(&mut self, scalar: Scalar) {
        if let Some(frame) = self.frames.last_mut() {
            frame.last_scalar = Some(scalar);
        }
    }

    /// Begins the value of a member, whose name is before the colon that ends here.
    fn colon(&mut self, at: usize) {
        let text = self.text;
        if let Some(frame) = self.frames.last_mut().filter(|frame| frame.kind == Kind::Object) {
            let quoted = frame.last_scalar.take().map(|said| said.place);
            frame.member = quoted.or_else(|| name_before(text, at));
        }
    }

    /// Ends an item or a member, behind which the text goes on here.
    fn comma(&mut self, next: usize) {
        let text = self.text;
        let Some(frame) = self.frames.last_mut() else { return };
        let said = frame.last_scalar.take();
        let nested = std::mem::take(&mut frame.nested);
        let item = std::mem::replace(&mut frame.item, next);
        match frame.kind {
            Kind::Object => {
                let is = |member: &Range<usize>, words| is_one_of(&text[member.clone()], words);
                match (frame.member.take(), said) {
                    (Some(member), Some(said)) if is(&member, VALUES) => frame.values.push(said),
                    // A later name takes the place of an earlier one, whatever it is.
                    (Some(member), Some(said))
                        if said.string && (said.names || frame.name.is_some()) && is(&member, NAMES) =>
                    {
                        frame.name = Some(said);
                    }
                    _ => {}
                }
            }
            Kind::List => {
                if frame.gathers && !nested {
                    let bare = bare_item(text, item..(next - 1).min(text.len()));
                    let is_bare = said.as_ref().is_none_or(|said| !said.string) && bare.is_some();
                    let value = if is_bare { bare } else { said.clone() };
                    frame.values.extend(value.filter(|value| value.place.len() >= MIN_VALUE));
                }
                if said.is_some() || nested {
                    frame.count += 1;
                    if frame.items.len() < MAX_ITEMS {
                        frame.items.push(said);
                    }
                }
            }
            Kind::Other => {}
        }
    }

    fn open(&mut self, kind: Kind, at: usize) {
        if self.frames.len() == MAX_DEPTH {
            self.frames.clear();
        }
        let mut columns = Vec::new();
        let mut key = None;
        let mut gathers = false;
        if let Some(parent) = self.frames.last_mut() {
            parent.nested = true;
            key = parent.member.take();
            if let Some(key) = &key
                && is_one_of(&self.text[key.clone()], ROWS)
            {
                columns.clone_from(&parent.columns);
            }
            // The values of a list in a list, or under `value`, belong to the name that those around it belong to.
            gathers = match &key {
                Some(key) => is_one_of(&self.text[key.clone()], VALUES),
                None => parent.kind == Kind::List && parent.gathers,
            };
        }
        if key.is_none() && kind != Kind::Other {
            key = name_before(self.text, at - 1);
        }
        gathers |= key.as_ref().is_some_and(|key| self.may_name(key));
        self.frames.push(Frame { kind, key, columns, gathers, item: at, ..Frame::default() });
    }

    /// Reports whether a key is short and contains a word of names.
    fn may_name(&self, key: &Range<usize>) -> bool {
        let next = self.all_words.partition_point(|word| *word < key.start);
        key.len() <= MAX_NAME && self.all_words.get(next).is_some_and(|word| *word < key.end)
    }

    fn close(&mut self, kind: Kind, at: usize) {
        self.comma(at);
        // `[text](address)` is a link.
        if kind == Kind::List
            && self.text[at..].starts_with('(')
            && let Some(frame) = self.frames.last_mut()
        {
            frame.values.clear();
        }
        match self.frames.last() {
            Some(frame) if (frame.kind == Kind::Object) == (kind == Kind::Object) => self.pop(true),
            // Brackets that do not match are not a list.
            _ => self.frames.clear(),
        }
    }

    fn pop(&mut self, whole: bool) {
        let Some(mut frame) = self.frames.pop() else { return };
        self.report_values(&mut frame);
        if frame.kind == Kind::List && whole {
            self.list(frame);
        }
    }

    /// Reports the values inside a list or object for the name that is its key, or else hands them to what is around it.
    fn report_values(&mut self, frame: &mut Frame) {
        let values = std::mem::take(&mut frame.values);
        // What is under `value`, also in a list there, belongs to the name of the entry.
        if let (Kind::Object, Some(name)) = (frame.kind, &frame.name) {
            for value in &values {
                self.report(name, value, NameRelation::Entry);
            }
        }
        if !frame.gathers {
            return;
        }
        match &frame.key {
            Some(key) if self.may_name(key) => {
                let name = Scalar { place: key.clone(), string: true, names: true, bare: false };
                let one_of_many = singular(self.text, key).map(|place| Scalar { place, ..name.clone() });
                for value in &values {
                    let (one, many) = match value.bare {
                        true => (NameRelation::Below, NameRelation::Loose),
                        false => (NameRelation::Entry, NameRelation::Column),
                    };
                    self.report(&name, value, one);
                    if let Some(name) = &one_of_many {
                        self.report(name, value, many);
                    }
                }
            }
            _ => {
                if let Some(parent) = self.frames.last_mut() {
                    parent.values.extend(values);
                }
            }
        }
    }

    fn list(&mut self, frame: Frame) {
        let under = |words| frame.key.clone().is_some_and(|key| is_one_of(&self.text[key], words));
        if let [Some(name), Some(value)] = &frame.items[..]
            && frame.count == 2
            && value.string
            && !under(LISTS)
        {
            self.report(name, value, NameRelation::Loose);
        }
        let has_columns = under(COLUMNS);
        let Some(parent) = self.frames.last_mut() else { return };
        let is_header = match parent.kind {
            Kind::Object => has_columns,
            _ => parent.columns.is_empty() && parent.count == 0 && frame.count == frame.items.len(),
        };
        if is_header && parent.kind != Kind::Other {
            let names = frame.items.iter().flatten().any(|item| item.names);
            parent.columns = if names { frame.items } else { Vec::new() };
        } else if parent.kind == Kind::List
            && frame.count == frame.items.len()
            && parent.columns.len() == frame.items.len()
        {
            let columns = std::mem::take(&mut parent.columns);
            for (name, value) in columns.iter().zip(&frame.items) {
                if let (Some(name), Some(value)) = (name, value) {
                    self.report(name, value, NameRelation::Loose);
                }
            }
            if let Some(parent) = self.frames.last_mut() {
                parent.columns = columns;
            }
        }
    }

    fn report(&mut self, name: &Scalar, value: &Scalar, bond: NameRelation) {
        if !name.names || value.place.len() < MIN_VALUE {
            return;
        }
        let span = Span::new(value.place.start, value.place.end);
        // The mask for a number must be a string in quotes.
        let quoted = (!value.string).then_some(0);
        self.found.push(NamedValue { name: name.place.clone(), value: Span { quoted, ..span }, bond });
    }
}

/// Returns the name before a value: `password: [`, `password = [`, `"password": [`.
fn name_before(text: &str, value: usize) -> Option<Range<usize>> {
    let blanks = [' ', '\t'];
    let before = text[..value].trim_end_matches(blanks).strip_suffix([':', '='])?;
    let before = before.trim_end_matches(blanks).trim_end_matches(['"', '\'', '\\']);
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let length = before.bytes().rev().take(MAX_NAME + 1).take_while(|byte| is_of_name(byte)).count();
    (1..=MAX_NAME).contains(&length).then_some(before.len() - length..before.len())
}

/// Returns an item of a list that is written without quotes, as in YAML.
fn bare_item(text: &str, item: Range<usize>) -> Option<Scalar> {
    let said = text.get(item.clone())?;
    let start = item.start + said.len() - said.trim_start().len();
    let said = said.trim();
    let is_bare = !said.is_empty()
        && !said.contains(|c: char| c.is_whitespace() || "\"'`[]{}()<>".contains(c))
        && !matches!(said, "null" | "true" | "false")
        && !said.bytes().all(|byte| byte.is_ascii_digit() || b".+-eE".contains(&byte));
    is_bare.then(|| Scalar { place: start..start + said.len(), string: true, names: false, bare: true })
}

/// Returns the end of the string that begins here, or the end of the text if it is cut off. The end of a line or a break
/// before that means that it is no string.
fn string_end(bytes: &[u8], start: usize, quote: u8) -> Option<usize> {
    let mut at = start;
    while at < bytes.len() {
        let sign = memchr3(quote, b'\\', b'\n', &bytes[at..]).map_or(bytes.len(), |sign| at + sign);
        if memchr(0, &bytes[at..sign]).is_some() {
            return None;
        }
        match bytes.get(sign) {
            Some(b'\\') => at = sign + 2,
            Some(b'\n') => return None,
            _ => return Some(sign),
        }
    }
    Some(bytes.len())
}

/// The bytes that mean something in a list or object, by value.
const IS_SIGN: [bool; 256] = {
    let mut is_sign = [false; 256];
    let signs = b"\"'{}[](),:0123456789";
    let mut at = 0;
    while at < signs.len() {
        is_sign[signs[at] as usize] = true;
        at += 1;
    }
    is_sign
};

/// Keys of lists that contain names.
const LISTS: &[&str] = &[
    "required",
    "enum",
    "fields",
    "keys",
    "names",
    "headers",
    "types",
    "labels",
    "tags",
    "properties",
    "options",
    "columns",
    "order",
    "scopes",
    "include",
    "exclude",
    "ignore",
    "topics",
    "keywords",
];
const COLUMNS: &[&str] = &["columns", "fields", "header", "headers", "keys", "names"];
const ROWS: &[&str] = &["rows", "data", "values", "records", "items"];
const MAX_DEPTH: usize = 64;
const MAX_ITEMS: usize = 64;
