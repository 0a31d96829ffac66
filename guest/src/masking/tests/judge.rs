//! What is compiled, or read by hand, finds what the expressions mean; the `regex` crate is the judge.

use regex::{Regex, RegexBuilder};

use super::super::automata::{each_word, expressions};
use super::super::shapes;
use super::*;

fn regex(expression: &str) -> Regex {
    RegexBuilder::new(expression).unicode(false).build().unwrap()
}

/// Pieces that begin or continue a key or a token.
const FORMS: &str = r#"ssh-rsa| sk-ssh-ed25519@openssh.com|sk-|rk_live_|_|AKIA|ghp_|gh|GitHub_pat_|xoxb-|xapp-|Aiza|AIza
|hooks.slack.com/services/|Authorization|Bearer |basic|eyJ|glpat-|npm_|hf_|ABCDEFGH12|abcdefgh|0123456789|é|:|=|access|_key
|client-|value|1|password|token|api_key|secret|PWD| |"|'|\|\\n|,|>|.|-|@"#;

/// Texts made of some pieces.
fn texts(pieces: &[&'static str]) -> impl Iterator<Item = String> {
    let mut next = random_numbers(0x2545_f491_4f6c_dd1d);
    (0..RUNS).map(move |_| (0..=next(16)).map(|_| pieces[next(pieces.len())]).collect())
}

#[test]
fn automata_end_where_their_expressions_do_and_begin_with_one_of_their_words() {
    let rules = PATTERNS.iter().flat_map(|pattern| pattern.rules);
    let forms: Vec<&str> = FORMS.split('|').collect();
    let mut matched = 0;
    for (number, rule) in rules.enumerate() {
        for (stage, (expression, automaton)) in rule.expressions().iter().zip(expressions(number)).enumerate() {
            let judge = regex(expression);
            for text in texts(&forms) {
                let mut beginnings = Vec::new();
                each_word(&text, 0..text.len(), |at, word| {
                    beginnings.extend(word.rules.contains(&number).then_some(at))
                });
                assert!(beginnings.is_sorted(), "{expression} in {text:?}");
                for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let end = judge.find_at(&text, at).filter(|found| found.start() == at).map(|found| found.end());
                    assert_eq!(automaton.end(&text, at), end, "{expression} at {at} of {text:?}");
                    let is_known = end.is_none() || stage > 0 || beginnings.contains(&at);
                    assert!(is_known, "{expression} at {at} of {text:?}");
                    matched += usize::from(end.is_some());
                }
            }
        }
    }
    assert!(matched > RUNS, "{matched} matches");
}

#[test]
fn what_is_read_by_hand_is_what_these_expressions_mean() {
    type Find = fn(&str, &mut dyn FnMut(Span));
    type Accept = fn(&str, Span) -> bool;
    let finders: [(Find, &str, Accept, &str); 5] = [
        (
            shapes::find_jwts,
            r"(?<value>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
            |_, _| true,
            "eyJ|eyJhbGciOiJI|.|.eyJzdWIi|-abcdef_|J| |\"",
        ),
        (
            shapes::find_url_passwords,
            r#"://(?u:[^\s/:@"'`<>\\]*):(?<value>(?u:[^\s/"'`<>\\])+)@"#,
            |_, _| true,
            "://|://u:|://u:p@|:|@|@|p|é|/| |\u{a0}|<",
        ),
        (
            shapes::find_emails,
            r"(?<value>(?u:[\w.%+-])+@[A-Za-z0-9.-]+\.[A-Za-z]{2,})",
            shapes::is_not_of_a_url,
            "@|@a|a|.|.com|.c|-|é|\u{300}|²|%|//| |2x.png|1",
        ),
        (
            shapes::find_base64,
            r"(?<value>[A-Za-z0-9+/]{20,}={0,2})",
            shapes::looks_like_base64,
            "ABCDEFGHIJ|abcdefghij|0123|+|/|=|=|a|Z1|A1b2C3d4E5f6G7h8I9j0| |é",
        ),
        (
            shapes::find_short_base64,
            r#"[:=][ \t]*\\*["']?(?<value>[A-Za-z0-9+/]{2,20}={0,2})"#,
            shapes::looks_like_short_base64,
            ":|=|=| |\t|\\|\"|'|ab|aB3d|dGVzdA|1|12345678901234567890|é|,",
        ),
    ];
    for (find, expression, accepts, pieces) in finders {
        let judge = regex(expression);
        let mut matched = 0;
        for text in texts(&pieces.split('|').collect::<Vec<_>>()) {
            let mut found = Vec::new();
            find(&text, &mut |span| found.push(span));
            let values = judge.captures_iter(&text).map(|found| found.name("value").unwrap().range());
            let expected: Vec<Span> =
                values.map(|value| Span::new(value.start, value.end)).filter(|span| accepts(&text, *span)).collect();
            assert_eq!(found, expected, "{expression} in {text:?}");
            matched += found.len();
        }
        assert!(matched > RUNS / 20, "{matched} matches of {expression}");
    }
}

#[test]
fn a_key_of_an_api_begins_a_word_or_follows_a_line_break_that_is_written_out() {
    let masker = masker(&[], &["api_key"], &[]).unwrap();
    let judge = regex(r"(?:\b|\\[nrt])(?<value>sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,})");
    let key = "sk-0123456789abcdefghij";
    for before in ["", " ", "a", "_", "ta", r"\n", r"\\n", r"\tn", "nn", "é", "-", "task-"] {
        let text = format!("{before}{key}");
        assert_eq!(masker.mask(&text).contains("[MASKED_API_KEY]"), judge.is_match(&text), "{text}");
    }
}
