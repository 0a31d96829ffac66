//! Answers that did not go through the component, since nothing in them is masked or cut.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(default, borrow)]
    content: Vec<Block<'a>>,
    #[serde(default, borrow)]
    structured_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
}

/// Whether the tool says that it failed.
pub fn is_error(json: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Said {
        #[serde(default)]
        is_error: bool,
    }
    serde_json::from_str::<Said>(json).is_ok_and(|said| said.is_error)
}

/// The text of an answer: its parts on lines of their own, and a word for each part that is no text.
pub fn text(json: &str) -> String {
    let Ok(Answer { mut content, structured_content, .. }) = serde_json::from_str::<Answer>(json) else {
        return json.to_owned();
    };
    match (content.as_mut_slice(), structured_content) {
        ([], Some(structured)) => structured.get().to_owned(),
        // The usual case, and the one where a copy would be felt.
        ([Block { text: Some(text), .. }], _) => std::mem::take(text),
        (blocks, _) => {
            let line = |block: &mut Block<'_>| block.text.take().unwrap_or_else(|| format!("[{}]", block.kind));
            blocks.iter_mut().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_answer_is_that_of_its_parts() {
        let rows = [
            (r#"{"content":[{"type":"text","text":"a\nb"}],"isError":true}"#, "a\nb", true),
            (r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"}]}"#, "a\n[image]", false),
            (r#"{"content":[],"structuredContent":{"n":1.10}}"#, r#"{"n":1.10}"#, false),
        ];
        for (json, expected, failed) in rows {
            assert_eq!((text(json).as_str(), is_error(json)), (expected, failed));
        }
    }
}
