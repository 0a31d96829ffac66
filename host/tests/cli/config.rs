//! Tests which configuration is used: how it is found, whether it is trusted, and which formats it may have.

use std::path::Path;

use serde_json::json;

use crate::place::{Place, TOOLGATE, and, demo};

fn servers() -> String {
    json!({"mcpServers": {"mine": demo()}}).to_string()
}

fn tools(file: &Path) -> [&str; 3] {
    ["tools", "--config", file.to_str().unwrap()]
}

#[test]
fn a_file_of_the_working_directory_is_used_once_it_is_trusted() {
    for name in ["toolgate.yaml", ".mcp.json", "mcp.json"] {
        let place = Place::new();
        let servers = if name == "toolgate.yaml" { servers().replace("mcpServers", "servers") } else { servers() };
        let file = place.file(&format!("work/{name}"), &servers);
        let refusal = format!("{} was found in the working directory and is not trusted yet", file.display());
        for command in [&["tools"][..], &["call", "mine.echo", "x"], &["check"], &["instructions"]] {
            let ran = place.run(command).ends(2).says(&refusal).says("run `toolgate trust`");
            assert_eq!(ran.stdout, "", "{command:?}");
        }
        place.run(&tools(&file)).ends(0).prints("mine__echo");
        place.run(&["trust"]).ends(0).says(&format!("trusted {} with 1 server", file.display()));
        place.run(&["tools"]).ends(0).says(&format!("using {}", file.display())).prints("mine__echo");
        place.file(&format!("work/{name}"), servers + "\n");
        place.run(&["tools"]).ends(2).says(&refusal);
    }
}

#[test]
fn what_an_env_file_sets_is_trusted_with_the_file_that_names_it() {
    let place = Place::new();
    let servers = json!({"mine": and(demo(), json!({"envFile": ".env"})), "other": demo()});
    place.file("work/mcp.json", json!({"mcpServers": servers}).to_string());
    place.file("work/.env", "MODE=fast\n");
    place.run(&["tools"]).ends(2).says("is not trusted yet");
    place.run(&["trust"]).ends(0);
    place.run(&["tools"]).ends(0).prints("mine__echo");
    for content in ["LD_PRELOAD=./evil.so\n", "MODE=fast\nPATH=.\n", "MODE=slow\n", ""] {
        place.file("work/.env", content);
        for command in [&["tools"][..], &["call", "other.echo", "text: x"], &["check", "--server", "other"]] {
            place.run(command).ends(2).says("is not trusted yet").says("the env file ").says("/.env changed");
        }
        place.run(&["trust"]).ends(0);
        place.run(&["tools"]).ends(0).prints("mine__echo");
    }
    std::fs::remove_file(place.path("work/.env")).unwrap();
    place.run(&["call", "other.echo", "text: x"]).ends(2).says("/.env changed");
    place.run(&["trust"]).ends(0);
    place.run(&["call", "other.echo", "text: x"]).ends(0);
    place.file("work/.env", "NODE_OPTIONS=--require=./evil.js\n");
    place.run(&["call", "other.echo", "text: x"]).ends(2).says("/.env changed");
}

#[cfg(unix)]
#[test]
fn a_person_at_a_terminal_is_asked_for_trust() {
    let place = Place::new();
    place.file("work/mcp.json", servers());
    let question = "can start programs on this machine. Trust it as it is now? [y/N]";
    place.run_at_terminal(&["tools"], "n\n").ends(2).prints(question).prints("is not trusted");
    place.run(&["tools"]).ends(2);
    place.run_at_terminal(&["tools"], "y\n").ends(0).prints(question).prints("mine__echo");
    place.run(&["tools"]).ends(0).prints("mine__echo");
}

