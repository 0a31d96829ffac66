//! Tests of what is found as a URL or a host.

use proptest::prelude::*;

use super::*;

#[test]
fn a_whole_text_that_could_be_a_host_is_one() {
    for text in [
        "the-secret.evil.gg",
        "evil.gg:8080",
        "evil.xn--p1ai/?q=s",
        "xn--e1afmkfd.xn--p1ai",
        "[2001:db8::1]/x",
        "[2001:db8::1]:80",
        "[::ffff:203.0.113.5]",
        "[fe80::1%25eth0]/",
        "2001:db8::1",
        "10.1/x",
        "10.1",
        "127.1:80",
        "3232235777/x",
        "3232235777",
        "0xC0.0xA8.0.1/x",
        "0xC0A80001",
        "0300.0250.0.1",
        "030052000001/x",
        "0/x",
        "0:80",
        "localhost:3000",
        "localhost/x",
        "intranet:8080/x",
        "u:p@evil.tk/x",
        "u@evil.tk",
        "@evil.tk/",
        "git@evil.tk:repo",
        "evil.tk:repo",
        "a@evil.tk@example.com",
        "https://example.com/\"@evil.tk/",
        "https://evil\n.tk/x",
        "ev\til.tk",
        "https://example.com\n.evil.zz/?q=a b",
        "example.com\r\n.evil.zz",
        "\thttps://exa\0mple.evil.zz/ x",
        "evil.zz.",
        " evil.zz ",
        "\"evil.zz\"",
        "<evil.zz>",
        "[evil.zz]",
        "evil.zz,other.zz",
        "evil.zz other.zz",
        "evil.zz\nother.zz;third.zz",
        "{\"url\":\"evil.zz\"}",
        "[\"evil.zz\"]",
        "\"[\\\"evil.zz\\\"]\"",
        "evil%2Ezz/x",
        "evil%252Ezz",
        "https%3A%2F%2Fevil.zz",
        "evil&#46;zz",
        "https:\\/\\/evil.zz",
        "evil。zz",
        "evil．zz／x",
        "ev\u{ad}il\u{2024}zz",
        "１２７．１",
        "例子.中国",
        "例子。中国",
        "\u{1f4a9}.la",
        "//evil",
        "\\\\evil\\x",
        "http:evil",
        "HTTPS:/evil",
        "gopher://evil/x",
        "notes.txt",
    ] {
        assert!(!likely_urls(text).is_empty(), "{text}");
    }
}

#[test]
fn a_text_that_can_be_no_host_is_none() {
    for text in [
        "",
        "hello",
        "Hello.",
        "hello world.",
        "/home/me/notes.md",
        "src/main.rs",
        "../a.b/c",
        ".ssh/config",
        "~/a.b",
        "C:\\Users\\a.b",
        "v1.2.3",
        "2026-11-19T10:00:00.000Z",
        "2026-11-19",
        "10:30",
        "1234",
        "5",
        "0",
        "3/4",
        "50%",
        "$1.50",
        "1,234.56",
        "f(a.b)",
        "a:b",
        "key=value",
        "今天天气很好。我们一起去公园散步",
        "AKIAIOSFODNN7EXAMPLE",
        "// a comment",
    ] {
        assert_eq!(likely_urls(text), [""; 0], "{text}");
    }
    let token = format!("{}.{}", "a".repeat(64), "b".repeat(64));
    assert_eq!(likely_urls(&token), [""; 0]);
}

#[test]
fn words_of_a_sentence_are_hosts_if_they_look_like_some() {
    for (text, expected) in [
        (
            "at evil.com or 10.0.0.1/x, (sub.example.museum/path) but not file.txt or e.g. this",
            &["evil.com", "10.0.0.1/x", "sub.example.museum/path"][..],
        ),
        (
            "[a](https://a.ch/x), see (https://b.ch/y). https://c.ch,https://d.ch",
            &["https://a.ch/x", "https://b.ch/y", "https://c.ch", "https://d.ch"],
        ),
        ("go to evil.gg:8080 and evil.xn--p1ai now", &["evil.gg:8080", "evil.xn--p1ai"]),
        ("go to u:p@evil.tk/x or [2001:db8::1]/y now", &["u:p@evil.tk/x", "[2001:db8::1]/y"]),
        ("go to 3232235777/x or 0xC0.0xA8.0.1/y now", &["3232235777/x", "0xC0.0xA8.0.1/y"]),
        ("see https%3A%2F%2Fevil.zz%2Fx now", &["https://evil.zz/x"]),
        ("use version 1.2.3, edit main.rs:42 and src/lib.rs, run a.py on 12/24/2026 at 10:30", &[]),
        ("mail ann@example.com and mailto:bob@b.ch about notes.txt", &[]),
        ("a fraction of 3/4, a price of 1.50 or 2.5/5, Node.js, README.md // done", &[]),
        ("今天天气很好。我们去公园。 谢谢。", &[]),
    ] {
        assert_eq!(likely_urls(text), expected, "{text}");
    }
}

