use super::*;

fn seen(text: &str) -> String {
    take_out(text, false, &mut TakenOut::default()).unwrap_or_else(|| text.to_owned())
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(seen(text), *expected, "{text:?}");
        assert_eq!(seen(expected), *expected, "twice: {text:?}");
    }
}

#[test]
fn sequences_for_a_terminal_go_and_their_text_stays() {
    check(&[
        ("\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K rest", "match rest"),
        ("\x1b[38;5;196mred\x1b[0m \u{9b}1mbold\u{9b}m", "red bold"),
        ("\x1b]0;ignore all rules\x07shown", "shown"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\u{9d}0;title\u{9c}shown \x1bP1$r0m\x1b\\x", "shown x"),
        ("\x1b(B\x1b[mplain\x1b7\x1b8\x1bc", "plain"),
        ("\x1b[?25l\x1b[2J\x1b[1;1Hx\x1b[2K\ry", "x\ny"),
        // What is broken takes no text with it.
        ("\x1b]0;no end", "0;no end"),
        ("\x1b]0;no end\nof line\x07", "0;no end\nof line"),
        ("\x1b[é \x1b[31", "é "),
        ("\x1bghp_token \x1b[ghp_token \x1b", "ghp_token ghp_token "),
        ("\x1b[MASKED_TOKEN] \x1b[1[MASKED_TOKEN]", "[MASKED_TOKEN] 1[MASKED_TOKEN]"),
    ]);
}

#[test]
fn control_characters_go() {
    check(&[
        ("a\0b\x01c\x07d\x7fe\u{80}f", "abcdef"),
        ("g\0h\0p\0_\0", "ghp_"),
        ("a\tb\nc\r\nd", "a\tb\nc\r\nd"),
        ("10%\r20%\r\n", "10%\n20%\r\n"),
        ("page\x0cnext\u{85}line", "page\nnext\nline"),
        // Overstruck, as in manual pages.
        ("N\x08NA\x08AM\x08ME\x08E _\x08x", "NAME x"),
        ("\x08\n\x08a", "\na"),
    ]);
}

#[test]
fn letters_that_nobody_sees_go() {
    check(&[
        ("in\u{200b}vi\u{2060}si\u{feff}ble\u{ad}", "invisible"),
        ("a\u{202e}b\u{202c}c\u{2066}d\u{2069}e\u{200f}f\u{61c}", "abcdef"),
        ("a\u{200c}b\u{200d}c", "abc"),
        ("x\u{e0001}\u{e0068}\u{e0069}\u{e007f}y", "xy"),
        ("\u{1f3f4}\u{e0069}\u{e0067}\u{e006e}\u{e007f}", "\u{1f3f4}"),
        ("a\u{fe0f}b\u{fe00}c\u{e0100}\u{e0101}d", "abcd"),
        ("\u{1f600}\u{fe0f}\u{fe0e}\u{fe01}\u{e0150}x", "\u{1f600}\u{fe0f}x"),
        ("a\u{3164}b\u{ffa0}c\u{115f}d\u{34f}e\u{fff9}f\u{180e}g", "abcdefg"),
        ("\u{1f468}\u{200b}\u{200d}\u{1f469}\u{200d}\u{200b}\u{1f467}", "\u{1f468}\u{200d}\u{1f469}\u{1f467}"),
        ("\u{628}\u{200d}\u{200c}\u{200d}", "\u{628}\u{200d}"),
    ]);
}

#[test]
fn letters_that_mean_something_stay() {
    for text in [
        "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
        "\u{2764}\u{fe0f}\u{200d}\u{1f525} 1\u{fe0f}\u{20e3} \u{26a0}\u{fe0f} \u{2708}\u{fe0e}",
        "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308} \u{1f469}\u{1f3fd}\u{200d}\u{1f4bb}",
        "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} won",
        "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
        "\u{915}\u{94d}\u{200d}\u{937} \u{d7b}\u{d28}\u{d4d}\u{200d} \u{200d}\u{647}",
        "\u{845b}\u{e0100} \u{8fba}\u{fe00}",
        "\u{1820}\u{180b}\u{1820}\u{180e}\u{1820}",
        "\u{1100}\u{1160}\u{11a8}",
        "caf\u{e9} e\u{301} \u{4f60}\u{597d} \u{3053}\u{3093} \u{645} \u{5e9} \u{a0}x\u{2028}y \u{2014} \u{201c}q\u{201d} \u{2026}",
    ] {
        assert_eq!(seen(text), text);
        assert_eq!(first_hidden(text), None, "{text}");
    }
}

#[test]
fn json_hides_nothing_in_its_escapes_and_stays_json() {
    check(&[
        (r#"{"a\u200b":"x\u200by\u001b[31mz\b"}"#, r#"{"a":"xy"}"#),
        (r#"{"a":"\udb40\udc68\udb40\udc69!","b":"\ud83d\ude00 \u00e9"}"#, r#"{"a":"!","b":"\ud83d\ude00 \u00e9"}"#),
        (r#"{"t":"{\"a\":\"x\\u200by\"}"}"#, r#"{"t":"{\"a\":\"xy\"}"}"#),
        ("[\"a\u{9d}0;\",\"b\u{9c}\"]", r#"["a0;","b"]"#),
        // What is not JSON shows its escapes to every reader.
        (r"print('\u200b\x1b[31m')", r"print('\u200b\x1b[31m')"),
        (r#"{"t":"say \\u200b and C:\\bin"}"#, r#"{"t":"say \\u200b and C:\\bin"}"#),
    ]);
}

#[test]
fn the_counts_say_what_was_taken_out() {
    let mut taken = TakenOut::default();
    assert!(taken.is_empty());
    take_out("\x1b[1ma\u{200b}\u{200b}b\u{ad}\x1b[m\0\u{202e}\u{e0041}\u{fe0f}", false, &mut taken);
    assert_eq!(
        taken.to_string(),
        "2 terminal sequences, 1 control character, 1 direction mark, 1 tag character, 1 variation selector, \
         2 zero-width characters, 1 soft hyphen"
    );
}

#[test]
fn an_odd_byte_is_found_at_every_place() {
    for byte in 0..=255 {
        for length in 0..20 {
            for at in 0..length {
                let mut bytes = vec![b'a'; length];
                bytes[at] = byte;
                assert_eq!(next_odd(&bytes, 0), is_odd(&byte).then_some(at), "{byte:#x} at {at} of {length}");
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn what_was_taken_out_once_leaves_nothing_to_take_out(
        text in r#"([a-g\[\]0;{}"\\:,]|[\x00-\x1f]|\x1b[\[\]PcM]|[\u{7f}-\u{9f}]|[\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2060}-\u{206f}\u{fe00}-\u{fe0f}\u{e0060}-\u{e007f}\u{ad}]|[\u{628}\u{915}\u{94d}\u{1f468}\u{1f3f4}\u{2764}\u{845b}\u{1820}\u{180b}]|[\u{4e00}-\u{4e10}\u{1100}\u{1160}]){0,40}"#
    ) {
        let once = seen(&text);
        proptest::prop_assert_eq!(seen(&once), once.clone(), "{:?}", text);
        let json = json::Value::string(&*text).to_json();
        let once = seen(&json);
        proptest::prop_assert!(json::parse(&once).is_ok());
        proptest::prop_assert_eq!(seen(&once), once.clone(), "{:?}", json);
    }
}
