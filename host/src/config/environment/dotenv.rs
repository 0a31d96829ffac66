//! Parses env files with lines of `KEY=value`.

use std::collections::BTreeMap;

/// A line that cannot be parsed. It shows nothing of the line, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct DotenvError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub text: &'static str,
}

/// Parses the variables of an env file; of duplicate names the last one counts. Nothing in a value is expanded.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, DotenvError> {
    let mut variables = BTreeMap::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split('\n').enumerate();
    while let Some((n, line)) = lines.next() {
        let wrong = |text| DotenvError { line: n + 1, text };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let (name, value) = line.split_once('=').ok_or(wrong("is not of the form NAME=value"))?;
        let name = name.trim_end();
        if name.is_empty() || name.contains(|c: char| !(c.is_ascii_alphanumeric() || "_.-".contains(c))) {
            return Err(wrong("the name before \"=\" is not made of letters, digits and \"_\""));
        }
        let value = value.trim_start();
        let value = match value.chars().next().filter(|first| "\"'`".contains(*first)) {
            None => plain(value),
            Some(quote) => {
                // A quoted value may span lines, as private keys do.
                let mut quoted = value[1..].to_owned();
                loop {
                    if let Some(end) = closing(&quoted, quote) {
                        let rest = quoted[end + 1..].trim_start();
                        if !rest.is_empty() && !rest.starts_with('#') {
                            return Err(wrong("there is text after the closing quote"));
                        }
                        quoted.truncate(end);
                        break if quote == '"' { unescaped(&quoted) } else { quoted };
                    }
                    let (_, next) = lines.next().ok_or(wrong("the quote is not closed"))?;
                    quoted = quoted + "\n" + next.strip_suffix('\r').unwrap_or(next);
                }
            }
        };
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

/// Returns a value without quotes, up to a comment that starts the value or follows whitespace.
fn plain(value: &str) -> String {
    let comment = value
        .char_indices()
        .find(|(at, c)| *c == '#' && value[..*at].chars().next_back().is_none_or(char::is_whitespace));
    value[..comment.map_or(value.len(), |(at, _)| at)].trim_end().to_owned()
}

fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, c)| {
        let ends = c == quote && !escaped;
        escaped = quote == '"' && c == '\\' && !escaped;
        ends.then_some(at)
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, (c == '\\').then(|| chars.next()).flatten()) {
            (_, Some('n')) => plain.push('\n'),
            (_, Some('r')) => plain.push('\r'),
            (_, Some('t')) => plain.push('\t'),
            (_, Some(next @ ('"' | '\\' | '$'))) => plain.push(next),
            (_, Some(other)) => plain.extend(['\\', other]),
            (_, None) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_lines_are_read() {
        for (text, expected) in [
            ("", &[][..]),
            ("\u{feff}A=1\r\nB=2", &[("A", "1"), ("B", "2")]),
            ("# comment\n\n  A = spaced value  # comment", &[("A", "spaced value")]),
            ("export A=x", &[("A", "x")]),
            ("A=", &[("A", "")]),
            ("A= # nothing", &[("A", "")]),
            ("A=a#b", &[("A", "a#b")]),
            ("A=b=c==", &[("A", "b=c==")]),
            ("A=\"a # b\" # c", &[("A", "a # b")]),
            ("A='$B ${C} \\n'", &[("A", "$B ${C} \\n")]),
            ("A=\"a\\n\\\"b\\\" \\\\ \\$ \\x\"", &[("A", "a\n\"b\" \\ $ \\x")]),
            ("A=\"one\ntwo\"\nB='x'", &[("A", "one\ntwo"), ("B", "x")]),
            ("A=${B}", &[("A", "${B}")]),
            ("A=1\nA=2", &[("A", "2")]),
            ("A=it's", &[("A", "it's")]),
        ] {
            let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_bad_line_is_named_and_not_shown() {
        for (text, expected) in [
            ("A=1\ns3cret", "line 2: is not of the form NAME=value"),
            ("=s3cret", "line 1: the name before \"=\" is not made of letters, digits and \"_\""),
            ("s3 cret=x", "line 1: the name before \"=\" is not made of letters, digits and \"_\""),
            ("A=\"s3cret", "line 1: the quote is not closed"),
            ("A='a' s3cret", "line 1: there is text after the closing quote"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected);
        }
    }
}
