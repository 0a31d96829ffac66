//! Tests that a rule that cannot be read disables what it is for.

use serde_json::{Value, json};

use crate::place::{Place, and, fixture};
use crate::serving::{Serving, Web};

const TOKEN: &str = "0123456789abcdef";

#[test]
fn rules_beside_mcp_servers_hold_whatever_the_file_is_called() {
    let of_all = json!({
        "read_only": true, "destructive": "deny", "masking": {"groups": ["all"]},
        "gateway": {"tokens": [{"principal": "p", "token": TOKEN}]},
    });
    let servers = json!({"a": fixture("ok"), "wipes": fixture("destructive")});
    let listed: Vec<Value> = [("a", "ok"), ("wipes", "destructive")]
        .iter()
        .map(|(name, habit)| and(fixture(habit), json!({"name": name})))
        .collect();
    for (file, config) in [
        ("toolgate.yaml", json!({"mcpServers": servers})),
        (".mcp.json", json!({"mcpServers": servers})),
        ("mcp.json", json!({"servers": servers, "inputs": []})),
        ("list.json", json!({"servers": listed})),
    ] {
        let place = Place::new();
        let path = place.file(&format!("home/{file}"), and(config, of_all.clone()).to_string());
        let serving = Serving::start(&place, &["--http", "127.0.0.1:0", "--config", &path.display().to_string()]);
        let address = serving.address();
        let web = |token| Web { address: &address, token, session: None };
        assert_eq!(web(None).modern_tools(), Err(401), "{file}");
        assert_eq!(web(Some(TOKEN)).modern_tools(), Ok(vec!["a__look".to_owned()]), "{file}");
    }
}

#[test]
fn masks_beside_mcp_servers_hide_what_they_are_for() {
    let config = json!({"mcpServers": {"a": fixture("describes")}, "masking": {"groups": ["all"]}});
    let ran = Place::configured(&config).run(&["tools", "--json"]).ends(0);
    assert!(!ran.stdout.contains("hunter2hunter2") && ran.stdout.contains("MASKED"), "{ran:?}");
}

#[test]
fn a_misspelt_rule_disables_its_server_and_no_other() {
    for (key, meant) in [("maskng", "masking"), ("toolsDeny", "deny"), ("denny", "deny"), ("read_onyl", "read_only")] {
        let servers = json!({"a": and(fixture("ok"), json!({key: ["do"]})), "b": fixture("ok")});
        for config in [json!({"servers": servers}), json!({"mcpServers": servers})] {
            let place = Place::configured(&config);
            let mut serving = Serving::greet(&place, &[]);
            assert_eq!(serving.tools(), ["b__do", "b__look"], "{config}");
            assert_ne!(serving.call("a__look")["result"]["content"][0]["text"], "done", "{config}");
            let checked = place.run(&["check"]);
            assert!(checked.code != 0 && (checked.stdout.clone() + &checked.stderr).contains(key), "{checked:?}");
            assert!(
                config.get("servers").is_some() || (checked.stdout.clone() + &checked.stderr).contains(meant),
                "{checked:?}"
            );
        }
    }
}

#[test]
fn a_misspelt_rule_for_all_is_an_error() {
    for key in ["maskng", "read_onyl", "destructve", "gatewy", "deny"] {
        let config = json!({"mcpServers": {"a": fixture("ok")}, key: true});
        Place::configured(&config).run(&["tools"]).ends(2).says(&format!("unknown key {key:?} looks like a rule"));
    }
}
