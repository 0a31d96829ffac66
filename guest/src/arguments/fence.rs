//! The code fence that models like to put around arguments.

/// The content of the only code fence in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fenced<'a> {
    /// The text inside the fence, trimmed.
    pub inside: &'a str,
    /// Whether there are words before or after the fence.
    pub prose: bool,
}

/// Finds the code fence in a trimmed text; returns `None` if there is none or more than one.
pub(super) fn find(text: &str) -> Option<Fenced<'_>> {
    let start = first_fence(text)?;
    let fence = &text[start..];
    let marker = &fence[..fence.bytes().take_while(|byte| *byte == fence.as_bytes()[0]).count()];
    let body = without_language(&fence[marker.len()..]);
    let (inside, after) = match (closing_line(body, marker), body.strip_suffix(marker)) {
        (Some(at), _) => (&body[..at], body[at..].trim_start().trim_start_matches(&marker[..1])),
        // A fence on one line, such as ```{"a": 1}```
        (None, Some(inside)) => (inside, ""),
        // The fence was never closed: the text may be incomplete.
        (None, None) => (body, ""),
    };
    if first_fence(after).is_some() {
        return None;
    }
    let prose = start > 0 || !after.trim().is_empty();
    Some(Fenced { inside: inside.trim(), prose })
}

/// Returns the position of the first fence at the start of a line.
fn first_fence(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        if bare.starts_with("```") || bare.starts_with("~~~") {
            return Some(at + line.len() - bare.len());
        }
        at += line.len();
    }
    None
}

/// Returns the position of the line that closes the fence.
fn closing_line(body: &str, marker: &str) -> Option<usize> {
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        // The first line belongs to the opening fence.
        if at > 0 && line.trim_start().starts_with(marker) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// Returns the text after a language word, if the word ends its line or stands before a bracket.
fn without_language(text: &str) -> &str {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '+' | '-' | '.');
    let rest = text.trim_start_matches([' ', '\t']).trim_start_matches(is_word);
    let next = rest.trim_start_matches([' ', '\t', '\r']);
    if next.starts_with(['\n', '{', '[']) { next } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inside_of_one_fence_is_found() {
        for (text, inside, prose) in [
            ("```\na\n```", "a", false),
            ("```json\n{\n}\n```", "{\n}", false),
            ("~~~ yaml \r\na: b\r\n~~~", "a: b", false),
            ("````\na\n````", "a", false),
            ("```json\n{}", "{}", false),
            ("```{}```", "{}", false),
            ("```json {}```", "{}", false),
            ("```a: b```", "a: b", false),
            ("```ls -l```", "ls -l", false),
            ("```json\n{}```", "{}", false),
            ("```\n```", "", false),
            ("```", "", false),
            ("Here:\n```json\n{}\n```", "{}", true),
            ("```json\n{}\n```\nDone.", "{}", true),
            ("a\n  ```\n  b\n  ```\nc", "b", true),
        ] {
            assert_eq!(find(text), Some(Fenced { inside, prose }), "{text}");
        }
    }

    #[test]
    fn no_fence_or_two_are_left_alone() {
        for text in ["", "a ``` b", "``", "```\na\n```\n```\nb\n```", "```\na\n```\nand\n~~~\nb\n~~~"] {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
