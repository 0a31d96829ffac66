//! Tests that toolgate does not use a configuration, token or variable that another user could have written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, TOOLGATE, and, demo, fixture};
use crate::serving::Serving;

/// The file that the runs are told of.
const FILE: &str = "home/servers.yaml";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// A user who is neither root nor we.
pub const SOMEBODY: u32 = 65_533;

pub fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Only root can give a file to another user.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not tried: only root can give a file away");
    }
    root
}

/// Writes a file as somebody who replaces it at once, so that no half of it is seen, with this mode.
fn replace(place: &Place, name: &str, content: &Value, mode: u32) {
    let part = place.file("home/part", content.to_string());
    set(&part, mode);
    fs::rename(part, place.path(name)).unwrap();
}

#[test]
fn a_configuration_that_others_may_write_is_refused_and_the_error_names_the_chmod() {
    let place = Place::with(json!({"demo": demo()}));
    let file = place.path(FILE);
    set(&file, 0o646);
    let chmod = format!("run `chmod o-w {}`", file.display());
    for command in ["tools", "check", "serve", "trust", "access"] {
        place.run(&[command]).ends(2).says(&chmod).says("--allow-shared-files");
    }
    place.run(&["tools", "--allow-shared-files"]).ends(0).prints("demo__echo").says("WARN").says(&chmod);
    let allowed = Place::with(json!({"demo": demo()})).set("TOOLGATE_ALLOW_SHARED_FILES", "1");
    set(&allowed.path(FILE), 0o646);
    allowed.run(&["tools"]).ends(0).prints("demo__echo").says("chmod o-w");
    set(&file, 0o644);
    let ran = place.run(&["tools"]).ends(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn no_key_of_the_file_and_no_odd_value_of_the_variable_allows_it() {
    let config = json!({"version": 1, "allow_shared_files": true, "servers": {"demo": demo()}});
    let place = Place::configured(&config).set("TOOLGATE_ALLOW_SHARED_FILES", "0");
    place.run(&["tools"]).ends(2).says("allow_shared_files");
    set(&place.path(FILE), 0o646);
    place.run(&["tools"]).ends(2).says("chmod o-w");
}

#[test]
fn a_folder_above_that_others_may_write_is_refused_unless_it_is_sticky() {
    let place = Place::with(json!({"demo": demo()}));
    set(&place.path("home"), 0o757);
    let chmod = format!("chmod o-w {}`", place.path("home").display());
    place.run(&["tools"]).ends(2).says("can replace what is in it").says(&chmod);
    set(&place.path("home"), 0o1777);
    place.run(&["tools"]).ends(0);
}

/// As Kubernetes mounts a ConfigMap: everybody may write to the folder by its mode, and nobody can.
#[test]
#[cfg(target_os = "linux")]
fn a_folder_on_a_read_only_mount_passes_whatever_its_mode() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let folder = place.path("work/mounted");
    fs::create_dir(&folder).unwrap();
    let config = place.file("work/config.json", json!({"mcpServers": {"demo": demo()}}).to_string());
    let run = |options: &str, mode: &str| {
        let script = format!(
            "mount -t tmpfs -o mode=0777 none {folder} && cp {config} {folder}/mcp.json && chmod {mode} {folder}/mcp.json && mount -o remount,{options} {folder} || exit 99; \
             exec {TOOLGATE} tools --config {folder}/mcp.json",
            folder = folder.display(),
            config = config.display(),
        );
        let mut shell = std::process::Command::new("unshare");
        let toolgate = place.command::<&str>(&[]);
        shell.args(["--mount", "sh", "-c", &script]).current_dir(place.path("work"));
        shell.env_clear().envs(toolgate.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let ran = shell.output().expect("unshare runs");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (code, said) = run("ro", "644");
    if code == Some(99) || said.contains("unshare") {
        return eprintln!("not tried: nothing can be mounted here: {said}");
    }
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run("ro", "666");
    assert_eq!(code, Some(2), "a file that others may write stays closed: {said}");
    let (code, said) = run("rw", "644");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("chmod o-w"), "{said}");
}

#[test]
fn a_file_that_was_found_and_trusted_is_refused_once_others_may_write_it() {
    let place = Place::new();
    let file = place.file("work/toolgate.yaml", json!({"servers": {"demo": demo()}}).to_string());
    set(&file, 0o646);
    place.run(&["trust"]).ends(2).says("chmod o-w");
    set(&file, 0o644);
    place.run(&["trust"]).ends(0);
    place.run(&["tools"]).ends(0);
    set(&file, 0o646);
    place.run(&["tools"]).ends(2).says("chmod o-w");
    set(&file, 0o644);
    // Nor is the yes believed where somebody else could have put it.
    set(&place.path("home"), 0o757);
    place.run(&["tools"]).ends(2).says("is not trusted");
}

#[test]
fn files_of_variables_and_secrets_are_refused_with_the_server_that_needs_them() {
    let place = Place::new();
    for (name, content) in [("home/a.env", "A=b\n"), ("home/key", "word\n"), ("home/ca.pem", "x")] {
        set(&place.file(name, content), 0o646);
    }
    let url = "https://127.0.0.1:9/mcp";
    let config = json!({"servers": {
        "variables": and(fixture("ok"), json!({"env_file": "./a.env"})),
        "file": and(fixture("ok"), json!({"env": {"A": "${file:./key}"}})),
        "authority": {"url": url, "tls": {"ca": "./ca.pem"}},
        "fine": fixture("ok"),
    }});
    place.file(FILE, config.to_string());
    let file = place.path(FILE);
    let ran = place.run(&["check", "--config", file.to_str().unwrap()]).ends(2);
    for name in ["a.env", "key", "ca.pem"] {
        let chmod = format!("run `chmod o-w {}`", place.path("home").join(name).display());
        assert!(ran.stdout.contains(&chmod), "{name}: {ran:#?}");
    }
    assert!(ran.stdout.contains("✓ fine"), "{ran:#?}");
}

#[test]
fn a_gateway_does_not_start_with_a_token_or_a_key_that_others_may_write() {
    let place = Place::new();
    set(&place.file("home/token", TOKEN), 0o646);
    let config = json!({"gateway": {"tokens": [{"principal": "a", "file": "./token"}]}, "servers": {}});
    let file = place.file(FILE, config.to_string());
    let serve = ["serve", "--http", "127.0.0.1:0", "--config", file.to_str().unwrap()];
    place.run(&serve).ends(2).says("gateway").says(&format!("chmod o-w {}`", place.path("home/token").display()));
    set(&place.path("home/token"), 0o600);
    set(&place.file("home/key.pem", "x"), 0o646);
    place.file("home/cert.pem", "x");
    let tls = json!({"certificate": "./key.pem", "key": "./key.pem"});
    let config = json!({"gateway": {"tls": tls, "tokens": [{"principal": "a", "file": "./token"}]}, "servers": {}});
    place.file(FILE, config.to_string());
    place.run(&serve).ends(2).says(&format!("chmod o-w {}`", place.path("home/key.pem").display()));
    // A client sends its token nowhere if others may have chosen it.
    set(&place.path("home/token"), 0o646);
    let token = place.path("home/token");
    let status = ["status", "--gateway", "http://127.0.0.1:9", "--token-file", token.to_str().unwrap()];
    place.run(&status).ends(2).says("chmod o-w");
}

#[test]
fn a_component_that_others_may_write_decides_nothing() {
    let place = Place::new();
    let file = place.path("home/logic.wasm");
    let file = file.to_str().unwrap();
    place.run(&["component", "--out", file]).ends(0);
    set(Path::new(file), 0o646);
    place.feed(&["eval", "--logic", file], "").ends(2).says("chmod o-w");
}

#[test]
fn a_reload_refuses_what_others_may_write_until_the_chmod_is_done() {
    let place = Place::with(json!({"old": fixture("ok")}));
    let mut serving = Serving::greet(&place, &[]);
    let new = json!({"servers": {"new": fixture("ok")}});
    replace(&place, FILE, &new, 0o646);
    let line = serving.logged(&["the configuration stays as it was"]);
    assert!(line.contains("WARN") && line.contains("chmod o-w"), "{line}");
    assert!(serving.tools().contains(&"old__do".to_owned()));
    serving.signal(Signal::HUP);
    serving.logged(&["the configuration stays as it was", "chmod o-w"]);
    set(&place.path(FILE), 0o644);
    serving.logged(&["was reloaded: added new"]);
    assert!(serving.tools().contains(&"new__do".to_owned()));
}

#[test]
fn a_reload_refuses_a_token_that_others_may_write() {
    let place = Place::configured(&json!({
        "gateway": {"tokens": [{"principal": "a", "file": "./token"}]}, "servers": {"one": fixture("ok")},
    }));
    set(&place.file("home/token", TOKEN), 0o600);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let part = place.file("home/part", "a-token-that-somebody-else-chose");
    set(&part, 0o646);
    fs::rename(part, place.path("home/token")).unwrap();
    serving.logged(&["the configuration stays as it was", "chmod o-w"]);
    let web = |token| crate::serving::Web { address: &address, token: Some(token), session: None };
    assert_eq!(web("a-token-that-somebody-else-chose").modern_tools(), Err(401));
    assert!(web(TOKEN).modern_tools().is_ok());
}

#[test]
fn links_of_the_users_own_are_followed_as_kubernetes_swaps_them() {
    let place = Place::new();
    let config = |server: &str| json!({"servers": {server: fixture("ok")}}).to_string();
    place.file("home/mount/..1/toolgate.yaml", config("one"));
    place.file("home/mount/..2/toolgate.yaml", config("two"));
    let mount = place.path("home/mount");
    symlink("..1", mount.join("..data")).unwrap();
    symlink("..data/toolgate.yaml", mount.join("toolgate.yaml")).unwrap();
    // As the folder of a mounted secret is.
    set(&mount, 0o1777);
    let file = mount.join("toolgate.yaml");
    let serving = Serving::greet(&place, &["--config", file.to_str().unwrap()]);
    symlink("..2", mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    serving.logged(&["was reloaded: added two; removed one"]);
}

#[test]
fn what_belongs_to_another_user_is_refused_and_the_error_names_the_chown() {
    if !is_root() {
        return;
    }
    let place = Place::with(json!({"demo": demo()}));
    let file = place.path(FILE);
    chown(&file, Some(SOMEBODY), None).unwrap();
    place.run(&["tools"]).ends(2).says(&format!("run `chown 0 {}`", file.display()));
    chown(&file, Some(0), Some(SOMEBODY)).unwrap();
    set(&file, 0o664);
    place.run(&["tools"]).ends(2).says(&format!("run `chmod g-w {}`", file.display()));
    // A link that somebody else made leads nowhere, whatever it leads to.
    let good = place.file("home/good.yaml", json!({"servers": {"demo": demo()}}).to_string());
    let link = place.path("home/link.yaml");
    symlink(&good, &link).unwrap();
    let named = Place::new();
    named.run(&["tools", "--config", link.to_str().unwrap()]).ends(0);
    lchown(&link, Some(SOMEBODY), None).unwrap();
    named.run(&["tools", "--config", link.to_str().unwrap()]).ends(2).says("chown -h 0 ");
}

#[test]
fn records_and_authorizations_are_not_kept_where_somebody_else_could_exchange_them() {
    let place = Place::with(json!({"demo": demo()}));
    let open = place.path("open");
    fs::create_dir(&open).unwrap();
    set(&open, 0o757);
    let records = open.join("records");
    let ran = place.run(&["call", "demo.echo", "text: hi", "--record", records.to_str().unwrap()]).ends(2);
    assert!(ran.stderr.contains("chmod o-w"), "{ran:#?}");
    assert!(!records.exists());
}
