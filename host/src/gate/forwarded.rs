//! Results that bypass the component: nothing in them is masked or cut, so there is nothing to decide.
//!
//! Only plain text is read here. The component decides how other content becomes text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{self, MemberFinder, scan};

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
    let TextBlocks { texts, is_error } = blocks(answer)?;
    let text = match texts.as_slice() {
        // The usual case, where an extra copy would cost time.
        [only] => json::decode_string(only)?,
        several => several.iter().map(|text| json::decode_string(text)).collect::<Option<Vec<_>>>()?.join("\n"),
    };
    (text.len() <= most).then_some(PlainText { text, is_error })
}

/// Returns the blocks of a result if it has some and all are text.
fn blocks(answer: &str) -> Option<TextBlocks<'_>> {
    plain_blocks(answer).or_else(|| read_blocks(answer)).filter(|answer| !answer.texts.is_empty())
}

/// Returns the text blocks of a result in the usual form, where each member occurs once.
fn plain_blocks(answer: &str) -> Option<TextBlocks<'_>> {
    let (mut texts, mut content, mut is_error) = (Vec::new(), 0, None);
    scan::whole(answer, |scanner| {
        scanner.object(|scanner, name| match name {
            "content" => {
                content += 1;
                scanner.list(|scanner| {
                    let (mut kind, mut text) = (None, None);
                    scanner.object(|scanner, name| {
                        let value = &answer[scanner.value()?];
                        let first = match name {
                            "type" => kind.replace(value).is_none(),
                            "text" => text.replace(value).is_none(),
                            _ => true,
                        };
                        first.then_some(())
                    })?;
                    texts.push(text.filter(|text| kind == Some(r#""text""#) && text.starts_with('"'))?);
                    Some(())
                })
            }
            "isError" => {
                let value = &answer[scanner.value()?];
                let first = is_error.replace(value).is_none();
                (first && matches!(value, "true" | "false")).then_some(())
            }
            _ => scanner.value().map(drop),
        })
    })?;
    (content == 1).then(|| TextBlocks { texts, is_error: is_error == Some("true") })
}

/// Returns the text blocks of a result in any form.
fn read_blocks(answer: &str) -> Option<TextBlocks<'_>> {
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
    let plain = content.iter().all(|block| block.kind == "text");
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
    if !fits(json, most) {
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

/// Reports whether the text of a result has at most `most` bytes; structured content counts as it is written.
///
/// Almost every result is shorter as a whole. One that is a little longer is examined more closely, because that is
/// much cheaper than passing it through the component.
fn fits(answer: &str, most: u64) -> bool {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if answer.len() <= most {
        return true;
    }
    if STRUCTURED.is_in(answer) {
        return false;
    }
    let length = answer.len().saturating_sub(escapes(answer) + LEAST_AROUND.len() + usual(answer));
    length <= most || (length / 2 <= most && text_len(answer).is_some_and(|length| length <= most))
}

/// Returns the size of the usual members at either end of a result, which are not part of any text.
fn usual(answer: &str) -> usize {
    let front = USUAL.iter().find_map(|member| answer.strip_prefix('{')?.strip_prefix(member)?.strip_prefix(','));
    let mut rest = front.unwrap_or(answer).strip_suffix('}').unwrap_or(answer);
    while let Some(shorter) = USUAL.iter().find_map(|member| rest.strip_suffix(member)?.strip_suffix(',')) {
        rest = shorter;
    }
    // The braces are counted elsewhere.
    (answer.len() - rest.len()).saturating_sub(if front.is_some() { 2 } else { 1 })
}

/// Counts the escapes, each of which takes more bytes than its character. The second of two backslashes belongs to the
/// first.
fn escapes(json: &str) -> usize {
    memchr::memchr_iter(b'\\', json.as_bytes()).count() - TWO_BACKSLASHES.after(json).count()
}

/// Returns an upper bound of the size of a result's text; `None` if it is not plain text.
fn text_len(answer: &str) -> Option<usize> {
    let texts = blocks(answer)?.texts;
    // Each text has two quotes, and a line break joins it to the next.
    Some(texts.iter().map(|text| text.len().saturating_sub(1) - escapes(text)).sum::<usize>() - 1)
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

/// The shortest JSON around the text of a result.
const LEAST_AROUND: &str = r#"{"content":[{"type":"text","text":""}]}"#;
/// Members that most results have.
const USUAL: [&str; 2] = [r#""isError":false"#, r#""resultType":"complete""#];
static TWO_BACKSLASHES: MemberFinder = MemberFinder::new(r"\\");
static IS_ERROR: MemberFinder = MemberFinder::new("\"isError\"");
static STRUCTURED: MemberFinder = MemberFinder::new("\"structuredContent\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_fits_by_its_text_and_not_by_what_is_around_it() {
        let answer = |texts: &[&str]| {
            let blocks: Vec<_> = texts.iter().map(|text| serde_json::json!({"type": "text", "text": text})).collect();
            serde_json::json!({"content": blocks, "isError": false}).to_string()
        };
        let long = "x".repeat(1000);
        let lines = "\"\n".repeat(500);
        for texts in [vec![&*long], vec![&*lines], vec![&*long, &*long, &*lines], vec!["é😀 \u{1}", &*long]] {
            let (json, text) = (answer(&texts), texts.join("\n"));
            assert!(!fits(&json, text.len() as u64 - 1), "{json}");
            assert!(fits(&json, text.len() as u64 + 8), "{json}");
            assert!(read_plain_text(&json, text.len() as u64 - 1).is_none(), "{json}");
            assert_eq!(read_plain_text(&json, text.len() as u64).map(|plain| plain.text), Some(text));
        }
        assert!(fits(&answer(&[&long]), 1000));
        let backslashes = r"\\\".repeat(200);
        assert!(fits(&answer(&[&backslashes]), 600) && !fits(&answer(&[&backslashes]), 599));
        assert!(fits(&answer(&[]), 1000));
        // Content other than text counts whole, and so does structured content.
        let picture = serde_json::json!({"content": [{"type": "image", "data": long}]}).to_string();
        assert!(!fits(&picture, 1000));
        let structured = serde_json::json!({"content": [], "structuredContent": lines}).to_string();
        assert!(!fits(&structured, structured.len() as u64 - 1) && fits(&structured, structured.len() as u64));
    }

    #[test]
    fn what_stands_around_most_answers_is_known_without_reading_them() {
        let rows = [
            (r#"{"content":[],"isError":false}"#, r#","isError":false"#),
            (r#"{"resultType":"complete","content":[]}"#, r#""resultType":"complete","#),
            (
                r#"{"resultType":"complete","content":[],"isError":false}"#,
                r#""resultType":"complete",,"isError":false"#,
            ),
            (
                r#"{"content":[],"isError":false,"resultType":"complete"}"#,
                r#","isError":false,"resultType":"complete""#,
            ),
            (r#"{"content":[{"type":"text","text":",\"isError\":false"}]}"#, ""),
            (r#"{"content":[],"isError":true}"#, ""),
            (r#"{"isError":false}"#, ""),
            ("{}", ""),
        ];
        for (answer, around) in rows {
            assert_eq!(usual(answer), around.len(), "{answer}");
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
