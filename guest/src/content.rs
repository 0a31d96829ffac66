//! The text of a result, cut to a size limit.

use std::borrow::Cow;
use std::fmt;

use crate::json::{self, Object, Value};
use crate::masking;

/// The maximum size of a result in bytes.
pub const MAX_RESULT: usize = 32 << 20;

/// The approximate number of bytes per token.
pub const BYTES_PER_TOKEN: usize = 4;

/// The parts of a `tools/call` result.
#[derive(Clone, Debug, PartialEq)]
pub struct Extracted<'a> {
    /// The text; each block that is not text becomes one line.
    pub text: String,
    /// How many bytes at the start of the text are the structured content, as JSON.
    pub told: usize,
    /// The content blocks.
    pub blocks: Vec<Value<'a>>,
    /// The structured content.
    pub structured: Option<Value<'a>>,
    /// The tool reports that it failed.
    pub is_error: bool,
    /// All other members of the result.
    pub rest: Object<'a>,
}

impl Extracted<'_> {
    /// Returns the size of the text with the texts of embedded resources.
    pub fn size(&self) -> usize {
        self.text.len() + embedded_texts(&self.blocks).map(str::len).sum::<usize>()
    }
}

/// The reason why a result cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The result is not JSON, or not an object.
    Malformed(String),
    /// More bytes than this.
    TooLarge(u64),
    /// More JSON values than this.
    TooManyValues(u64),
    /// Nested deeper than this many levels.
    TooDeep(u64),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed(why) => write!(f, "the result is malformed: {why}"),
            Unreadable::TooLarge(limit) => write!(f, "the result is larger than {limit} bytes"),
            Unreadable::TooManyValues(limit) => write!(f, "the result has more than {limit} JSON values"),
            Unreadable::TooDeep(limit) => write!(f, "the result is nested deeper than {limit} levels"),
        }
    }
}

/// Reads the `result` member of a response to `tools/call`.
pub fn extract(result: &str) -> Result<Extracted<'_>, Unreadable> {
    if result.len() > MAX_RESULT {
        return Err(Unreadable::TooLarge(MAX_RESULT as u64));
    }
    let value = json::parse(result).map_err(|error| match error {
        json::Error::TooManyValues => Unreadable::TooManyValues(json::MAX_VALUES as u64),
        json::Error::TooDeep => Unreadable::TooDeep(json::MAX_DEPTH as u64),
        syntax => Unreadable::Malformed(syntax.to_string()),
    })?;
    let Value::Object(mut rest) = value else {
        return Err(Unreadable::Malformed(format!("expected an object, found {}", value.kind())));
    };
    if let Some(kind) = rest.get("resultType").filter(|kind| kind.as_str() != Some("complete")) {
        return Err(Unreadable::Malformed(format!("expected a complete result, found resultType {}", kind.to_json())));
    }
    let blocks = match rest.remove("content") {
        Some(Value::Array(blocks)) => blocks,
        None => Vec::new(),
        Some(other) => {
            return Err(Unreadable::Malformed(format!("expected a list as \"content\", found {}", other.kind())));
        }
    };
    let structured = rest.remove("structuredContent").filter(|value| *value != Value::Null);
    let is_error = rest.remove("isError").and_then(|value| value.as_bool()).unwrap_or(false);
    let (text, told) = text_of(&blocks, structured.as_ref());
    Ok(Extracted { text, told, blocks, structured, is_error, rest })
}