#[cfg(unix)]
#[test]
fn a_person_is_told_what_changed_since_a_file_was_trusted() {
    let place = Place::new();
    let entry = json!({"command": TOOLGATE, "args": ["demo-server"], "env": {"API_KEY": "planted-1111111111"}});
    let before = json!({"mcpServers": {"mine": entry, "gone": demo()}});
    place.file("work/mcp.json", before.to_string());
    place.run(&["trust"]).ends(0);
    let mut after = before;
    after["mcpServers"].as_object_mut().unwrap().remove("gone");
    after["mcpServers"]["mine"]["env"]["API_KEY"] = json!("planted-2222222222");
    after["mcpServers"]["mine"]["args"] = json!(["demo-server", "--token", "planted-3333333333"]);
    after["mcpServers"]["evil"] = json!({"command": "sh", "args": ["-c", "touch was-here"]});
    place.file("work/mcp.json", after.to_string());
    let changes = [
        "server \"evil\" is new: sh -c touch was-here",
        "server \"gone\" is gone",
        "mcpServers.mine.args changed: ",
        "mcpServers.mine.env changed",
    ];
    let refused = place.run(&["tools"]).ends(2).says("is not trusted yet").says("run `toolgate trust`");
    let declined = place.run_at_terminal(&["tools"], "n\n").ends(2).prints("[y/N]");
    for text in [&refused.stderr, &declined.stdout] {
        changes.iter().for_each(|change| assert!(text.contains(change), "no {change:?} in {text}"));
        assert!(!text.contains("planted-"), "{text}");
    }
    for entry in std::fs::read_dir(place.path("home/.local/state/toolgate/trusted-summaries")).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let file = entry.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains("planted-"));
    }
    assert!(!place.path("work/was-here").exists());
    place.run_at_terminal(&["tools", "--server", "mine"], "y\n").prints("[y/N]");
    place.run(&["trust"]).ends(0);
    place.file("work/mcp.json", after.to_string() + "\n");
    place.run(&["tools"]).ends(2).says("no key or value changed");
}

#[test]
fn what_starts_nothing_needs_no_trust_unless_values_run_commands() {
    let place = Place::new();
    place.file("work/cases.yaml", "cases:\n  - {call: a.b, expect: deny}\n");
    let own =
        |more: &str| format!("version: 1\n{more}servers: {{a: {{command: touch, args: [was-here], deny: [b]}}}}\n");
    place.file("work/toolgate.yaml", own(""));
    place.run(&["rules", "test", "cases.yaml"]).ends(0);
    for command in [&["schema"][..], &["component"], &["completions", "bash"]] {
        place.run(command).ends(0);
    }
    place.file("work/toolgate.yaml", own("allow_commands: true\n"));
    place.run(&["rules", "test", "cases.yaml"]).ends(2).says("is not trusted yet");
    place.run(&["check"]).ends(2).says("is not trusted yet");
    assert!(!place.path("work/was-here").exists());
}

#[test]
fn trust_is_remembered_in_the_folder_for_state() {
    let place = Place::new();
    place.file("work/mcp.json", servers());
    place.run(&["trust", "mcp.json"]).ends(0);
    let remembered = |folder: &str| std::fs::read_dir(place.path(folder)).map_or(0, Iterator::count);
    assert_eq!(remembered("home/.local/state/toolgate/trusted"), 1);
    let elsewhere = Place::new();
    elsewhere.file("work/mcp.json", servers());
    let state = elsewhere.path("state").to_str().unwrap().to_owned();
    let elsewhere = elsewhere.set("XDG_STATE_HOME", &state);
    elsewhere.run(&["trust"]).ends(0);
    assert_eq!(std::fs::read_dir(elsewhere.path("state/toolgate/trusted")).unwrap().count(), 1);
    elsewhere.run(&["tools"]).ends(0).prints("mine__echo");
}

#[test]
fn there_is_nothing_to_trust_where_there_is_no_file() {
    let place = Place::new();
    place.run(&["trust"]).ends(2).says("there is no configuration file to trust in this folder");
    place.run(&["trust", "no.json"]).ends(2).says("no.json\", which the argument names");
    place.file("work/broken.json", "{\"mcpServers\": ");
    place.run(&["trust", "broken.json"]).ends(2).says("broken.json:1:");
}

