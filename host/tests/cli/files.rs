//! Tests `toolgate schema` and `toolgate import`, and that nothing but a regular file is read.

use serde_json::{Value, json};

use crate::place::{Place, TOOLGATE, demo};

#[test]
fn the_schema_is_json_schema_with_every_key() {
    let ran = Place::new().run(&["schema"]).ends(0);
    assert_eq!(ran.stderr, "");
    let schema: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for key in ["version", "servers", "names", "retry", "masking", "inputs", "max_result_bytes"] {
        assert!(schema["properties"][key].is_object(), "{key} is missing");
    }
    let text = schema.to_string();
    for key in ["command", "env_file", "working_dir", "timeouts", "allow", "deny", "inherit_env", "protocol"] {
        assert!(text.contains(&format!("\"{key}\":{{")), "{key} is missing");
    }
}

#[test]
fn what_was_imported_works_as_it_is() {
    let entry = demo();
    let codex =
        format!("[mcp_servers.demo]\ncommand = {TOOLGATE:?}\nargs = [\"demo-server\"]\nenv = {{ A = \"b\" }}\n");
    for (client, name, content) in [
        ("claude-desktop", "claude_desktop_config.json", json!({"mcpServers": {"demo": entry}}).to_string()),
        ("claude-code", ".mcp.json", json!({"mcpServers": {"demo": entry}}).to_string()),
        ("cursor", "mcp.json", json!({"mcpServers": {"demo": entry}}).to_string()),
        ("gemini", "settings.json", json!({"mcpServers": {"demo": entry}}).to_string()),
        ("vscode", "mcp.json", json!({"servers": {"demo": entry}, "inputs": []}).to_string()),
        ("codex", "config.toml", codex),
    ] {
        let place = Place::new();
        let file = place.file(name, content);
        let ran = place.run(&["import", "--from", client, file.to_str().unwrap()]).ends(0);
        assert_eq!(ran.stderr, "", "{client}");
        let out = place.path("work/toolgate.yaml");
        let ran_out =
            place.run(&["import", "--from", client, file.to_str().unwrap(), "--out", "toolgate.yaml"]).ends(0);
        assert_eq!(ran_out.stdout, "", "{client}");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), ran.stdout, "{client}");
        place.run(&["tools", "--config", out.to_str().unwrap()]).ends(0).prints("demo__echo");
    }
}

#[test]
fn secrets_stay_variables_and_what_is_left_out_is_told() {
    let place = Place::new().set("KEY", "planted-in-the-environment");
    let content = json!({"mcpServers": {
        "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${KEY}"}},
        "odd": {"type": "sdk", "name": "x"},
    }});
    let file = place.file("mcp.json", content.to_string());
    let ran = place.run(&["import", "--from", "claude-code", file.to_str().unwrap()]).ends(0);
    let ran = ran.prints("Bearer ${KEY}").says("odd");
    assert!(!ran.stdout.contains("planted") && !ran.stdout.contains("odd"), "{ran:?}");
}

#[test]
fn a_file_that_is_there_is_never_written_over() {
    let place = Place::new();
    let file = place.file("mcp.json", json!({"mcpServers": {"demo": demo()}}).to_string());
    let file = file.to_str().unwrap();
    place.file("work/toolgate.yaml", "mine");
    place.run(&["import", "--from", "cursor", file, "--out", "toolgate.yaml"]).ends(2).says("toolgate.yaml");
    assert_eq!(std::fs::read_to_string(place.path("work/toolgate.yaml")).unwrap(), "mine");
    place.run(&["import", "--from", "cursor", "no.json"]).ends(2).says("no.json: cannot be read");
    place.file("work/useless.json", r#"{"mcpServers": {"a": {"comand": "x"}}}"#);
    let ran = place.run(&["import", "--from", "cursor", "useless.json"]).ends(2).says("did you mean \"command\"?");
    assert_eq!(ran.says("there is no server in it that can be imported").stdout, "");
    place.run(&["import", "--from", "nobody", file]).ends(2).says("possible values: claude-desktop, claude-code");
    let own = place.file("work/own.yaml", "version: 1\nservers: {}\n");
    place.run(&["import", "--from", "cursor", own.to_str().unwrap()]).ends(2).says("nothing to import");
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_at_once() {
    let place = Place::new();
    let pipe = place.path("work/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    for args in [
        &["route", "demo__add", "{}", "--logic", pipe][..],
        &["route", "demo__add", "{}", "--servers", pipe],
        &["route", "demo__add", "{}", "--schema", pipe],
        &["read", pipe],
        &["route", "demo__add", &format!("@{pipe}")],
        &["tools", "--config", pipe],
        &["status", "--gateway=http://127.0.0.1:9", "--token-file", pipe],
    ] {
        place.run(args).ends(2).says("not a regular file");
    }
    let tls = json!({"ca": pipe});
    let content = json!({"version": 1, "servers": {"web": {"url": "https://127.0.0.1:9/mcp", "tls": tls}}});
    let config = place.file("work/toolgate.json", content.to_string());
    let ran = place.run(&["tools", "--config", config.to_str().unwrap()]);
    assert!(ran.stderr.contains("not a regular file"), "{ran:?}");
    // What the shell hands over is read.
    let script = format!("{TOOLGATE} route x__y '{{}}' --servers <(echo nonsense)");
    let ran = place.program("bash", &["-c", &script]).output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert!(told.contains("/dev/fd/") && !told.contains("regular"), "{told}");
}