/// Returns the text, and how many of its bytes are the structured content.
fn text_of(blocks: &[Value<'_>], structured: Option<&Value<'_>>) -> (String, usize) {
    let spoken = |block: &Value<'_>| is_text(block) && block.get("text").and_then(Value::as_str) != Some("");
    // Use the structured content only if there is no text.
    let structured = structured.filter(|_| !blocks.iter().any(spoken));
    let silent = |block: &&Value<'_>| structured.is_some() && is_text(block);
    let mut text = structured.map_or_else(String::new, Value::to_json);
    let told = text.len();
    for (n, block) in blocks.iter().filter(|block| !silent(block)).enumerate() {
        if n > 0 || structured.is_some() {
            text.push('\n');
        }
        text.push_str(&line_of(block));
    }
    (text, told)
}

/// Reports whether a block is text.
pub fn is_text(block: &Value<'_>) -> bool {
    block.get("type").and_then(Value::as_str) == Some("text") && block.get("text").and_then(Value::as_str).is_some()
}

/// Returns the text of an embedded resource; its line in the text of the result only names it.
pub fn embedded_text<'v>(block: &'v Value<'_>) -> Option<&'v str> {
    let is_resource = block.get("type").and_then(Value::as_str) == Some("resource");
    block.get("resource").filter(|_| is_resource)?.get("text")?.as_str()
}

/// Returns the texts of all embedded resources.
pub fn embedded_texts<'v>(blocks: &'v [Value<'_>]) -> impl Iterator<Item = &'v str> {
    blocks.iter().filter_map(embedded_text)
}

/// Returns the text of a text block, or a line that stands for another block.
fn line_of<'v>(block: &'v Value<'_>) -> Cow<'v, str> {
    if let Some(text) = block.get("text").and_then(Value::as_str).filter(|_| is_text(block)) {
        return text.into();
    }
    let word = |value: &Value<'_>, key| value.get(key).and_then(Value::as_str).map(one_line);
    let kind = word(block, "type").unwrap_or_else(|| "unknown".to_owned());
    let line = match kind.as_str() {
        "image" | "audio" => {
            let mime = word(block, "mimeType").unwrap_or_else(|| "of unknown type".to_owned());
            let size = block.get("data").and_then(Value::as_str).map_or(0, decoded_len);
            format!("[{kind} {mime}, {}]", size_of(size, " "))
        }
        "resource" | "resource_link" => {
            let uri = word(block, "uri").or_else(|| word(block.get("resource")?, "uri"));
            format!("[resource {}]", uri.unwrap_or_else(|| "without uri".to_owned()))
        }
        _ => format!("[{kind}]"),
    };
    line.into()
}

/// Replaces control characters, so that a server's word cannot break the line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Returns the number of bytes that a base64 text decodes to.
fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|byte| *byte == b'=').count();
    (base64.len() * 3 / 4).saturating_sub(padding)
}

/// Reports whether a text is longer than the limit; zero means no limit.
pub fn is_longer(text: &str, max_bytes: u64) -> bool {
    max_bytes > 0 && text.len() as u64 > max_bytes
}

/// Cuts the text at a line end and appends a note; zero means no limit.
pub fn truncate(text: &str, max_bytes: u64, why: &str) -> String {
    match is_longer(text, max_bytes) {
        true => cut_to(text, max_bytes as usize, why),
        false => text.to_owned(),
    }
}

/// Cuts a text that is longer than `max`, and appends a note.
pub fn cut_to(text: &str, max: usize, why: &str) -> String {
    let (size, limit) = (size_of(text.len(), ""), size_of(max, ""));
    format!("{}\n\n[TRUNCATED: {why} — Original size: {size}, limit: {limit}]", kept(text, max))
}

/// Returns the part of a long text to keep: whole lines, or whole characters and masks if the first line is too long.
fn kept(text: &str, max: usize) -> &str {
    if text.as_bytes()[max] == b'\n' {
        return &text[..max];
    }
    let end = (0..=max).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let line_end = text[..end].rfind('\n').filter(|&at| at > 0);
    // No mask has a line break.
    &text[..line_end.unwrap_or_else(|| before_mask(text, end))]
}

/// Returns the beginning of the mask that a cut at this place would split, or else the place.
fn before_mask(text: &str, cut: usize) -> usize {
    let near = text.floor_char_boundary(cut.saturating_sub(MAX_MASK));
    for (at, _) in text[near..cut].match_indices('[') {
        let start = near + at;
        if masking::mask_length(&text[start..]).is_some_and(|length| start + length > cut) {
            return start;
        }
    }
    cut
}

/// No text of a built-in mask is longer.
const MAX_MASK: usize = 128;

/// Returns the line below a summary, which tells the size of the original text.
pub fn summarized(size: usize) -> String {
    format!("[SUMMARIZED — Original size: {}]", size_of(size, ""))
}

fn size_of(bytes: usize, space: &str) -> String {
    match bytes {
        0..1024 => format!("{bytes}{space}B"),
        1024..1_048_576 => format!("{}{space}KB", bytes / 1024),
        _ => format!("{}{space}MB", bytes / 1_048_576),
    }
}

