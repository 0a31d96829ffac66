//! Reads slightly broken JSON, as models write it, and notes each repair.

use super::Refusal;
use crate::json::{self, MAX_DEPTH, MAX_VALUES, Object, Repeated, Value};
use std::borrow::Cow;

/// A value that was read with repairs.
#[derive(Debug)]
pub(crate) struct Repaired<'a> {
    pub value: Value<'a>,
    /// The repairs that were needed.
    pub notes: Vec<&'static str>,
    /// A key that an object has more than once.
    pub repeated: Option<Repeated>,
}

/// How far a text that begins like an object is one.
#[derive(Debug)]
pub(crate) enum Begun<'a> {
    /// The object is complete, and this byte is the first one after it.
    Complete(Repaired<'a>, usize),
    /// The text ends inside the object.
    CutOff,
    /// The object is no JSON from this byte on.
    Broken(usize),
}

/// Reads a text that begins like an object or a list; returns `None` if repairs do not make it JSON.
pub(crate) fn read(text: &str) -> Result<Option<Repaired<'_>>, Refusal> {
    if !text.starts_with(['{', '[']) {
        return Ok(None);
    }
    match begun(text)? {
        Begun::Complete(repaired, end) if end == text.len() => Ok(Some(repaired)),
        _ => Ok(None),
    }
}

/// Reads the object or list at the start of a text as far as it goes.
pub(crate) fn begun(text: &str) -> Result<Begun<'_>, Refusal> {
    let mut reader = Reader::new(text);
    let value = match reader.value(0, false) {
        Ok(value) => value,
        Err(Stop::Limit(refusal)) => return Err(refusal),
        Err(Stop::NotJson) if text[reader.at..].trim().is_empty() => return Ok(Begun::CutOff),
        Err(Stop::NotJson) => return Ok(Begun::Broken(reader.at)),
    };
    reader.skip_closers();
    let notes = NOTES.iter().zip(reader.repairs).filter(|(_, made)| *made).map(|(note, _)| *note).collect();
    Ok(Begun::Complete(Repaired { value, notes, repeated: reader.repeated }, reader.at))
}

/// A value at the start of a text, with the number of bytes that it takes and a key that an object has more than once.
pub(crate) type Prefix<'a> = (Value<'a>, usize, Option<Repeated>);

/// Reads the value of a member at the start of a text; returns it, or the number of bytes that were read in vain.
pub(crate) fn prefix(text: &str) -> Result<Result<Prefix<'_>, usize>, Refusal> {
    let mut reader = Reader::new(text);
    match reader.value(0, true) {
        Ok(value) => Ok(Ok((value, reader.at, reader.repeated))),
        Err(Stop::Limit(refusal)) => Err(refusal),
        Err(Stop::NotJson) => Ok(Err(reader.at)),
    }
}

/// The repairs, in the order of [`NOTES`].
#[derive(Clone, Copy)]
enum Repair {
    Comments,
    Quotes,
    BareKeys,
    BareWords,
    Python,
    ControlCharacters,
    Escapes,
    TrailingCommas,
    MissingCommas,
    ExtraBrackets,
}

/// The note for each repair.
const NOTES: [&str; 10] = [
    "removed comments",
    "replaced single or typographic quotes by double quotes",
    "put bare keys into quotes",
    "put bare words into quotes",
    "replaced True, False or None by their JSON words",
    "escaped raw newlines or control characters in strings",
    "kept backslashes that escape nothing",
    "removed trailing commas",
    "added missing commas between lines",
    "removed closing brackets that close nothing",
];

/// The reason why reading stops.
enum Stop {
    /// Repairs do not make this JSON.
    NotJson,
    /// The text exceeds a limit.
    Limit(Refusal),
}

