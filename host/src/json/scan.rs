//! Finds the members of an object without parsing their values, several times as fast as a parser.
//!
//! It handles only plainly written JSON. If it gives up, callers use the parser, so it reports no errors.

use std::ops::Range;

/// Calls `each` with the name of each member of an object and the range of its value. Returns `None` if the text is not
/// one plainly written object (no escapes in its names, at most 64 levels), or if `each` returns false.
pub(crate) fn members<'a>(text: &'a str, mut each: impl FnMut(&'a str, Range<usize>) -> bool) -> Option<()> {
    whole(text, |scanner| {
        scanner.object(|scanner, name| {
            let value = scanner.value()?;
            each(name, value).then_some(())
        })
    })
}

/// Scans a text that must be exactly one value.
pub(crate) fn whole<'a, T>(text: &'a str, read: impl FnOnce(&mut JsonScanner<'a>) -> Option<T>) -> Option<()> {
    let mut scanner = JsonScanner { text, bytes: text.as_bytes(), at: 0 };
    read(&mut scanner)?;
    scanner.skip_space();
    (scanner.at == scanner.bytes.len()).then_some(())
}

/// A position in a text. After a method returns `None`, the position is undefined.
pub(crate) struct JsonScanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> JsonScanner<'a> {
    /// Scans an object and returns its range; `each` gets each name and must scan its value.
    pub(crate) fn object(&mut self, mut each: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<Range<usize>> {
        self.skip_space();
        let start = self.at;
        self.take(b'{')?;
        self.skip_space();
        let mut more = self.peek()? != b'}';
        while more {
            let (name, escaped) = self.name()?;
            if escaped {
                return None;
            }
            each(self, &self.text[name])?;
            more = self.skip_comma()?;
        }
        self.take(b'}')?;
        Some(start..self.at)
    }

    /// Scans any value and returns its range.
    pub(crate) fn value(&mut self) -> Option<Range<usize>> {
        self.skip_space();
        let start = self.at;
        self.skip_value()?;
        Some(start..self.at)
    }

    /// Skips a comma and reports whether there was one.
    fn skip_comma(&mut self) -> Option<bool> {
        self.skip_space();
        let more = self.peek()? == b',';
        self.at += usize::from(more);
        self.skip_space();
        Some(more)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Scans a name and its colon; returns the range of the name without quotes, and whether it contains escapes.
    fn name(&mut self) -> Option<(Range<usize>, bool)> {
        let start = self.at + 1;
        let escaped = self.string()?;
        let name = start..self.at - 1;
        self.skip_space();
        self.take(b':')?;
        Some((name, escaped))
    }

    fn skip_value(&mut self) -> Option<()> {
        // One bit for each level; 1 means an object.
        let (mut levels, mut depth) = (0u64, 0);
        loop {
            self.skip_space();
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' if depth == u64::BITS => return None,
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    self.skip_space();
                    let is_object = open == b'{';
                    let close = if is_object { b'}' } else { b']' };
                    if self.peek()? == close {
                        self.at += 1;
                    } else {
                        (levels, depth) = (levels << 1 | u64::from(is_object), depth + 1);
                        if is_object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                _ => self.number()?,
            }
            // A value has ended, and maybe those around it.
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.skip_space();
                let is_object = levels & 1 == 1;
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if is_object {
                            self.skip_space();
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if is_object => {}
                    b']' if !is_object => {}
                    _ => return None,
                }
                self.at += 1;
                (levels, depth) = (levels >> 1, depth - 1);
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take(b'-');
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    /// Scans a string; returns whether it contains escapes.
    fn string(&mut self) -> Option<bool> {
        self.take(b'"')?;
        let mut escaped = false;
        loop {
            match self.skip_to_special()? {
                b'"' => {
                    self.at += 1;
                    return Some(escaped);
                }
                b'\\' => {
                    escaped = true;
                    let length = match self.bytes.get(self.at + 1)? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                        b'u' => {
                            let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                            digits.iter().all(u8::is_ascii_hexdigit).then_some(6)?
                        }
                        _ => return None,
                    };
                    self.at += length;
                }
                _ => return None,
            }
        }
    }

    /// Skips to the next special byte in a string: a quote, a backslash, or a control character.
    fn skip_to_special(&mut self) -> Option<u8> {
        while let Some(word) = self.bytes[self.at..].first_chunk() {
            let marks = marks(u64::from_le_bytes(*word));
            if marks != 0 {
                self.at += marks.trailing_zeros() as usize / 8;
                return self.peek();
            }
            self.at += 8;
        }
        self.at += self.bytes[self.at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '))?;
        self.peek()
    }
}

/// Reports whether JSON is nested deeper than so many levels. The parser does not mind: it reads what it skips without a
/// stack.
pub(crate) fn is_deeper_than(json: &str, most: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Marks the special bytes among eight. The lowest mark is exact; those above it may be false.
fn marks(word: u64) -> u64 {
    let same = |byte: u8| (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES);
    (word.wrapping_sub(ONES * 0x20) | same(b'"') | same(b'\\')) & !word & (ONES << 7)
}

/// A 1 in each byte.
const ONES: u64 = u64::MAX / 255;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    /// Returns what the parser finds in an object without duplicate names.
    fn parsed(text: &str) -> Option<Vec<(String, String)>> {
        let object: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        Some(object.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect())
    }

    fn skimmed(text: &str) -> Option<Vec<(String, String)>> {
        let mut found = BTreeMap::new();
        let whole = members(text, |name, place| found.insert(name.to_owned(), text[place].to_owned()).is_none());
        whole.map(|_| found.into_iter().collect())
    }

    #[test]
    fn what_is_written_plainly_is_found() {
        for text in [
            "{}",
            " { } \n",
            r#"{"a":1}"#,
            r#"{ "a" : -0.5e+7 , "b" : [ ] , "c" : { } , "d" : [ 1 , [ true , null ] , { "x" : "y" } ] }"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a\"b\\c\u00e9\n"}]}}"#,
            r#"{"":"","é":"é and more than eight bytes, and more than sixty-four of them in all, so that blocks are used too \" é"}"#,
        ] {
            assert!(skimmed(text).is_some(), "{text}");
            assert_eq!(skimmed(text), parsed(text), "{text}");
        }
    }

    #[test]
    fn anything_else_is_left_to_the_parser() {
        let deep = |levels: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        assert!(skimmed(&deep(64)).is_some());
        for text in [
            "",
            "1",
            "[]",
            "{",
            "}",
            "{}{}",
            "{} x",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1 "b":2}"#,
            "{a:1}",
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":1e}"#,
            r#"{"a":-}"#,
            r#"{"a":+1}"#,
            r#"{"a":nul}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[1}"#,
            r#"{"a":{"b":1]}"#,
            r#"{"a":{"b"}}"#,
            r#"{"a":{1:2}}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"a":"\u12"#,
            r#"{"a":"x"#,
            "{\"a\":\"\t\"}",
            "{\"a\":\"0123456789\n\"}",
            r#"{"\u0061":1}"#,
            r#"{"a":1,"a":2}"#,
        ] {
            assert_eq!(skimmed(text), None, "{text}");
        }
        assert_eq!(skimmed(&deep(65)), None);
    }

    #[test]
    fn depth_is_that_of_brackets_outside_strings() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[1,[2]],"b":{}}"#, 3),
            (r#"["[[[[", "\"[[", {"[{": "}]"}]"#, 2),
            (r#"[[],[],[[]],"\\"]"#, 3),
        ] {
            assert!(!is_deeper_than(json, depth) && (depth == 0 || is_deeper_than(json, depth - 1)), "{json}");
        }
        assert!(is_deeper_than(&"[".repeat(500_000), 256));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,90}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,12}", inner, 0..6).prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_it_finds_is_what_the_parser_finds(
            object in prop::collection::btree_map("[a-z]{0,5}|.{0,5}", json(), 0..5),
            pretty: bool,
            edit in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(b"\"\\{}[]:,0e.- \x01a".to_vec()))),
        ) {
            let object = Value::from_iter(object);
            let mut text = if pretty { format!("{object:#}") } else { object.to_string() };
            if let Some((place, byte)) = edit {
                let place = text.floor_char_boundary(place.index(text.len()));
                text.replace_range(place..text.ceil_char_boundary(place + 1), &char::from(byte).to_string());
            }
            match (skimmed(&text), parsed(&text)) {
                (Some(found), parsed) => prop_assert_eq!(Some(found), parsed, "{}", text),
                // It gives up on escaped names, and here on duplicate names.
                (None, Some(_)) => prop_assert!(text.contains('\\') || edit.is_some(), "{}", text),
                (None, None) => {}
            }
        }

        #[test]
        fn what_is_special_in_a_string_is_found(text in ".{0,200}", special in prop::sample::select(b"\"\\\n\x1f".to_vec())) {
            let plain: String = text.chars().filter(|char| !char.is_control() && !"\"\\".contains(*char)).collect();
            let whole = format!("{plain}{}{text}", char::from(special));
            let mut scanner = JsonScanner { text: &whole, bytes: whole.as_bytes(), at: 0 };
            prop_assert_eq!((scanner.skip_to_special(), scanner.at), (Some(special), plain.len()));
            let mut scanner = JsonScanner { text: &plain, bytes: plain.as_bytes(), at: 0 };
            prop_assert_eq!(scanner.skip_to_special(), None);
        }
    }
}