/// Estimates the number of tokens in a text of this many bytes.
pub fn estimate_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_joined_and_everything_else_leaves_a_line() {
        for (result, expected) in [
            (r#"{"content":[]}"#, ""),
            ("{}", ""),
            (r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, "a\nb"),
            (
                r#"{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
                "a\n[image image/png, 3 B]",
            ),
            (r#"{"content":[{"type":"resource_link","uri":"file:///x"}]}"#, "[resource file:///x]"),
            (
                r#"{"content":[{"type":"resource","resource":{"uri":"file:///y\nz","text":"t"}}]}"#,
                "[resource file:///y z]",
            ),
            (r#"{"content":[{"type":"hologram"},7,{"type":"text"}]}"#, "[hologram]\n[unknown]\n[text]"),
            (r#"{"content":[],"structuredContent":{"n":1.10}}"#, r#"{"n":1.10}"#),
            (r#"{"content":[{"type":"text","text":""}],"structuredContent":{"n":1}}"#, r#"{"n":1}"#),
            (r#"{"content":[{"type":"text","text":"said"}],"structuredContent":{"n":1}}"#, "said"),
            (
                r#"{"content":[{"type":"image","mimeType":"a/b","data":""}],"structuredContent":[1]}"#,
                "[1]\n[image a/b, 0 B]",
            ),
        ] {
            assert_eq!(extract(result).unwrap().text, expected, "{result}");
        }
        assert_eq!(
            extract(&format!(
                r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{}"}}]}}"#,
                "A".repeat(16_384)
            ))
            .unwrap()
            .text,
            "[image image/png, 12 KB]"
        );
    }

    #[test]
    fn errors_and_unknown_members_are_carried() {
        let extracted = extract(r#"{"_meta":{"k":12345678901234567890},"isError":true,"content":[]}"#).unwrap();
        assert!(extracted.is_error);
        assert_eq!(Value::Object(extracted.rest).to_json(), r#"{"_meta":{"k":12345678901234567890}}"#);
    }

    #[test]
    fn what_is_no_result_is_said_to_be_malformed() {
        for result in ["", "[]", "7", "{", r#"{"content":"text"}"#, r#"{"resultType":"input_required"}"#] {
            assert!(matches!(extract(result), Err(Unreadable::Malformed(_))), "{result}");
        }
    }

    #[test]
    fn long_text_is_cut_at_a_line_end() {
        for (text, max, why, expected) in [
            ("short text", 100, "test", "short text"),
            ("abcde", 5, "test", "abcde"),
            ("some text", 0, "test", "some text"),
            (
                "line1\nline2\nline3\nline4",
                15,
                "test marker",
                "line1\nline2\n\n[TRUNCATED: test marker — Original size: 23B, limit: 15B]",
            ),
            (
                "abcdefghijklmnopqrstuvwxyz",
                10,
                "hard cut",
                "abcdefghij\n\n[TRUNCATED: hard cut — Original size: 26B, limit: 10B]",
            ),
            ("line1\nline2\nline3", 11, "end", "line1\nline2\n\n[TRUNCATED: end — Original size: 17B, limit: 11B]"),
            (
                "line1\nこんにちは\nline3",
                10,
                "utf8 newline",
                "line1\n\n[TRUNCATED: utf8 newline — Original size: 27B, limit: 10B]",
            ),
            ("ab世界cd", 4, "cjk", "ab\n\n[TRUNCATED: cjk — Original size: 10B, limit: 4B]"),
            ("key=[MASKED_API_KEY] x", 10, "w", "key=\n\n[TRUNCATED: w — Original size: 22B, limit: 10B]"),
            ("[MASKED_X]yz", 10, "w", "[MASKED_X]\n\n[TRUNCATED: w — Original size: 12B, limit: 10B]"),
            ("a[MASKED x]z", 5, "w", "a[MAS\n\n[TRUNCATED: w — Original size: 12B, limit: 5B]"),
            ("\nabc", 2, "w", "\na\n\n[TRUNCATED: w — Original size: 4B, limit: 2B]"),
        ] {
            assert_eq!(truncate(text, max, why), expected);
        }
        assert!(
            truncate(&"x".repeat(33_000), 32_000, "w").ends_with("[TRUNCATED: w — Original size: 32KB, limit: 31KB]")
        );
    }

    #[test]
    fn four_bytes_are_a_token() {
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("こんにちは世界", 6)] {
            assert_eq!(estimate_tokens(text.len()), tokens);
        }
    }
}