type Read<T> = Result<T, Stop>;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
    repairs: [bool; NOTES.len()],
    repeated: Option<Repeated>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Reader { text, at: 0, values: 0, repairs: [false; NOTES.len()], repeated: None }
    }

    fn value(&mut self, depth: usize, is_member: bool) -> Read<Value<'a>> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(Stop::Limit(Refusal::TooManyValues(MAX_VALUES as u64)));
        }
        match self.peek() {
            Some('{' | '[') if depth == MAX_DEPTH => Err(Stop::Limit(Refusal::TooDeep(MAX_DEPTH as u64))),
            Some('{') => self.object(depth + 1),
            Some('[') => self.array(depth + 1),
            Some(quote) if closers(quote).is_some() => Ok(Value::String(self.string()?)),
            Some(_) => self.word(is_member),
            None => Err(Stop::NotJson),
        }
    }

    fn object(&mut self, depth: usize) -> Read<Value<'a>> {
        self.at += 1;
        let mut members: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
        while self.entry('}', members.is_empty())? {
            let key = self.key()?;
            self.blanks();
            if !self.accept(':') {
                return Err(Stop::NotJson);
            }
            self.blanks();
            let value = self.value(depth, true)?;
            members.push((key, value));
        }
        Ok(Value::Object(Object::united(members, &mut self.repeated)))
    }

    fn array(&mut self, depth: usize) -> Read<Value<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        while self.entry(']', items.is_empty())? {
            items.push(self.value(depth, false)?);
        }
        Ok(Value::Array(items))
    }

    /// Moves to the next member or item; returns false at the end, after the closing bracket.
    fn entry(&mut self, closer: char, is_first: bool) -> Read<bool> {
        let new_line = self.blanks();
        let comma = !is_first && self.accept(',');
        if comma {
            self.blanks();
        }
        if self.accept(closer) {
            self.note_if(comma, Repair::TrailingCommas);
            return Ok(false);
        }
        if !is_first && !comma {
            if !new_line {
                return Err(Stop::NotJson);
            }
            self.note(Repair::MissingCommas);
        }
        Ok(true)
    }

    fn key(&mut self) -> Read<Cow<'a, str>> {
        if self.peek().and_then(closers).is_some() {
            return self.string();
        }
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$' | '-' | '.');
        let rest = &self.text[self.at..];
        let key = &rest[..rest.find(|letter| !is_bare(letter)).unwrap_or(rest.len())];
        if key.is_empty() {
            return Err(Stop::NotJson);
        }
        self.at += key.len();
        self.note(Repair::BareKeys);
        Ok(key.into())
    }

    /// Reads a bare word, up to a comma, a bracket, a comment or the end of the line.
    fn word(&mut self, is_member: bool) -> Read<Value<'a>> {
        let rest = &self.text[self.at..];
        let mut before = ' ';
        let end = rest.char_indices().find(|&(at, letter)| {
            let comment = letter == '#' && before.is_whitespace() || starts_comment(&rest[at..]);
            before = letter;
            comment || matches!(letter, ',' | '{' | '}' | '[' | ']' | '\n' | '\r')
        });
        let word = rest[..end.map_or(rest.len(), |(at, _)| at)].trim_end();
        self.at += word.len();
        Ok(match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            "True" | "False" | "None" => {
                self.note(Repair::Python);
                if word == "None" { Value::Null } else { Value::Bool(word == "True") }
            }
            word if json::is_number(word) => Value::Number(word.into()),
            // In a list, a bare word could be part of a regular expression or a link.
            word if is_member && is_plain(word) => {
                self.note(Repair::BareWords);
                Value::string(word)
            }
            _ => return Err(Stop::NotJson),
        })
    }

    /// Reads a string in any quotes: rewrites it as a JSON string and parses that.
    fn string(&mut self) -> Read<Cow<'a, str>> {
        let Some((quote, closing)) = self.peek().and_then(|quote| Some((quote, closers(quote)?))) else {
            return Err(Stop::NotJson);
        };
        self.note_if(quote != '"', Repair::Quotes);
        self.at += quote.len_utf8();
        let mut mended = String::from('"');
        loop {
            let rest = &self.text[self.at..];
            let plain =
                rest.find(|letter: char| letter < ' ' || matches!(letter, '"' | '\\') || closing.contains(letter));
            let plain = plain.unwrap_or(rest.len());
            mended.push_str(&rest[..plain]);
            self.at += plain;
            // Do not close a text that breaks off: half a path or half a query would be sent as if it were whole.
            let Some(letter) = self.peek() else { return Err(Stop::NotJson) };
            self.at += letter.len_utf8();
            if closing.contains(letter) && (letter == '"' || self.closes_here()) {
                break;
            }
            match letter {
                '\\' => self.escape(&mut mended),
                '"' => mended.push_str("\\\""),
                letter if letter < ' ' => {
                    self.note(Repair::ControlCharacters);
                    match letter {
                        '\n' => mended.push_str("\\n"),
                        control => mended.push_str(&format!("\\u{:04x}", control as u32)),
                    }
                }
                letter => mended.push(letter),
            }
        }
        mended.push('"');
        match json::parse(&mended) {
            Ok(Value::String(text)) => Ok(Cow::Owned(text.into_owned())),
            _ => Err(Stop::NotJson),
        }
    }

    /// Rewrites an escape sequence after its backslash.
    fn escape(&mut self, mended: &mut String) {
        let rest = &self.text.as_bytes()[self.at..];
        let length = match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 1,
            [b'u', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) => 5,
            // Python and JavaScript escape these; JSON does not.
            [b'\'' | b'`', ..] => {
                mended.push(char::from(rest[0]));
                self.at += 1;
                return;
            }
            [] => 0,
            _ => {
                self.note(Repair::Escapes);
                mended.push_str("\\\\");
                return;
            }
        };
        if length > 0 {
            mended.push('\\');
            mended.push_str(&self.text[self.at..self.at + length]);
            self.at += length;
        }
    }

    /// Reports whether the single quote just read closes its string; the one in `'don't'` does not.
    fn closes_here(&self) -> bool {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t']);
        rest.is_empty() || rest.starts_with([',', ':', '}', ']', '\n', '\r', '#']) || starts_comment(rest)
    }

    /// Skips blanks and comments; returns true if they contain a line break.
    fn blanks(&mut self) -> bool {
        let start = self.at;
        loop {
            let rest = &self.text[self.at..];
            let bare = rest.trim_start();
            self.at += rest.len() - bare.len();
            let length = if bare.starts_with("/*") {
                bare.find("*/").map(|at| at + 2)
            } else if bare.starts_with("//") || bare.starts_with('#') {
                bare.find('\n')
            } else {
                return self.text[start..self.at].contains('\n');
            };
            self.note(Repair::Comments);
            self.at += length.unwrap_or(bare.len());
        }
    }

    /// Skips extra closing brackets at the end of the text.
    fn skip_closers(&mut self) {
        self.blanks();
        while self.accept('}') || self.accept(']') {
            self.note(Repair::ExtraBrackets);
            self.blanks();
        }
    }

    fn accept(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(letter);
        if found {
            self.at += letter.len_utf8();
        }
        found
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn note(&mut self, repair: Repair) {
        self.repairs[repair as usize] = true;
    }

    fn note_if(&mut self, made: bool, repair: Repair) {
        self.repairs[repair as usize] |= made;
    }
}

