//! Finds the members of an object without reading them, several times as fast as a parser that may have to read them.
//!
//! It knows what is written plainly, and nothing else: whoever asks turns to the parser where it gives up, and so it need not
//! say what is wrong with a text.

use std::ops::Range;

/// Tells of each member of an object its name and where its value is. False where the text is anything but one whole object
/// that is written plainly (no escapes in its own names, no more than 64 levels), or where somebody has heard enough.
pub fn members<'a>(text: &'a str, mut each: impl FnMut(&'a str, Range<usize>) -> bool) -> bool {
    whole(text, |skim| {
        skim.object(|skim, name| {
            let value = skim.value()?;
            each(name, value).then_some(())
        })
    })
    .is_some()
}

/// Goes through a text that is one value from its first byte to its last.
pub fn whole<'a, T>(text: &'a str, read: impl FnOnce(&mut Skim<'a>) -> Option<T>) -> Option<T> {
    let mut skim = Skim { text, bytes: text.as_bytes(), at: 0 };
    let read = read(&mut skim)?;
    skim.space();
    (skim.at == skim.bytes.len()).then_some(read)
}

/// A place in a text. Whatever it gives up on is `None`, and then it is nowhere in particular.
pub struct Skim<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Skim<'a> {
    /// Goes through an object; what is called with each name goes through its value.
    pub fn object(&mut self, mut each: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.space();
        self.take(b'{')?;
        self.space();
        let mut more = self.peek()? != b'}';
        while more {
            let name = &self.text[self.name()?];
            if name.contains('\\') {
                return None;
            }
            each(self, name)?;
            more = self.goes_on()?;
        }
        self.take(b'}')
    }

    /// Goes through a list; what is called goes through each element.
    pub fn list(&mut self, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        self.take(b'[')?;
        self.space();
        let mut more = self.peek()? != b']';
        while more {
            each(self)?;
            more = self.goes_on()?;
        }
        self.take(b']')
    }

    /// Goes through any value, and says where it is.
    pub fn value(&mut self) -> Option<Range<usize>> {
        self.space();
        let start = self.at;
        self.pass()?;
        Some(start..self.at)
    }

    /// Whether a comma follows, and so another one.
    fn goes_on(&mut self) -> Option<bool> {
        self.space();
        let more = self.peek()? == b',';
        self.at += usize::from(more);
        self.space();
        Some(more)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// A name and its colon; says where the name is, without its quotes.
    fn name(&mut self) -> Option<Range<usize>> {
        let start = self.at + 1;
        self.string()?;
        let name = start..self.at - 1;
        self.space();
        self.take(b':')?;
        Some(name)
    }

    fn pass(&mut self) -> Option<()> {
        // A bit for each level: objects are ones.
        let (mut levels, mut depth) = (0u64, 0);
        loop {
            self.space();
            match self.peek()? {
                b'"' => self.string()?,
                b'{' | b'[' if depth == u64::BITS => return None,
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    self.space();
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
            // A value has ended; what is around it may have, too.
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.space();
                let is_object = levels & 1 == 1;
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if is_object {
                            self.space();
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

    fn string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            self.at += plain(&self.bytes[self.at..]);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => {
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
}

/// How many bytes of a string come before one that means something: a quote, a backslash, a character that must not be there.
fn plain(bytes: &[u8]) -> usize {
    let special = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    // Blocks are looked at without a way out in between, so that many bytes are looked at at once.
    let blocks = bytes.chunks_exact(BLOCK);
    let ahead = blocks.take_while(|block| !block.iter().fold(false, |any, byte| any | special(*byte))).count() * BLOCK;
    let (words, rest) = bytes[ahead..].as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let same = |byte: u8| (word ^ ONES * u64::from(byte)).wrapping_sub(ONES);
        // The lowest mark is at the first such byte; above it there may be false ones.
        let marks = (word.wrapping_sub(ONES * 0x20) | same(b'"') | same(b'\\')) & !word & (ONES << 7);
        if marks != 0 {
            return ahead + place * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let rest_place = bytes.len() - rest.len();
    rest_place + rest.iter().position(|byte| special(*byte)).unwrap_or(rest.len())
}

/// Few strings are longer, and those are mostly much longer.
const BLOCK: usize = 64;
/// A one in each byte.
const ONES: u64 = u64::MAX / 255;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    /// What the parser finds, where it finds an object without doubled names.
    fn parsed(text: &str) -> Option<Vec<(String, String)>> {
        let object: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        Some(object.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect())
    }

    fn skimmed(text: &str) -> Option<Vec<(String, String)>> {
        let mut found = BTreeMap::new();
        let whole = members(text, |name, place| found.insert(name.to_owned(), text[place].to_owned()).is_none());
        whole.then(|| found.into_iter().collect())
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
                prop::collection::btree_map(".{0,12}", inner, 0..6).prop_map(|map| Value::from_iter(map)),
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
                // It gives up where a name has an escape, and where it is told of one twice.
                (None, Some(_)) => prop_assert!(text.contains('\\') || edit.is_some(), "{}", text),
                (None, None) => {}
            }
        }

        #[test]
        fn plain_bytes_are_counted_to_the_first_that_is_not(text in ".{0,200}", special in prop::sample::select(b"\"\\\n\x1f".to_vec())) {
            let plain_text: String = text.chars().filter(|char| !char.is_control() && !"\"\\".contains(*char)).collect();
            let whole = format!("{plain_text}{}{text}", char::from(special));
            prop_assert_eq!(plain(whole.as_bytes()), plain_text.len());
            prop_assert_eq!(plain(plain_text.as_bytes()), plain_text.len());
        }
    }
}
