//! Values in elements of XML and HTML that a name belongs to: `<password>x</password>`, `<![CDATA[x]]>`,
//! `<entry key="password">x</entry>`, `<add name="password" value="x"/>`, `<key>password</key><string>x</string>`.

use std::ops::Range;

use memchr::{memchr, memrchr};

use super::{MAX_NAME, MIN_VALUE, NAMES, NameRelation, NamedValue, VALUES, is_one_of};
use crate::masking::Span;

/// Reports the values of elements, given where words of names are, in order.
pub(super) fn find(text: &str, words: &[usize], found: &mut Vec<NamedValue>) {
    let mut next = 0;
    for word in words {
        if *word < next {
            continue;
        }
        if let Some(tag) = tag_around(text, *word) {
            next = tag.end;
            of_tag(text, &tag, found);
        } else if let Some((name, after)) = name_in_element(text, *word) {
            next = after;
            // The value is in the next element.
            let blanks = text[after..].len() - text[after..].trim_start().len();
            if let Some(tag) = Tag::read(text, after + blanks)
                && (is_one_of(tag.local_name(text), VALUES) || is_one_of(tag.local_name(text), TEXTS))
            {
                contents(text, &tag, &name, found);
            }
        }
    }
}

/// Reports the values of a tag: its attributes, and what its element contains.
fn of_tag(text: &str, tag: &Tag, found: &mut Vec<NamedValue>) {
    let mut names = vec![tag.name.clone()];
    for (attribute, value) in &tag.attributes {
        if is_one_of(&text[attribute.clone()], NAMES) && value.len() <= MAX_NAME {
            names.push(value.clone());
        }
    }
    for name in names {
        for (attribute, value) in &tag.attributes {
            if is_one_of(&text[attribute.clone()], VALUES) {
                report(&name, value.clone(), found);
            }
        }
        contents(text, tag, &name, found);
    }
}

/// Reports the text of an element, and that of its members `value`.
fn contents(text: &str, tag: &Tag, name: &Range<usize>, found: &mut Vec<NamedValue>) {
    if tag.is_empty {
        return;
    }
    let mut at = tag.end;
    // Where the text begins that only an end tag makes a value: `<token>` may also be a word in prose.
    let mut plain = Some(at);
    while let Some(sign) = memchr(b'<', &text.as_bytes()[at..]) {
        let sign = at + sign;
        let rest = &text[sign..];
        if let Some(data) = rest.strip_prefix(CDATA) {
            let start = sign + CDATA.len();
            let data = near(data, 0, MAX_VALUE);
            let length = data.find("]]>").unwrap_or(data.len());
            report(name, start..start + length, found);
            at = (start + length + "]]>".len()).min(text.len());
            plain = None;
        } else if rest.starts_with("</") {
            let end = near(text, sign + "</".len(), MAX_NAME);
            let end = end.split('>').next().unwrap_or_default().trim_end();
            if let Some(start) = plain
                && end.rsplit(':').next() == Some(tag.local_name(text))
            {
                report(name, trimmed(text, start..sign), found);
            }
            return;
        } else {
            let Some(inner) = Tag::read(text, sign) else { return };
            let is_value = is_one_of(inner.local_name(text), VALUES) || is_one_of(inner.local_name(text), TEXTS);
            if !is_value || inner.is_empty {
                return;
            }
            let Some(length) = near(text, inner.end, MAX_VALUE).find("</") else { return };
            let close = inner.end + length;
            value_of(text, inner.end..close, name, found);
            let Some(length) = near(text, close, MAX_NAME).find('>') else { return };
            at = close + length + 1;
            plain = None;
        }
    }
}

/// Reports the text of a member `value`, which may be in a CDATA section.
fn value_of(text: &str, place: Range<usize>, name: &Range<usize>, found: &mut Vec<NamedValue>) {
    let place = trimmed(text, place);
    let said = &text[place.clone()];
    match said.strip_prefix(CDATA).map(|data| data.strip_suffix("]]>").unwrap_or(data)) {
        Some(data) => report(name, place.start + CDATA.len()..place.start + CDATA.len() + data.len(), found),
        None if !said.contains('<') => report(name, place, found),
        None => {}
    }
}

fn report(name: &Range<usize>, value: Range<usize>, found: &mut Vec<NamedValue>) {
    if value.len() >= MIN_VALUE {
        let value = Span::new(value.start, value.end);
        found.push(NamedValue { name: name.clone(), value, bond: NameRelation::Entry });
    }
}

