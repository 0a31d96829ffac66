//! Answers that do not go through the component: nothing in them is masked or cut, so nothing is left to decide.
//!
//! Only what is plain text is read here. How anything else becomes text is for the component to say.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;

/// What an answer of plain text says.
pub struct Plain {
    /// The text of all blocks, each on lines of its own.
    pub text: String,
    /// The tool says that it failed.
    pub is_error: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: &'a RawValue,
}

/// Reads an answer in one go; `None` where it is anything but text.
pub fn read(answer: &str) -> Option<Plain> {
    let Answer { content, is_error } = serde_json::from_str(answer).ok()?;
    if content.is_empty() || content.iter().any(|block| block.kind != "text") {
        return None;
    }
    let text = match content.as_slice() {
        // The usual case, and the one where a copy would be felt.
        [only] => json::text(only.text)?,
        several => several.iter().map(|block| json::text(block.text)).collect::<Option<Vec<_>>>()?.join("\n"),
    };
    Some(Plain { text, is_error })
}

/// What is to be known of an answer that is passed on as it is; `None` where it cannot be read.
pub fn pass(json: &str) -> Option<Plain> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Marked {
        #[serde(default)]
        is_error: bool,
    }
    let text = String::new();
    // Nearly no answer says that it failed, and to find out where it says so is to read all of it.
    let said = memchr::memmem::find_iter(json.as_bytes(), b"\"isError\"").map(|at| &json[at + "\"isError\"".len()..]);
    let mut said = said.map(|rest| rest.trim_start().strip_prefix(':').unwrap_or(rest).trim_start());
    if said.all(|value| value.starts_with("false")) {
        return json.starts_with('{').then_some(Plain { text, is_error: false });
    }
    let Marked { is_error } = serde_json::from_str(json).ok()?;
    Some(Plain { text, is_error })
}

/// The most bytes that the text of an answer can have, found without reading it: an escape is written with more bytes than
/// it stands for. Structured content counts as it is written.
pub fn most_text(answer: &str) -> usize {
    if memchr::memmem::find(answer.as_bytes(), b"\"structuredContent\"").is_some() {
        return answer.len();
    }
    let (mut rest, mut escapes) = (answer.as_bytes(), 0);
    while let Some(at) = memchr::memchr(b'\\', rest) {
        escapes += 1;
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    answer.len() - escapes
}

/// The parts of an answer that nobody has looked at yet.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Parts<'a> {
    /// Its blocks, as the server wrote them.
    #[serde(borrow)]
    pub content: Vec<&'a RawValue>,
    /// Its structured content, as the server wrote it.
    #[serde(borrow)]
    pub structured_content: Option<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_has_more_text_than_it_can_have() {
        let texts = ["", "plain", "a \"quoted\" \\ line\nand another\t\u{1}", "\\\\\\n", "é😀"];
        for text in texts {
            let json = serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string();
            let most = most_text(&json);
            assert!(text.len() <= most && most <= json.len(), "{json}: {most}");
        }
        let lines = serde_json::json!({"content": [{"type": "text", "text": "\"\n".repeat(500)}]}).to_string();
        assert_eq!(most_text(&lines), lines.len() - 1000);
        let structured = r#"{"content":[],"structuredContent":{"a":"\n\n"}}"#;
        assert_eq!(most_text(structured), structured.len());
        assert_eq!(most_text("\\"), 0);
    }

    #[test]
    fn plain_text_is_read_and_nothing_else_is() {
        let rows = [
            (r#"{"content":[{"type":"text","text":"a\nb"}],"isError":true,"_meta":{}}"#, Some(("a\nb", true))),
            (r#"{"content":[{"type":"text","text":"a"},{"text":"b","type":"text"}]}"#, Some(("a\nb", false))),
            (r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"}]}"#, None),
            (r#"{"content":[],"structuredContent":{"n":1.10}}"#, None),
            (
                r#"{"content":[{"type":"text","text":"\u00e9\ud83d\ude00 \"\\\/\t\r\b\f"}]}"#,
                Some(("é😀 \"\\/\t\r\u{8}\u{c}", false)),
            ),
            (r#"{"content":[{"type":"text","text":"\"\\\/\t\n\r\b\f"}]}"#, Some(("\"\\/\t\n\r\u{8}\u{c}", false))),
            (r#"{"content":[{"type":"text","text":"\ud83d"}]}"#, None),
            (r#"{"content":[{"type":"text","text":7}]}"#, None),
            (r#"{"content":[{"type":"text"}]}"#, None),
            (r#"{"content":[{"type":"text","text":"a"}],"isError":"true"}"#, None),
            (r#"{"structuredContent":{}}"#, None),
        ];
        for (json, expected) in rows {
            let read = read(json).map(|plain| (plain.text, plain.is_error));
            assert_eq!(read, expected.map(|(text, failed)| (text.to_owned(), failed)), "{json}");
        }
    }
}
