//! Results that bypass the component: nothing in them is masked or cut, so there is nothing to decide.
//!
//! Only plain text is read here. The component decides how other content becomes text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{self, MemberFinder};

/// A result of plain text.
pub(super) struct PlainText {
    /// The text of all blocks, joined by line breaks.
    pub text: String,
    /// Whether the tool reports a failure.
    pub is_error: bool,
}

/// The text blocks of a result, still JSON-encoded.
struct TextBlocks<'a> {
    texts: Vec<&'a str>,
    is_error: bool,
}

/// Reads a result, of which the longest string may be known already; `None` if it is not plain text or has more than
/// `most` bytes of text.
pub(super) fn read_plain_text(answer: &str, most: u64) -> Option<PlainText> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // Skip results that are clearly too long; structured content counts as it is written.
    if answer.len() > most && (answer.len() / 3 > most || STRUCTURED.is_in(answer)) {
        return None;
    }
    let TextBlocks { texts, is_error } = text_blocks(answer)?;
    let text = match texts.as_slice() {
        // The usual case, where an extra copy would cost time.
        [only] => json::decode_string(only)?,
        several => several.iter().map(|text| json::decode_string(text)).collect::<Option<Vec<_>>>()?.join("\n"),
    };
    (text.len() <= most).then_some(PlainText { text, is_error })
}

/// Returns the blocks of a result if it has some and all are text.
fn text_blocks(answer: &str) -> Option<TextBlocks<'_>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ResultBody<'a> {
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
    let ResultBody { content, is_error } = serde_json::from_str(answer).ok()?;
    let plain = !content.is_empty() && content.iter().all(|block| block.kind == "text");
    plain.then(|| TextBlocks { texts: content.iter().map(|block| block.text.get()).collect(), is_error })
}

/// Reads a result that is passed through unchanged; `None` if it cannot be read or has more than `most` bytes of text.
pub(super) fn read_passed_through(json: &str, most: u64) -> Option<PlainText> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ErrorFlag {
        #[serde(default)]
        is_error: bool,
    }
    // Almost every result is shorter as a whole. Reading one that is not is cheaper than passing it through the component.
    if json.len() as u64 > most && read_plain_text(json, most).is_none() {
        return None;
    }
    if !has_list_as_content(json) {
        return None;
    }
    let text = String::new();
    // Almost no result reports an error, and finding where it does means parsing all of it.
    if IS_ERROR.values(json).all(|value| value.starts_with("false")) {
        return json.starts_with('{').then_some(PlainText { text, is_error: false });
    }
    let ErrorFlag { is_error } = serde_json::from_str(json).ok()?;
    Some(PlainText { text, is_error })
}

/// Reports whether the content of a result, if it has any, is a list; the component says what is wrong with other content.
fn has_list_as_content(json: &str) -> bool {
    // Almost every result shows it at once.
    if CONTENT.values(json).all(|value| value.starts_with('[')) && !json::has_escaped_ascii(json) {
        return true;
    }
    match json::find_members(json, ["content"]) {
        Ok([content]) => content.is_none_or(|content| json[content].starts_with('[')),
        Err(_) => false,
    }
}

/// The parts of a result that nobody has read yet.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResultParts<'a> {
    /// The content blocks, as the server wrote them.
    #[serde(borrow)]
    pub content: Vec<&'a RawValue>,
    /// The structured content, as the server wrote it.
    #[serde(borrow)]
    pub structured_content: Option<&'a RawValue>,
}

static CONTENT: MemberFinder = MemberFinder::new("\"content\"");
static IS_ERROR: MemberFinder = MemberFinder::new("\"isError\"");
static STRUCTURED: MemberFinder = MemberFinder::new("\"structuredContent\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_passed_through_by_its_text_and_not_by_what_is_around_it() {
        let answer = |texts: &[&str]| {
            let blocks: Vec<_> = texts.iter().map(|text| serde_json::json!({"type": "text", "text": text})).collect();
            serde_json::json!({"content": blocks, "isError": false}).to_string()
        };
        let passes = |json: &str, most: usize| read_passed_through(json, most as u64).is_some();
        let long = "x".repeat(1000);
        let lines = "\"\n".repeat(500);
        let backslashes = r"\\\".repeat(200);
        for texts in
            [vec![&*long], vec![&*lines], vec![&*backslashes], vec![&*long, &*long, &*lines], vec!["é😀 \u{1}", &*long]]
        {
            let (json, text) = (answer(&texts), texts.join("\n"));
            assert!(!passes(&json, text.len() - 1) && passes(&json, text.len()), "{json}");
            assert!(read_plain_text(&json, text.len() as u64 - 1).is_none(), "{json}");
            assert_eq!(read_plain_text(&json, text.len() as u64).map(|plain| plain.text), Some(text));
        }
        assert!(passes(&answer(&[]), 1000));
        // Content other than text counts whole, and so does structured content.
        let picture = serde_json::json!({"content": [{"type": "image", "data": long}]}).to_string();
        assert!(!passes(&picture, 1000) && passes(&picture, picture.len()));
        let structured = serde_json::json!({"content": [], "structuredContent": lines}).to_string();
        assert!(!passes(&structured, structured.len() - 1) && passes(&structured, structured.len()));
    }

    #[test]
    fn a_result_whose_content_is_no_list_is_not_passed_through() {
        for (json, passes) in [
            (r#"{"content":[]}"#, true),
            (r#"{"structuredContent":{"content":"text"}}"#, true),
            (r#"{"content":[{"text":"\u0041"}]}"#, true),
            (r#"{"content":"text"}"#, false),
            (r#"{"content" : {"type":"text"}}"#, false),
            (r#"{"c\u006fntent":"text"}"#, false),
            (r#"{"content":[],"content":"text"}"#, false),
            (r#"{"content":null}"#, false),
        ] {
            assert_eq!(read_passed_through(json, 1000).is_some(), passes, "{json}");
        }
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
            (r#"{"content":[{"type":"text","text":"\ud83d"}]}"#, Some(("\u{fffd}", false))),
            (r#"{"content":[{"type":"text","text":7}]}"#, None),
            (r#"{"content":[{"type":"text"}]}"#, None),
            (r#"{"content":[{"type":"text","text":"a"}],"isError":"true"}"#, None),
            (r#"{"structuredContent":{}}"#, None),
        ];
        for (json, expected) in rows {
            let read = read_plain_text(json, 100).map(|plain| (plain.text, plain.is_error));
            assert_eq!(read, expected.map(|(text, failed)| (text.to_owned(), failed)), "{json}");
        }
    }
}