/// Returns a range without the blanks at its ends.
fn trimmed(text: &str, place: Range<usize>) -> Range<usize> {
    let said = &text[place.clone()];
    let start = place.start + said.len() - said.trim_start().len();
    start..start + said.trim().len()
}

/// A start tag.
struct Tag {
    name: Range<usize>,
    /// The names and values of its attributes.
    attributes: Vec<(Range<usize>, Range<usize>)>,
    /// The position after its `>`.
    end: usize,
    /// Whether it ends its element too.
    is_empty: bool,
}

impl Tag {
    /// Reads the tag that begins here with `<`.
    fn read(text: &str, start: usize) -> Option<Tag> {
        let bytes = text.as_bytes();
        if bytes.get(start) != Some(&b'<') {
            return None;
        }
        let name = name_at(text, start + 1)?;
        let mut attributes = Vec::new();
        let mut at = name.end;
        while at < bytes.len() && at - start <= MAX_TAG {
            match bytes[at] {
                b'>' => {
                    // Without the prefix of a namespace.
                    let local = text[name.clone()].rfind(':').map_or(name.start, |colon| name.start + colon + 1);
                    let is_empty = bytes[at - 1] == b'/';
                    return Some(Tag { name: local..name.end, attributes, end: at + 1, is_empty });
                }
                b'<' => return None,
                _ => match attribute_at(text, at) {
                    Some((attribute, value)) => {
                        at = value.end + 1;
                        attributes.push((attribute, value));
                    }
                    None => at += 1,
                },
            }
        }
        None
    }

    fn local_name<'t>(&self, text: &'t str) -> &'t str {
        &text[self.name.clone()]
    }
}

/// Reads a name of an element or an attribute.
fn name_at(text: &str, start: usize) -> Option<Range<usize>> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
    let length = text.as_bytes()[start..].iter().take(MAX_NAME + 1).take_while(|byte| is_of_name(byte)).count();
    let begins = text.as_bytes().get(start).is_some_and(u8::is_ascii_alphabetic);
    (begins && length <= MAX_NAME).then_some(start..start + length)
}

/// Reads an attribute with its value, which is in quotes.
fn attribute_at(text: &str, start: usize) -> Option<(Range<usize>, Range<usize>)> {
    let bytes = text.as_bytes();
    if !bytes[start - 1].is_ascii_whitespace() {
        return None;
    }
    let name = name_at(text, start)?;
    let rest = text[name.end..].trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let value = text.len() - rest.len() + 1;
    let length = near(text, value, MAX_VALUE).find(quote)?;
    Some((name, value..value + length))
}

/// Returns the start tag that a word is in: in its name, or in an attribute.
fn tag_around(text: &str, word: usize) -> Option<Tag> {
    let from = word.saturating_sub(MAX_TAG);
    let start = from + memrchr(b'<', &text.as_bytes()[from..word])?;
    Tag::read(text, start).filter(|tag| word < tag.end)
}

/// Returns the name that an element like `<key>` contains, if a word is in it, and the end of the element.
fn name_in_element(text: &str, word: usize) -> Option<(Range<usize>, usize)> {
    let bytes = text.as_bytes();
    let from = word.saturating_sub(MAX_NAME);
    let start = from + memrchr(b'>', &bytes[from..word])? + 1;
    let from = start.saturating_sub(MAX_NAME);
    let tag = Tag::read(text, from + memrchr(b'<', &bytes[from..start])?)?;
    let close = start + near(text, start, MAX_NAME).find("</")?;
    let after = close + near(text, close, MAX_NAME).find('>')? + 1;
    (tag.end == start && is_one_of(tag.local_name(text), NAMES)).then(|| (trimmed(text, start..close), after))
}

/// Returns the beginning of the rest of a text.
fn near(text: &str, from: usize, most: usize) -> &str {
    &text[from..text.floor_char_boundary(from + most)]
}

const CDATA: &str = "<![CDATA[";
/// Elements that contain a value of some kind.
const TEXTS: &[&str] = &["string", "text", "item", "element", "li", "entry", "data"];
/// The longest tag that is read.
const MAX_TAG: usize = 512;
/// The longest value in an attribute, a member or a CDATA section.
const MAX_VALUE: usize = 8192;
