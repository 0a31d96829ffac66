//! Runs the rows of `cases/*.json` on the component and on the native code.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use toolgate::decide::Decide;
use toolgate::eval;
use toolgate_tests::native::Native;

#[test]
fn the_component_answers_every_case() {
    check_all(&mut toolgate_tests::supervisor());
}

#[test]
fn the_plain_code_answers_every_case() {
    check_all(&mut Native::default());
}

fn check_all(logic: &mut impl Decide) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
    let mut wrong = Vec::new();
    let mut rows = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        // The order of servers matters, and a tree would sort them: the question is asked as it is written.
        for row in serde_json::from_str::<Vec<BTreeMap<String, Box<RawValue>>>>(&text).unwrap() {
            rows += 1;
            let ask = row["ask"].get();
            let answer = eval::answer(logic, ask);
            if let Err(expected) = check(&row, &answer) {
                wrong.push(format!("{}\n  ask      {ask}\n  answer   {answer}\n  expected {expected}", file.display()));
            }
        }
    }
    assert!(rows > 200, "only {rows} rows");
    assert!(wrong.is_empty(), "{} of {rows} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Holds an answer against what a row expects; the error is what was expected.
fn check(row: &BTreeMap<String, Box<RawValue>>, line: &str) -> Result<(), String> {
    let answer: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let ok = &answer["ok"];
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let last = ok.as_array().and_then(|steps| steps.last());
    let all_in = |expected: &Value, found: &str| {
        expected.as_array().is_some_and(|parts| parts.iter().all(|part| found.contains(&text(part))))
    };
    let states = || -> Option<Value> { ok.as_array()?.iter().map(|step| Some(step["state"].clone())).collect() };
    for (key, expected) in row {
        let expected = &serde_json::from_str::<Value>(expected.get()).map_err(|error| error.to_string())?;
        let holds = match key.as_str() {
            "ask" | "seed" | "why" => true,
            "answer" => *expected == line,
            "ok" => ok == expected,
            "has" => contains(ok, expected),
            "ok_contains" => all_in(expected, &text(ok)),
            "error" => answer["error"].is_string() && all_in(expected, &text(&answer["error"])),
            "last_done" => last.is_some_and(|last| contains(&last["done"], expected)),
            "last_contains" => last.is_some_and(|last| all_in(expected, &text(&last["done"]["text"]))),
            "states" => states().as_ref() == Some(expected),
            unknown => return Err(format!("a key that is known, not {unknown:?}")),
        };
        if !holds {
            return Err(format!("{key}: {expected}"));
        }
    }
    Ok(())
}

/// Whether every member of an object is in the other.
fn contains(found: &Value, expected: &Value) -> bool {
    expected.as_object().is_some_and(|members| members.iter().all(|(key, value)| found.get(key) == Some(value)))
}
