//! PEM blocks: complete, cut off, or on one line with `\n` written out.

use memchr::memmem;

use super::Span;

/// Reports each PEM block.
pub(super) fn find(text: &str, report: &mut dyn FnMut(Span)) {
    find_labelled(text, "", report);
}

/// Reports the PEM blocks of private keys.
pub(super) fn find_private_keys(text: &str, report: &mut dyn FnMut(Span)) {
    find_labelled(text, "PRIVATE KEY", report);
}

/// Reports the PEM blocks whose label contains some words.
fn find_labelled(text: &str, words: &str, report: &mut dyn FnMut(Span)) {
    let mut at = 0;
    while let Some(found) = memmem::find(&text.as_bytes()[at..], BEGIN.as_bytes()) {
        let start = at + found;
        let label = start + BEGIN.len();
        at = label;
        let Some(body) = marker_end(text, label) else { continue };
        if !text[label..body].contains(words) {
            continue;
        }
        let end = whole(text, body).unwrap_or_else(|| cut(text, body));
        report(Span::new(start, end));
        at = end;
    }
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
/// The maximum length of a label, as in `-----BEGIN RSA PRIVATE KEY-----`.
const MAX_LABEL: usize = 64;
/// The largest body that is searched for its end; the lines of a larger one are still recognized one by one.
const MAX_BODY: usize = 1 << 16;

/// Returns the end of the marker with this label.
fn marker_end(text: &str, label: usize) -> Option<usize> {
    let rest = &text.as_bytes()[label..];
    let length =
        rest.iter().take(MAX_LABEL).take_while(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' ')).count();
    rest[length..].starts_with(DASHES.as_bytes()).then_some(label + length + DASHES.len())
}

/// Returns the end of the block with this body, if it has an end with only PEM before it.
fn whole(text: &str, body: usize) -> Option<usize> {
    // The end of a string or an element, or another block, means that the END marker belongs to something else.
    let foreign = |byte: &u8| matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'{' | b'}' | b'-' | 0);
    let bytes = text.as_bytes();
    let mut at = body;
    while at < bytes.len() && at - body <= MAX_BODY {
        if foreign(&bytes[at]) {
            if text[at..].starts_with(END) {
                return marker_end(text, at + END.len());
            }
            if bytes[at] != b'-' || text[at..].starts_with(BEGIN) {
                return None;
            }
        }
        at += 1;
    }
    None
}

/// Returns the position where the lines of an unfinished block stop looking like base64 or a header.
fn cut(text: &str, body: usize) -> usize {
    let mut end = body;
    let mut at = body;
    while at < text.len() {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        let written_out = rest.len() - rest.trim_start_matches('\\').len();
        if blank > 0 {
            at += blank;
        } else if written_out > 0 && rest[written_out..].starts_with(['n', 'r']) {
            at += written_out + 1;
        } else if let Some(header) = HEADERS.iter().find(|header| rest.starts_with(**header)) {
            let line = rest[header.len()..].find(['\n', '\\', '"', '\'']).unwrap_or(rest.len() - header.len());
            at += header.len() + line;
            end = at;
        } else {
            let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)).count();
            // A word followed by a blank is prose after the cut.
            if length == 0 || (rest[length..].starts_with([' ', ',', ':']) && length < 16) {
                break;
            }
            at += length;
            end = at;
            if !rest[length..].starts_with(['\n', '\r', '\\', ' ', '\t']) {
                break;
            }
        }
    }
    end
}

const HEADERS: [&str; 5] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_whole_or_cut() {
        for (text, blocks) in [
            ("a -----BEGIN X-----\nabc=\n-----END X----- b", vec!["-----BEGIN X-----\nabc=\n-----END X-----"]),
            (r#""-----BEGIN X-----\nabc\n-----END X-----\n""#, vec![r"-----BEGIN X-----\nabc\n-----END X-----"]),
            (r#"{"a":"-----BEGIN X-----\nabc","b":"-----END X-----"}"#, vec![r"-----BEGIN X-----\nabc"]),
            ("-----BEGIN X-----\n  abcd\n  efgh\n\nThat was it.", vec!["-----BEGIN X-----\n  abcd\n  efgh"]),
            (
                "-----BEGIN X-----\nabc\n-----BEGIN Y-----\nabc\n-----END Y-----",
                vec!["-----BEGIN X-----\nabc", "-----BEGIN Y-----\nabc\n-----END Y-----"],
            ),
            ("-----BEGIN X----- abc def -----END X-----", vec!["-----BEGIN X----- abc def -----END X-----"]),
            (
                "-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\n\nabc[cut]",
                vec!["-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\n\nabc"],
            ),
            ("-----BEGIN of something", vec![]),
        ] {
            let mut found = Vec::new();
            find(text, &mut |span| found.push(&text[span.start..span.end]));
            assert_eq!(found, blocks, "{text}");
        }
    }
}
