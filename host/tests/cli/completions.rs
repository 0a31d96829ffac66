//! Tests completion as a person meets it: in a bash, zsh and fish at a terminal, and in what the scripts ask the program.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::place::{Place, Ran, demo, fed, fixture_with};
use crate::serving::Serving;
use crate::signals::until;

/// What a shell is offered for the last word of a command line.
fn offered(place: &Place, line: &[&str]) -> Vec<String> {
    let mut command = place.command(&[&["--", "toolgate"], line].concat());
    let ran: Ran = command.env("TOOLGATE_COMPLETE", "fish").output().unwrap().into();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    ran.stdout.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

/// A place whose variable names a configuration with these servers.
fn configured(servers: &Value) -> Place {
    let place = Place::new();
    let file = place.file("home/toolgate.yaml", json!({"version": 1, "servers": servers}).to_string());
    place.set("TOOLGATE_CONFIG", file.to_str().unwrap())
}

/// Types at a shell on a terminal until it exits, if the shell is installed.
fn typed_at(place: &Place, shell: &[&str], typed: &str) -> Option<Ran> {
    if Command::new(shell[0]).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: {} is not installed", shell[0]);
        return None;
    }
    let mut command = place.program(shell[0], &shell[1..]);
    let mut at_terminal = place.given_a_terminal(command.env("TERM", "dumb"));
    Some(fed(&mut at_terminal, typed))
}

#[test]
fn bash_completes_a_tool_of_the_demo_server() {
    let typed = "source <(toolgate completions bash)\ntoolgate call demo__fore\t'city: Rome, days: 1'\nexit\n";
    let ran = typed_at(&Place::new(), &["bash", "--norc", "--noprofile", "-i"], typed);
    ran.expect("the tests need bash").prints("The weather in Rome");
}

#[test]
fn zsh_completes_a_tool_of_the_demo_server() {
    let call = "toolgate call demo__fore\t'city: Rome, days: 1'\nexit\n";
    let sourced = format!("autoload -Uz compinit; compinit -u -D\nsource <(toolgate completions zsh)\n{call}");
    if let Some(ran) = typed_at(&Place::new(), &["zsh", "-f", "-i"], &sourced) {
        ran.prints("The weather in Rome");
    }
    // As a package installs it: zsh loads the file when somebody asks for the first time.
    let place = Place::new();
    place.file("site/_toolgate", place.run(&["completions", "zsh"]).ends(0).stdout);
    let site = place.path("site");
    let loaded = format!("fpath=({} $fpath); autoload -Uz compinit; compinit -u -D\n{call}", site.display());
    if let Some(ran) = typed_at(&place, &["zsh", "-f", "-i"], &loaded) {
        ran.prints("The weather in Rome");
    }
}

#[test]
fn fish_completes_a_tool_of_the_demo_server() {
    let script = "toolgate completions fish | source; complete -C 'toolgate call demo__fo'";
    if let Some(ran) = typed_at(&Place::new(), &["fish", "--no-config", "-c", script], "") {
        ran.prints("demo__forecast");
    }
}

#[test]
fn commands_options_and_servers_of_the_configuration_are_completed() {
    let place = configured(&json!({"files": demo(), "forge": demo(), "$(touch x)": demo()}));
    let named = place.file("home/other.yaml", json!({"version": 1, "servers": {"other": demo()}}).to_string());
    let named = named.to_str().unwrap();
    for (line, expected) in [
        (&["compl"][..], &["completions"][..]),
        (&["tools", "--stri"], &["--strict"]),
        (&["tools", "--server", ""], &["files", "forge"]),
        (&["check", "--server", "fo"], &["forge"]),
        (&["check", "--server=fo"], &["--server=forge"]),
        (&["serve", "--expose", "fi"], &["files"]),
        (&["tools", "--config", named, "--server", ""], &["other"]),
        (&["tools", "--config", "/nowhere", "--server", ""], &[]),
        // Their tools would be known only from the servers.
        (&["call", "files"], &[]),
        (&["tools", "--gateway", "--server", "f"], &[]),
    ] {
        assert_eq!(offered(&place, line), expected, "{line:?}");
    }
}

#[test]
fn without_a_configuration_the_demo_server_is_completed() {
    let place = Place::new();
    assert_eq!(offered(&place, &["call", "demo.f"]), ["demo.fail", "demo.forecast"]);
    assert_eq!(offered(&place, &["route", "demo__a"]), ["demo__add"]);
    assert_eq!(offered(&place, &["call", "--server", "d"]), ["demo"]);
}

#[test]
fn an_untrusted_file_in_the_working_directory_is_no_question() {
    let place = Place::new();
    place.file("work/mcp.json", json!({"mcpServers": {"theirs": demo()}}).to_string());
    assert_eq!(offered(&place, &["tools", "--server", ""]), ["theirs"]);
}

#[test]
fn tools_are_those_that_a_running_gateway_knows_and_no_server_is_started() {
    let notes = Place::new();
    let starts = notes.path("starts");
    let place = configured(&json!({"demo": demo(), "counted": fixture_with("counts", &[starts.to_str().unwrap()])}));
    let _serving = Serving::start(&place, &[]);
    until("gateway", || (offered(&place, &["call", "--gateway", "--server", "dem"]) == ["demo"]).then_some(()));
    for name in ["demo__", "counted__"] {
        assert!(offered(&place, &["call", name]).is_empty(), "it has asked no server yet");
    }
    assert!(!starts.exists(), "a server was started");

    place.run(&["call", "demo.echo", "hi", "--gateway"]).ends(0);
    until("tools", || (offered(&place, &["call", "demo__fo"]) == ["demo__forecast"]).then_some(()));
    until("tools", || (offered(&place, &["call", "--gateway", "demo.a"]) == ["demo.add"]).then_some(()));
    // Another configuration has other servers.
    let other = place.file("home/other.yaml", json!({"version": 1, "servers": {"other": demo()}}).to_string());
    assert!(offered(&place, &["call", "--config", other.to_str().unwrap(), "demo__"]).is_empty());
}
