//! Tests of the broad reading: signs, digits, names, and escapes.

use super::*;

#[test]
fn signs_and_digits_of_all_scripts_are_read_as_plain_ones() {
    for (text, expected) in [
        ("eve＠evil．tk", "eve@evil.tk"),
        ("evil。tk/a／b⁄c", "evil.tk/a/b/c"),
        ("/srv/‥/…", "/srv/../..."),
        ("ev\u{200b}il\u{ad}.\u{2060}tk\u{feff}", "evil.tk"),
        ("\u{e0065}\u{fe0f}x\u{2800}y\u{a0}z", "x y z"),
        ("١٢٣٤ ۵۶ ९० ０１ 𝟘𝟙 ¹²³⁴ ₅₆ ①②⓪ ❶❷ ⑩⑳ ㉑㊿ 一〇九", "1234 56 90 01 01 1234 56 120 12 1020 2150 109"),
        ("⒈⒛", "1.20."),
        ("℀ ㏂", "a/c a.m."),
        ("ｈｔｔｐ：⫽ ⓗⓉ 𝐡𝖙 🄷", "http:⫽ hT ht H"),
        ("日本 Žofie ελ", "日本 Žofie ελ"),
    ] {
        assert_eq!(reading(text), expected, "{text}");
    }
    for (text, expected) in [
        ("/home/josé/日本", false),
        ("/srv/agent/…", true),
        ("/srv/agent/..\u{200b}", true),
        ("/srv/a\u{a0}b", true),
        ("/srv/a⁄b", true),
        ("/srv/‐", true),
        ("/srv/a b/$", false),
    ] {
        assert_eq!(changes_signs(text), expected, "{text}");
    }
}

#[test]
fn every_row_of_digits_is_in_order_and_apart_from_the_next() {
    for (rows, length) in [(ZEROS, 10), (ONES, 9)] {
        assert!(rows.windows(2).all(|pair| pair[0] + length <= pair[1]), "{rows:x?}");
    }
    for zero in ZEROS {
        for value in 0..10 {
            let sign = char::from_u32(zero + value).unwrap();
            assert_eq!(digit(sign), char::from_digit(value, 10), "{sign}");
        }
    }
}

#[test]
fn names_are_the_same_whatever_their_case_and_their_joints() {
    for (one, other, expected) in [
        ("path", "PATH", true),
        ("filePath", "file_path", true),
        ("file-path", "FILE PATH", true),
        ("straße", "STRASSE", true),
        ("ſize", "SIZE", true),
        ("Kelvin", "kelvin", true),
        ("ﬁle", "FILE", true),
        ("ΣΑΣ", "σας", true),
        ("pa\u{200b}th", "path", true),
        ("ｐａｔｈ", "path", true),
        ("path", "paths", false),
        ("path", "pat", false),
        ("a", "b", false),
        ("é", "e", false),
    ] {
        assert_eq!(is_same_name(one, other), expected, "{one} {other}");
        assert_eq!(is_same_name(other, one), expected, "{other} {one}");
        assert_eq!(folded(one) == folded(other), expected, "{one} {other}");
    }
}

#[test]
fn escapes_are_undone_layer_by_layer() {
    for (text, last) in [
        ("plain text, 100% sure & more", "plain text, 100% sure & more"),
        ("eve%40evil.example", "eve@evil.example"),
        ("eve%2540evil.example", "eve@evil.example"),
        ("eve&#64;evil&period;example", "eve@evil.example"),
        ("eve&#x40;evil&#46example", "eve@evil.example"),
        ("eve\\u0040evil\\x2eexample \\u{40}", "eve@evil.example @"),
        ("https:\\/\\/evil\\.example", "https://evil.example"),
        ("=?utf-8?q?eve=40evil.example?=", "=?utf-8?q?eve@evil.example?="),
        ("a=40", "a=40"),
        ("％４０", "@"),
        ("%e2%80%8b%C3%A9 %zz %", "é %zz %"),
        ("\\é \\", "\\é \\"),
    ] {
        assert_eq!(readings(text).last().unwrap(), last, "{text}");
        assert_eq!(readings(text)[0], text);
    }
    assert_eq!(readings("plain").len(), 1);
    assert!(readings(&format!("%{}40", "25".repeat(50))).len() <= 2 * MAX_ESCAPES + 1);
}
