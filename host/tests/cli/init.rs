//! Tests `toolgate init`: one configuration from the files of all clients, and one entry in a client's file.

use std::path::Path;

use serde_json::{Value, json};

use crate::place::{Place, TOOLGATE, demo, each};

/// A home with servers of several clients.
fn clients() -> Place {
    let place = Place::new();
    let secret = json!({"command": TOOLGATE, "args": ["demo-server"], "env": {"API_KEY": "planted-1234567890"}});
    for (name, content) in [
        ("home/.cursor/mcp.json", json!({"mcpServers": {"demo": demo(), "my keys": secret}}).to_string()),
        ("home/.claude.json", json!({"numStartups": 3, "mcpServers": {"same": demo()}}).to_string()),
        ("home/.codex/config.toml", "[mcp_servers.demo]\nurl = \"https://example.com/mcp\"\n".to_owned()),
        ("home/.gemini/settings.json", json!({"theme": "dark"}).to_string()),
        ("home/.config/Code/User/mcp.json", "{\"servers\": {,}}".to_owned()),
    ] {
        place.file(name, content);
    }
    place
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn own(place: &Place) -> std::path::PathBuf {
    place.path("home/.config/toolgate/toolgate.yaml")
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_servers_of_all_clients_become_one_file() {
    let place = clients();
    let ran = place.run(&["init"]).ends(0).prints("with 3 servers; only you can read it");
    let ran = ran.prints("same  stdio\n").prints("my keys  stdio      called my-keys here\n");
    let ran = ran.prints("demo     stdio      the same as same above\n").prints("demo  http\n");
    let ran = ran.prints("  no servers\n").prints("cannot be read:").prints("mcp.json:1:");
    let ran = ran.prints("secrets in it, in plain text as your clients had them: servers.my-keys.env.API_KEY");
    let ran = ran.says("`toolgate check` connects them all");
    assert!(!ran.stdout.contains("planted") && !ran.stderr.contains("planted"), "{ran:?}");
    let written = text(&own(&place));
    assert!(written.contains("# from ") && written.contains("planted-1234567890"), "{written}");
    #[cfg(unix)]
    assert_eq!(mode(&own(&place)), 0o600);
    let listed = place.run(&["check", "--json", "--server", "same", "--server", "my-keys"]).ends(0).json();
    assert_eq!(each(&listed["servers"], "/server"), ["same", "my-keys"]);
}

#[test]
fn what_is_there_is_never_written_over_without_force() {
    let place = clients();
    place.run(&["init", "--dry-run"]).ends(0).prints("would write").prints("servers:");
    assert!(!own(&place).exists(), "a dry run writes nothing");
    let ran = place.run(&["init", "--dry-run"]);
    assert!(!ran.stdout.contains("planted"), "{ran:?}");
    place.file("home/.config/toolgate/toolgate.yaml", "version: 1\nservers: {mine: {command: x}}\n");
    let ran = place.run(&["init"]).ends(2).prints("Cursor").says("is there already; ");
    assert!(ran.stderr.contains("--client"), "{ran:?}");
    let forced =
        place.run(&["init", "--force"]).ends(0).says("is the file as it was").says("that only that file has: mine");
    assert!(forced.stdout.contains("wrote "), "{forced:?}");
    assert!(text(&own(&place)).contains("my-keys"));
    let out = place.run(&["init", "--out", "here.yaml"]).ends(0);
    assert!(out.stdout.contains("here.yaml"), "{out:?}");
    place.run(&["tools", "--config", "here.yaml", "--server", "same"]).ends(0).prints("same__echo");
    place.run(&["init", "--out", "here.json"]).ends(2).says("give it a name that ends with .yaml");
}

#[test]
fn force_says_which_rules_are_lost() {
    let place = clients();
    place.run(&["init"]).ends(0);
    let file = own(&place);
    std::fs::write(&file, text(&file).replacen("same:\n", "same:\n    deny: [sleep]\n", 1)).unwrap();
    let ran = place.run(&["init", "--force"]).ends(0).says("a rule is looser than before: server \"same\": ");
    assert!(ran.stderr.contains("sleep"), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn a_device_or_a_pipe_is_not_replaced() {
    let place = clients();
    let pipe = place.path("work/pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    place.run(&["init", "--force", "--out", "pipe.yaml"]).ends(2).says("it is not a regular file");
    assert!(!std::fs::metadata(&pipe).unwrap().is_file());
}

#[test]
fn what_init_and_import_write_is_trusted_as_it_is() {
    let place = clients();
    place.run(&["init", "--out", "toolgate.yaml"]).ends(0);
    place.run(&["tools", "--server", "same"]).ends(0).prints("same__echo");
    let file = place.path("work/toolgate.yaml");
    std::fs::write(&file, text(&file) + "# mine\n").unwrap();
    place.run(&["tools"]).ends(2).says("is not trusted yet").says("only the layout or comments");

    let place = clients();
    let from = place.path("home/.cursor/mcp.json");
    place.run(&["import", "--from", "cursor", from.to_str().unwrap(), "-o", "toolgate.yaml"]).ends(0);
    place.run(&["tools", "--server", "demo"]).ends(0).prints("demo__echo");
}

#[test]
fn servers_of_a_project_are_disabled_until_its_file_is_trusted() {
    let place = Place::new();
    let project = json!({"mcpServers": {"theirs": {"command": TOOLGATE, "args": ["demo-server"]}}});
    place.file("work/.mcp.json", project.to_string());
    let ran = place.run(&["init"]).ends(0).prints("not trusted:").prints("toolgate trust ");
    ran.prints("`toolgate init --force`").prints("with 1 server (1 disabled)");
    assert!(text(&own(&place)).contains("enabled: false"));
    let config = own(&place);
    let config = config.to_str().unwrap();
    place.run(&["check", "--config", config]).ends(0).prints("- theirs  disabled");
    place.run(&["trust", ".mcp.json"]).ends(0);
    let ran = place.run(&["init", "--force"]).ends(0).says("here, toolgate finds");
    assert!(!ran.stdout.contains("not trusted"), "{ran:?}");
    place.run(&["tools", "--config", config]).ends(0).prints("theirs__echo");
}

#[test]
fn the_servers_of_claude_code_for_this_folder_are_found() {
    let place = Place::new();
    let here = std::fs::canonicalize(place.path("work")).unwrap();
    let other = json!({"mcpServers": {"other": demo()}});
    let local = json!({"mcpServers": {"local": {"command": "./run.sh"}}});
    let content = json!({"projects": {here.to_str().unwrap(): local, "/elsewhere": other}});
    place.file("home/.claude.json", content.to_string());
    let report = place.run(&["init", "--json"]).ends(0).json();
    assert_eq!(report["servers"], json!(["local"]));
    assert!(text(&own(&place)).contains(&format!("{}/run.sh", here.display())), "{}", text(&own(&place)));
}

#[test]
fn with_nothing_to_find_it_says_where_it_looked() {
    let place = Place::new();
    let ran = place.run(&["init"]).ends(2).says("no server of an MCP client was found").says(".cursor/mcp.json");
    assert!(!own(&place).exists(), "{ran:?}");
    place.file("work/mcp.json", json!({"mcpServers": {"demo": demo()}}).to_string());
    place.run(&["init"]).ends(2).says("mcp.json as it is, such as `toolgate check`");
}

#[test]
fn a_client_gets_one_entry_and_keeps_its_own_until_they_are_moved() {
    let place = clients();
    let file = place.path("home/.cursor/mcp.json");
    let before = "// mine\n{\n  \"mcpServers\": {\n    \"demo\": {\"command\": \"x\"}, // first\n  },\n  \"z\": 1\n}\n";
    place.file("home/.cursor/mcp.json", before);
    #[cfg(unix)]
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let ran = place.run(&["init", "--client", "cursor"]).ends(0);
    let ran = ran.prints("has the entry \"toolgate\"").prints("so their tools appear twice: demo; --replace");
    let ran = ran.prints("`toolgate init --client cursor --undo` puts it back").says("toolgate is not in PATH");
    let after = text(&file);
    assert!(
        after.starts_with("// mine\n{\n  \"mcpServers\": {\n    \"demo\": {\"command\": \"x\"}, // first\n"),
        "{after}"
    );
    assert!(after.ends_with("\n  \"z\": 1\n}\n"), "{after}");
    let args = format!("[\"serve\", \"--config\", {}]", json!(own(&place)));
    assert!(after.contains("\"command\": \"toolgate\"") && after.contains(&args), "{after}\n{ran:?}");
    #[cfg(unix)]
    assert_eq!(mode(&file), 0o640);

    let again = place.run(&["init", "--client", "cursor", "--json"]).ends(0).json();
    assert_eq!((&again["client"]["changed"], &again["written"]), (&json!(false), &json!(false)));
    let moved = place.run(&["init", "--client", "cursor", "--replace", "--json"]).ends(0).json();
    assert_eq!((&moved["client"]["moved"], &moved["client"]["left"]), (&json!(["demo"]), &json!([])));
    assert!(!text(&file).contains("demo"), "{}", text(&file));
    #[cfg(unix)]
    assert_eq!(mode(Path::new(moved["client"]["backup"].as_str().unwrap())), 0o640);

    place.run(&["init", "--client", "cursor", "--undo"]).ends(0).prints("is as it was");
    assert_eq!(text(&file), after);
    place.run(&["init", "--client", "cursor", "--undo"]).ends(0);
    assert_eq!(text(&file), before);
    #[cfg(unix)]
    assert_eq!(mode(&file), 0o640);
    place.run(&["init", "--client", "cursor", "--undo"]).ends(2).says("there is nothing to undo");
}

#[test]
fn a_file_that_changed_since_is_not_put_back_without_force() {
    let place = clients();
    let file = place.path("home/.codex/config.toml");
    let before = text(&file);
    place.run(&["init", "--client", "codex"]).ends(0);
    assert!(text(&file).contains("[mcp_servers.toolgate]"));
    std::fs::write(&file, text(&file) + "\n[tui]\n").unwrap();
    place.run(&["init", "--client", "codex", "--undo"]).ends(2).says("has changed since").says("--force");
    assert!(text(&file).contains("[tui]"));
    place.run(&["init", "--client", "codex", "--undo", "--force"]).ends(0);
    assert_eq!(text(&file), before);
}

#[test]
fn a_server_that_the_configuration_lacks_stays_with_its_client() {
    let place = clients();
    let config = place.file("home/mine.yaml", "version: 1\nservers: {}\n");
    let init = ["init", "--client", "cursor", "--replace", "--config", config.to_str().unwrap()];
    let dry = place.run(&[&init[..], &["--dry-run"]].concat()).ends(0).prints("with this entry in it");
    assert!(!text(&place.path("home/.cursor/mcp.json")).contains("\"serve\""), "{dry:?}");
    place.run(&init).ends(0).prints("is used as it is").prints("which the configuration does not have: demo, my keys");
    let after: Value = serde_json::from_str(&text(&place.path("home/.cursor/mcp.json"))).unwrap();
    assert_eq!(after["mcpServers"]["demo"], demo());
    assert_eq!(after["mcpServers"]["toolgate"]["args"][2], config.to_str().unwrap());
}

#[test]
fn a_client_without_a_file_gets_one_that_undo_removes() {
    let place = clients();
    let file = place.path("work/.vscode/mcp.json");
    place.run(&["init", "--client", "vscode", "--project"]).ends(0);
    let entry: Value = serde_json::from_str(&text(&file)).unwrap();
    assert_eq!(entry["servers"]["toolgate"]["type"], "stdio");
    // The entry starts the gateway, so it is no server of the gateway.
    let report = place.run(&["init", "--force", "--json"]).ends(0).json();
    assert_eq!(report["servers"].as_array().unwrap().len(), 3, "{report}");
    place.run(&["init", "--client", "vscode", "--project", "--undo"]).ends(0).prints("did not exist before");
    assert!(!file.exists());
    place.run(&["init", "--client", "claude-desktop", "--project"]).ends(2).says("has no file for this folder");
    place.run(&["init", "--undo"]).ends(2).says("--client");
}
