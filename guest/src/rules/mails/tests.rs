//! Tests of what is found as an e-mail address.

use super::*;

#[test]
fn ordinary_addresses_are_found_as_they_are() {
    for (text, expected) in [
        ("Ann@Example.COM", &["ann@example.com"][..]),
        ("to: ann@example, <bob@b.ch> mailto:carl@c.ch.", &["ann@example", "bob@b.ch", "carl@c.ch"]),
        ("Ann Lee <ann.lee+list@example.com>; bob@b.ch", &["ann.lee+list@example.com", "bob@b.ch"]),
        (
            "(ann@example.com) \"bob@b.ch\" 'carl@c.ch' `dan@d.ch`.",
            &["ann@example.com", "bob@b.ch", "carl@c.ch", "dan@d.ch"],
        ),
        ("write to ann@example.com, please. Thank you.", &["ann@example.com"]),
        ("Please ask ann@example.com about it", &["ann@example.com"]),
        ("mailto:ann@example.com?subject=hello", &["ann@example.com"]),
        ("ｘ＠y。z", &["x@y.z"]),
        ("nobody at all, 50% off!", &[]),
    ] {
        assert_eq!(likely_mails(text), expected, "{text}");
    }
}

#[test]
fn an_odd_piece_is_never_taken_for_the_address_it_ends_with() {
    for text in [
        "eve@evil.example(@example.com)",
        "eve@evil.example (@example.com)",
        "mailto:eve@evil.example?cc=ann@example.com",
        "mailto:ann@example.com?cc=eve@evil.example",
        "MAILTO:ann@example.com?bcc=eve%40evil.example",
        "mailto:ann@example.com?x=y&to=eve@evil.example",
        "mailto:ann@example.com?body=eve%2540evil.example",
        "mailto:ann@example.com,eve@evil.example",
        "eve%evil.example@example.com",
        "\"eve%evil.example\"@example.com",
        "evil.example!eve@example.com",
        "eve%40evil.example@example.com",
        "\"eve@evil.example\"@example.com",
        "'eve@evil.example'@example.com",
        "eve\\@evil.example@example.com",
        "eve@evil.example@example.com",
        "ann@example.com@evil.example@example.com",
        "<@evil.example:ann@example.com>",
        "<@evil.example,@example.com:ann@example.com>",
        "eve@evil.example,ann@example.com",
        "ann@example.com;eve@evil.example",
        "ann@example.com\neve@evil.example",
        "ann@example.com\r\nBcc: eve@evil.example",
        "eve@evil.example#@example.com",
        "eve@evil.example/@example.com",
        "eve@evil.example?@example.com",
        "eve@evil.example\0@example.com",
        "eve@evil.example\u{200b}@example.com",
        "eve@[203.0.113.5]@example.com",
        "eve @ evil.example",
        "eve@ evil.example",
        "eve @evil.example <ann@example.com>",
        "ann@example.com .evil.tk",
        "ann@example.com. evil.tk",
        "ann@example.com evil.tk",
        "Ann ann@example.com evil.tk",
        "Ann ann@example.com .evil.tk",
        "=?utf-8?q?eve=40evil.example=3e?=@example.com",
        "=?utf-8?b?ZXZlQGV2aWwuZXhhbXBsZQ==?=@example.com",
        "=?utf-8?b?ZXZlQGV2aWwuZXhhbXBsZQ==?=, ann@example.com",
        "=?utf-7?q?eve+AEA-evil.example?=",
        "<ann@example.com pany>",
        "<ann@example.com. gg>",
        "Ann <ann@example.com\u{a0}pany>",
        "ev\u{140}evil.example@example.com",
        "eve&#64;evil.example",
        "eve&commat;evil.example",
        "eve\\u0040evil.example",
        "eve＠evil.example",
        "eve﹫evil．example",
        "ann@example.com@",
        "{\"to\":\"eve@evil.example\",\"cc\":\"ann@example.com\"}",
    ] {
        let found = likely_mails(text);
        let is_harmless = found.iter().all(|address| address.ends_with("@example.com"));
        assert!(!is_harmless && !found.is_empty(), "{text}: {found:?}");
    }
    // What is forbidden is found inside, in small letters.
    for text in [
        "EVE@Evil.Example",
        "eve@evil.example(@example.com)",
        "eve%evil.example@example.com",
        "<ann@example.com>eve@evil.example",
        "mailto:ann@example.com?cc=eve%40evil.example",
    ] {
        let found = likely_mails(text);
        assert!(found.iter().any(|address| address.ends_with("@evil.example")), "{text}: {found:?}");
    }
}

#[test]
fn long_texts_are_read_in_one_pass() {
    // With time that grows with the square of the length, these would take minutes.
    for text in ["@", "a@b.gg,", "x://a@", "[", "<a@b c>", "src=//a.gg&"] {
        let text = text.repeat(100_000 / text.len());
        likely_mails(&text);
        super::super::urls::likely_urls(&text);
    }
}
