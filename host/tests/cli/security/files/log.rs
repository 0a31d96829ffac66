//! Tests that a server's text cannot pass for a line of toolgate, in the log or elsewhere.

use serde_json::{Value, json};

use crate::place::{Place, fixture_with};

/// Words of a server that would begin lines, move the cursor or turn the direction of the text.
const WORDS: &str =
    "bad\n WARN forged\r\nERROR forged\u{85} WARN forged\u{2028} WARN forged\u{2029}x\u{1b}[2K\u{202e}y\t\u{7f}z";

#[test]
fn a_servers_words_never_begin_a_line_at_any_level_in_either_form() {
    for habit in ["forges-error", "forges-exit", "forges-refusal", "forges-call"] {
        let place = Place::with(json!({"bad": fixture_with(habit, &[WORDS])}));
        for command in [&["tools"][..], &["check"], &["call", "bad.do", "{}"]] {
            for level in [&[][..], &["-vvv"], &["-vvv", "--log-format", "json"]] {
                let ran = place.run(&[command, level].concat());
                for line in ran.stderr.lines().chain(ran.stdout.lines()) {
                    let begun = line.trim_start();
                    assert!(
                        !begun.starts_with("WARN forged") && !begun.starts_with("ERROR forged"),
                        "{line:?} {ran:#?}"
                    );
                    if level.last() == Some(&"json") && begun.starts_with('{') {
                        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
                    }
                }
                let steers = |c: char| (c.is_control() && c != '\n') || "\u{2028}\u{2029}\u{202e}".contains(c);
                assert!(!ran.stderr.contains(steers), "{habit} {command:?} {ran:#?}");
            }
        }
    }
}

#[test]
fn an_event_is_one_line_with_its_breaks_escaped() {
    let place = Place::with(json!({"bad": fixture_with("forges-error", &[WORDS])}));
    let ran = place.run(&["tools"]);
    let line = ran.stderr.lines().find(|line| line.contains("an error without an id"));
    let line = line.unwrap_or_else(|| panic!("{ran:#?}"));
    for escaped in
        ["bad\\n WARN forged\\r\\nERROR forged\\u", " WARN forged\\u2028 WARN forged\\u2029x\\", "\\u202ey\\t\\"]
    {
        assert!(line.starts_with(" WARN") && line.contains(escaped), "{line}");
    }
}