#[test]
fn the_users_own_files_need_no_trust() {
    let place = Place::new();
    let own = place.file("home/.config/toolgate/toolgate.yaml", servers().replace("mcpServers", "servers"));
    place.run(&["tools"]).ends(0).says(&format!("using {}", own.display())).prints("mine__echo");

    let xdg = place.file("etc/toolgate/toolgate.json", json!({"servers": {"xdg": demo()}}).to_string());
    let folder = place.path("etc").to_str().unwrap().to_owned();
    let place = place.set("XDG_CONFIG_HOME", &folder);
    place.run(&["tools"]).ends(0).says(&format!("using {}", xdg.display())).prints("xdg__echo");

    let named = place.file("work/named.json", json!({"mcpServers": {"named": demo()}}).to_string());
    let place = place.set("TOOLGATE_CONFIG", "named.json");
    place.run(&["tools"]).ends(0).says(&format!("using {}", named.display())).prints("named__echo");

    let flag = place.file("flag.json", json!({"mcpServers": {"flag": demo()}}).to_string());
    place.run(&tools(&flag)).ends(0).prints("flag__echo");
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let place = Place::new();
    place.run(&["tools", "--config", "no.yaml"]).ends(2).says("no.yaml\", which --config names");
    place.run(&["tools", "--config", "."]).ends(2).says("is a folder; name the file in it");
    let place = place.set("TOOLGATE_CONFIG", "/nowhere/at-all.json");
    place.run(&["tools"]).ends(2).says("there is no file \"/nowhere/at-all.json\", which TOOLGATE_CONFIG names");
}

