//! Masking keeps its promises on any text: once is enough, JSON stays JSON, and a password beside it is gone.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use toolgate_fuzz::text;
use toolgate_guest::json::{self, Value};
use toolgate_guest::masking::{Masker, Masks, group_names};

fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let (group, masker) = &MASKERS[usize::from(*first) % MASKERS.len()];
    let text = text::draw(data);
    // A text that has the secret without its key may keep it.
    if text.contains(SECRET) {
        return;
    }
    once_is_enough(masker, &text);
    if let Ok(Value::Object(_)) = json::parse(&text) {
        assert!(json::parse(&masker.mask(&text)).is_ok(), "{group}: no JSON any more: {text}");
    }
    for planted in planted(&text).iter().filter(|_| HIDES_PASSWORDS.contains(group)) {
        let masked = once_is_enough(masker, planted);
        assert!(!masked.contains(SECRET), "{group}: leaked from {planted:?}");
    }
});

/// Masks a text and what comes out of it.
fn once_is_enough(masker: &Masker, text: &str) -> String {
    let once = masker.mask(text).into_owned();
    assert_eq!(masker.mask(&once), once, "masked twice: {text:?}");
    let as_json = masker.mask_json(text);
    assert!(json::parse(&as_json).is_ok(), "no JSON from {text:?}");
    assert_eq!(masker.mask_json(&as_json), as_json, "masked twice as JSON: {text:?}");
    once
}

/// Texts with a password: on a line of its own, as a member of JSON, and as a member of JSON in a JSON string.
fn planted(text: &str) -> [String; 3] {
    let (before, after) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let members = [("before", before), ("password", SECRET), ("after", after)];
    let object = Value::Object(members.into_iter().map(|(key, text)| (key.into(), Value::string(text))).collect());
    let line = format!("{before}\npassword: {SECRET}\n{after}");
    let nested = Value::Array(vec![Value::string(object.to_json())]);
    [line, object.to_json(), nested.to_json()]
}

static MASKERS: LazyLock<Vec<(&str, Masker)>> = LazyLock::new(|| {
    let masks = |group: &str| Masks { groups: vec![group.to_owned()], ..Masks::default() };
    let compile = |group| (group, Masker::new(&masks(group)).expect("built-in groups compile"));
    group_names().into_iter().map(compile).collect()
});

/// The groups that have the pattern `password`.
const HIDES_PASSWORDS: [&str; 5] = ["basic", "secrets", "security", "kubernetes", "all"];
const SECRET: &str = "hunter2-Tr0ub4dor&3";