/// Returns the quotes that close this opening quote.
pub(super) fn closers(quote: char) -> Option<&'static str> {
    Some(match quote {
        '"' => "\"",
        '\'' => "'",
        '`' => "`",
        '“' | '”' | '„' => "“”",
        '‘' | '’' | '‚' => "‘’",
        _ => return None,
    })
}

fn starts_comment(text: &str) -> bool {
    text.starts_with("//") || text.starts_with("/*")
}

/// Reports whether a bare word is plain: it begins with a letter and contains no syntax.
fn is_plain(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
        && !word.contains(['"', '\'', '`', ':', '=', '(', ')', '<', '>', '\\', '“', '”', '‘', '’'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(text: &str) -> Option<(String, Vec<&'static str>)> {
        read(text).ok().flatten().map(|read| (read.value.to_json(), read.notes))
    }

    #[test]
    fn each_repair_is_made_and_named() {
        use Repair::*;
        let rows: &[(&str, &str, &[Repair])] = &[
            (r#"{"a":1}"#, r#"{"a":1}"#, &[]),
            (r#"{"a":[1,2,],}"#, r#"{"a":[1,2]}"#, &[TrailingCommas]),
            (r#"{'a': 'it\'s "b"'}"#, r#"{"a":"it's \"b\""}"#, &[Quotes]),
            ("{'a': 'don't', 'b': 'c'}", r#"{"a":"don't","b":"c"}"#, &[Quotes]),
            ("{“a”: „b”, ‘c’: `d`}", r#"{"a":"b","c":"d"}"#, &[Quotes]),
            (r#"{"a":True,"b":False,"c":[None]}"#, r#"{"a":true,"b":false,"c":[null]}"#, &[Python]),
            ("{\"a\":1, // one\n/* two */ \"b\":2 # three\n}", r#"{"a":1,"b":2}"#, &[Comments]),
            ("{\"a\": 1 /* x */, \"b\": true// y\n}", r#"{"a":1,"b":true}"#, &[Comments]),
            (r#"{a: 1, b-c.d: 2, $e: 3, 4: 5}"#, r#"{"a":1,"b-c.d":2,"$e":3,"4":5}"#, &[BareKeys]),
            ("{\"a\": default ns, \"b\": x}", r#"{"a":"default ns","b":"x"}"#, &[BareWords]),
            ("{\"a\":\"x\ny\tz\u{1}\"}", r#"{"a":"x\ny\tz\u0001"}"#, &[ControlCharacters]),
            (r#"{"a":"\d+\u12 C:\Users \u0041"}"#, r#"{"a":"\\d+\\u12 C:\\Users A"}"#, &[Escapes]),
            ("{\"a\":1\n\"b\":[1\n2]}", r#"{"a":1,"b":[1,2]}"#, &[MissingCommas]),
            (r#"{"a":1}}]"#, r#"{"a":1}"#, &[ExtraBrackets]),
            ("['a', 'b']", r#"["a","b"]"#, &[Quotes]),
            (r#"{"a":12345678901234567890.10,}"#, r#"{"a":12345678901234567890.10}"#, &[TrailingCommas]),
            (r#"{"a":"\ud83d\ude00\ud800",}"#, "{\"a\":\"😀\u{fffd}\"}", &[TrailingCommas]),
        ];
        for (text, json, repairs) in rows {
            let notes = repairs.iter().map(|repair| NOTES[*repair as usize]).collect();
            assert_eq!(mended(text), Some((json.to_string(), notes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_object_or_list_is_not_made_one() {
        for text in [
            "{",
            "[",
            "{ \"a",
            r#"{"a":[1,{"b":"c"#,
            r#"{"path":"/data"#,
            r#"{"a":1,"b":"#,
            r#"{"a":1,"#,
            r#"{"a":1 /* x"#,
            r#"[NaN]"#,
            "{not json",
            "{'a', 'b'}",
            "{{ template }}",
            r#"{app="nginx"}"#,
            "[link](http://x)",
            "[a-z]",
            "[INFO] started",
            "[1] see below",
            "{\"a\": }",
            "{\"a\" \"b\"}",
            "{\"a\": 1 \"b\": 2}",
            "{\"a\": 1 2}",
            "{,}",
            "[,1]",
            "{\"a\":1} and more",
            "{url: http://x}",
            "{\"a\": 0x1F}",
            "text",
        ] {
            assert_eq!(mended(text), None, "{text}");
        }
    }

    #[test]
    fn limits_hold() {
        assert_eq!(read(&"[\n".repeat(100_000)).unwrap_err(), Refusal::TooDeep(MAX_DEPTH as u64));
        assert_eq!(read(&"{a:".repeat(100_000)).unwrap_err(), Refusal::TooDeep(MAX_DEPTH as u64));
        let many = format!("[{}]", "0,".repeat(MAX_VALUES));
        assert_eq!(read(&many).unwrap_err(), Refusal::TooManyValues(MAX_VALUES as u64));
        for unit in ["'", "' ", "\"", "\\", "//\n", "/*", "#", "{'a", "“", "a:", "[',"] {
            let _ = read(&format!("[{}", unit.repeat(20_000)));
            let _ = read(&format!("{{'a':{}", unit.repeat(20_000)));
        }
    }
}