#[test]
fn every_shape_of_file_is_read() {
    let place = Place::new();
    let (program, entry) = (TOOLGATE, demo());
    let both = json!([TOOLGATE, "demo-server"]);
    for (name, content) in [
        ("servers.yaml", format!("version: 1\nservers:\n  demo:\n    command: {program}\n    args: [demo-server]\n")),
        ("claude_desktop_config.json", json!({"mcpServers": {"demo": entry}, "globalShortcut": ""}).to_string()),
        ("comments.json", format!("// mine\n{{\"mcpServers\": {{\"demo\": {entry},}}, /* end */}}")),
        (
            "mcp.json",
            json!({"inputs": [], "servers": {"demo": {"type": "stdio", "command": program,
            "args": ["demo-server"]}}})
            .to_string(),
        ),
        ("settings.json", json!({"mcp": {"servers": {"demo": entry}}, "editor.tabSize": 4}).to_string()),
        (
            ".gemini/settings.json",
            json!({"mcpServers": {"demo": {"command": program, "args": ["demo-server"],
            "trust": true, "includeTools": ["echo"]}}})
            .to_string(),
        ),
        (
            "config.toml",
            format!("model = \"x\"\n[mcp_servers.demo]\ncommand = {program:?}\nargs = [\"demo-server\"]\n"),
        ),
        ("zed.json", json!({"context_servers": {"demo": entry}}).to_string()),
        ("opencode.json", json!({"mcp": {"demo": {"type": "local", "command": both}}}).to_string()),
        ("bare.json", json!({"demo": entry}).to_string()),
        ("list.json", json!([{"name": "demo", "command": program, "args": ["demo-server"]}]).to_string()),
    ] {
        let file = place.file(&format!("home/{name}"), content);
        let ran = place.run(&tools(&file)).ends(0).prints("demo__echo");
        assert_eq!(ran.stderr, "", "{name}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let place = Place::new();
    for (name, content, code, says) in [
        ("empty.yaml", String::new(), 2, "the file is empty; begin with `servers:`"),
        ("syntax.json", "{\n  \"mcpServers\": {,}\n}".to_owned(), 2, "syntax.json:2:"),
        ("typo.yaml", "version: 1\nservres: {}\n".to_owned(), 2, "did you mean \"servers\"?"),
        (
            "unknown.yaml",
            "version: 1\nretrys: safe\nservers: {}\n".to_owned(),
            2,
            "unknown.yaml:2:1: unknown key \"retrys\"; did you mean \"retry\"?",
        ),
        ("version.yaml", "version: 9\nservers: {}\n".to_owned(), 2, "version.yaml:1:"),
        (
            "type.yaml",
            format!("servers:\n  a: {}\n  b:\n    command: 7x\n    timeouts: {{call: soon}}\n", demo()),
            0,
            "type.yaml:5:",
        ),
        (
            "foreign.json",
            json!({"mcpServers": {"a": {"command": TOOLGATE, "args": ["demo-server"], "colour": 1}}}).to_string(),
            0,
            "unknown key \"colour\"",
        ),
    ] {
        let file = place.file(&format!("home/{name}"), content);
        let ran = place.run(&tools(&file)).ends(code).says(says);
        assert_eq!(ran.stdout.contains("a__echo"), code == 0, "{ran:?}");
    }
}

#[test]
fn values_are_filled_in_from_variables() {
    let place = Place::new().set("PROGRAM", TOOLGATE).set("TOOLGATE_INPUT_WORD", "demo-server");
    let content = json!({
        "inputs": [{"id": "word", "type": "promptString"}],
        "servers": {"demo": {"command": "${env:PROGRAM}", "args": ["${input:word}"]}},
    });
    let file = place.file("home/mcp.json", content.to_string());
    place.run(&tools(&file)).ends(0).prints("demo__echo");
    let unanswered = Place::new().set("PROGRAM", TOOLGATE);
    unanswered.run(&tools(&file)).ends(2).says("word");
}

#[test]
fn the_log_is_as_loud_as_it_is_asked_to_be() {
    let place = Place::new();
    let file = place.file("home/mcp.json", servers());
    let quiet = place.run(&tools(&file)).ends(0);
    assert_eq!(quiet.stderr, "");
    let ran = place.run(&[&tools(&file)[..], &["-v"]].concat()).ends(0).says("connected");
    assert!(ran.stderr.contains("mine"), "a line says of which server it is: {ran:?}");
    let ran = place.run(&[&tools(&file)[..], &["-v", "--log-format", "json"]].concat()).ends(0);
    for line in ran.stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!(line["level"], "INFO");
    }
    let loud = place.set("TOOLGATE_LOG", "toolgate=debug");
    loud.run(&tools(&file)).ends(0).says("DEBUG");
    Place::new().set("TOOLGATE_LOG", "toolgate=loud").run(&["schema"]).ends(2).says("TOOLGATE_LOG");
    let misspelt = Place::new().set("TOOLGATE_LOG", "wran").run(&["schema"]).ends(2);
    misspelt.says("\"wran\" is not a level; there are: off, error,").says("; did you mean \"warn\"?");
}

#[test]
fn masks_that_cannot_be_used_are_told_with_their_place() {
    let place = Place::new();
    for (masking, told) in [
        (
            "{groups: [basics]}",
            "toolgate.yaml:2:10: masking: mask pattern group \"basics\" not found; there are: basic,",
        ),
        (
            "{custom: [{pattern: '(open'}]}",
            "toolgate.yaml:2:10: masking: custom mask pattern \"(open\" cannot be used: ",
        ),
    ] {
        let file = place.file("home/toolgate.yaml", format!("servers: {}\nmasking: {masking}\n", "{}"));
        place.run(&["tools", "--config", file.to_str().unwrap()]).ends(2).says(told);
    }
    // Which of two rules is meant, nobody knows.
    let twice = r#"{"mcpServers": {"a": {"command": "x", "deny": ["y"], "deny": []}}}"#;
    let file = place.file("home/mcp.json", twice);
    let ran = place.run(&["tools", "--config", file.to_str().unwrap()]).ends(2).says("\"deny\" is given twice");
    assert!(ran.stderr.contains("; keep the one that you mean") && !ran.stderr.contains("last one counts"), "{ran:?}");
}
