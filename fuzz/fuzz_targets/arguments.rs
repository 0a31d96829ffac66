//! Any text is arguments: an object comes out, the same one each time, and only limits are refused.
//!
//! The input is a schema, or none, and a text.

#![no_main]

use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use toolgate_fuzz::schema;
use toolgate_guest::arguments::{Parsed, Refusal, Stage, parse};
use toolgate_guest::json::{self, MAX_DEPTH, MAX_VALUES, Value};
use toolgate_guest::schema::Document;

fuzz_target!(|data: &[u8]| {
    let mut dice = Unstructured::new(data);
    let schema = dice.ratio(1, 2).and_then(|some| some.then(|| schema::draw(&mut dice, 3)).transpose());
    let schema = schema.expect("drawing goes on with zeros where the input ends");
    let text = <&str>::arbitrary_take_rest(dice).unwrap_or_default();
    let read = schema.as_deref().map(|schema| Document::new(json::parse(schema).expect("what is drawn is JSON")));

    let plain = parse(text, None);
    let shaped = parse(text, read.as_ref());
    assert_eq!(shaped, parse(text, read.as_ref()), "the same text was read in two ways");
    for parsed in [&plain, &shaped] {
        match parsed {
            Ok(parsed) => is_an_object(parsed),
            Err(refusal) => is_a_limit(*refusal, text, schema.as_deref().unwrap_or_default()),
        }
    }
    if let Ok(object @ Value::Object(_)) = json::parse(text) {
        let plain = plain.expect("an object within the limits of JSON is within those of arguments");
        assert_eq!((plain.stage, plain.notes.len()), (Stage::Json, 0));
        assert_eq!(json::parse(&plain.arguments), Ok(object));
    }
});

/// What was read is an object that means itself when it is read again.
fn is_an_object(parsed: &Parsed) {
    let value = json::parse(&parsed.arguments);
    assert!(matches!(value, Ok(Value::Object(_))), "no object: {parsed:?}");
    let again = parse(&parsed.arguments, None).expect("what was read once can be read again");
    assert_eq!(again.arguments, parsed.arguments);
}

/// Each level takes a byte of the text or the schema, and each value a byte of the text but for aliases of YAML.
fn is_a_limit(refusal: Refusal, text: &str, schema: &str) {
    match refusal {
        Refusal::TooLarge(limit) => assert!(text.len() as u64 > limit),
        Refusal::TooManyValues(_) => assert!(text.contains('*') || text.len() > MAX_VALUES, "{text:?}"),
        Refusal::TooDeep(_) => assert!(text.len() + schema.len() + 1 >= MAX_DEPTH, "{text:?} with {schema}"),
    }
}
