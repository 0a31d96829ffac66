//! Tests the settings that programs read from a configuration to embed the component.

use serde_json::json;

use crate::place::{Place, demo};

#[test]
fn settings_are_those_of_a_gate_and_of_a_principal() {
    let mut server = demo();
    server["deny"] = json!(["fail"]);
    server["ask"] = json!(["add"]);
    let config = json!({
        "servers": {"demo": server},
        "masking": {"groups": ["secrets"]},
        "rules": [{"name": "small", "tools": ["demo.add"], "when": "args.a > 5", "then": "deny"}],
        "gateway": {"tokens": [{"principal": "ann", "token": "0123456789abcdef0123456789abcdef", "servers": ["demo"]}]},
    });
    let place = Place::configured(&config);
    let settings = place.run(&["settings"]).ends(0).json();
    assert_eq!(settings["policy"]["servers"][0]["deny"], json!(["fail"]));
    assert_eq!(settings["policy"]["servers"][0]["ask"], json!(["add"]));
    assert_eq!(settings["policy"]["selection"], json!(null));
    assert_eq!(settings["masking"]["groups"], json!(["secrets"]));
    assert_eq!(settings["rules"]["lists"][0][0]["when"], "args.a > 5");
    assert_eq!(place.run(&["settings", "--principal", "local"]).ends(0).json(), settings);
    let of_ann = place.run(&["settings", "--principal", "ann"]).ends(0).json();
    assert_eq!(of_ann["policy"]["selection"][0]["name"], "demo");
    place.run(&["settings", "--principal", "bob"]).ends(5).says("no principal \"bob\"; there are: ann, local");
}

#[test]
fn settings_that_would_lack_a_rule_are_an_error_with_its_place() {
    for (wrong, told) in [
        (json!({"comand": "x"}), "servers.demo"),
        (json!({"command": "x", "deny": ["["]}), "servers.demo.deny"),
        (
            json!({"command": "x", "rules": [{"name": "r", "tools": ["*"], "when": "args.", "then": "deny"}]}),
            "the condition of rule",
        ),
    ] {
        let ran = Place::configured(&json!({"servers": {"demo": wrong}})).run(&["settings"]).ends(2).says(told);
        assert!(ran.stdout.is_empty(), "{ran:#?}");
    }
}