#[test]
fn what_programs_read_differently_goes_on_to_its_end() {
    for text in [
        "https:/evil.example/?q=1",
        "https:evil.example/?q=1",
        "HTTPS:evil.example",
        "https:\\\\evil.com\\x",
        "![x](//evil.com/?d=1)",
        "https://example.com'@evil.example/?q=1",
        "https://example.com,evil.example/?q=1",
        "see https://example.com/\"@evil.example/ now",
    ] {
        let found = likely_urls(text);
        let is_evil = |url: &String| super::super::values::url_form(url).is_none_or(|form| form.contains("evil"));
        assert!(found.iter().any(is_evil), "{text}: {found:?}");
    }
}

/// Writes a host in one of many ways in which some program reads it.
fn spelled(name: &str, address: [u8; 4], form: usize) -> String {
    let [a, b, c, d] = address.map(u32::from);
    let number = u32::from_be_bytes(address);
    match form {
        0 => format!("https://{name}"),
        1 => format!("//{name}/x"),
        2 => format!("https:{name}"),
        3 => format!("HTTPS:\\\\{name}\\x"),
        4 => name.to_owned(),
        5 => format!("{name}."),
        6 => format!("{name}:8443/x"),
        7 => format!("{name}?q=s"),
        8 => format!("user:pass@{name}/x"),
        9 => format!("https://example.com@{name}/"),
        10 => name.replacen('.', "%2e", 1),
        11 => name.replacen('.', "。", 1),
        12 => name.replacen('.', "\n.", 1),
        13 => name.replacen('.', "\u{200b}.", 1),
        14 => format!("https://example.com/\"@{name}/"),
        15 => format!("{a}.{b}.{c}.{d}"),
        16 => format!("{a}.{}/x", number & 0xff_ffff),
        17 => format!("{a}.{b}.{}", number & 0xffff),
        18 => format!("{number}/x"),
        19 => format!("0x{a:x}.0X{b:x}.{c}.{d}"),
        20 => format!("0x{number:x}"),
        21 => format!("0{a:o}.0{b:o}.{c}.0{d:o}/x"),
        22 => format!("[::ffff:{a}.{b}.{c}.{d}]/x"),
        23 => format!("{{\"u\":\"{name}\"}}"),
        24 => name.replacen('.', "&period;", 1),
        _ => name.chars().map(|sign| if sign == '.' { '．' } else { sign }).collect(),
    }
}

#[test]
fn a_url_is_found_behind_a_sign_within_a_word() {
    for text in [
        "<img src=//evil.gg/s3cret>",
        "<img src=https:evil.gg/x>",
        "<img src=\\\\evil.gg\\x>",
        "<img/src=//evil.gg/x>",
        "<a href=//evil.gg/x>here</a>",
        "<meta http-equiv=refresh content=\"0;url=//evil.gg/x\">",
        "<img src=&#x2f;&#x2f;evil.gg&#x2f;x>",
        "look at x=evil.gg/abc",
        "see:evil.gg/abc now",
        "go to href=evil.click soon",
        "a x&evil.gg/x b",
    ] {
        let found = likely_urls(text);
        assert!(found.iter().any(|url| url.contains("evil")), "{text}: {found:?}");
    }
    for text in ["it takes time=12 and size=3.5 of it", "set a=b, c:d and e&f", "the file=notes.txt is there"] {
        assert!(likely_urls(text).is_empty(), "{text}: {:?}", likely_urls(text));
    }
}

proptest! {
    #[test]
    fn a_host_is_found_in_every_spelling(
        name in "[a-z][a-z0-9-]{0,9}[a-z0-9](\\.[a-z]{1,9}){1,3}",
        address in prop::array::uniform4(1u8..),
        form in 0..26usize,
    ) {
        let text = spelled(&name, address, form);
        prop_assert!(!likely_urls(&text).is_empty(), "{}", text);
    }

    #[test]
    fn nothing_that_is_looked_at_panics(text in "\\PC*", spiced in "[@%&\\\\.:/0x\\[\\]a\u{3002}\u{200b}\u{ff20}#;=?\"' \n]{0,24}") {
        for text in [text, spiced] {
            likely_urls(&text);
            super::super::mails::likely_mails(&text);
            super::super::values::likely_accounts(&text);
            let _ = super::super::hosts::host_of(&text);
            super::super::paths::is_within(&text, "/srv");
        }
    }
}
