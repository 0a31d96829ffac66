//! Tests `toolgate dashboard`: the page of a running gateway, also of one without HTTP, for its user alone.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::place::{Place, demo};
use crate::serving::{Serving, Web, appears};

/// A dashboard command that runs, the address it listens on, and its token.
struct Dashboard {
    child: Child,
    address: String,
    token: String,
}

impl Dashboard {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (url, token) = line.trim_end().split_once("/#token=").expect("it prints a URL with a token");
        let address = url.strip_prefix("http://").unwrap().to_owned();
        Dashboard { child, token: token.to_owned(), address }
    }

    /// Returns the status and the text of a page.
    fn get(&self, path: &str, headers: &[&str]) -> (u16, String) {
        let reply = self.web().request(&format!("GET {path}"), "localhost", headers, "");
        (reply.status, reply.body)
    }

    fn web(&self) -> Web<'_> {
        Web { address: &self.address, token: None, session: None }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_of_a_gateway_without_http_is_shown_for_as_long_as_the_command_runs() {
    let place = Place::with(json!({"demo": demo()}));
    place.run(&["dashboard", "--no-browser"]).ends(3).says("no gateway of yours is running");
    let serving = Serving::greet(&place, &[]);
    let mut shown = Dashboard::start(place.command(&["dashboard", "--no-browser"]));
    let (status, page) = shown.get("/", &[]);
    assert!(status == 200 && page.contains("<html"), "{status} {page}");
    let bearer = format!("Authorization: Bearer {}", shown.token);
    let (status, servers) = shown.get("/api/v1/servers", &[&bearer]);
    assert!(status == 200 && servers.contains("\"demo\""), "{status} {servers}");
    for (path, headers, expected) in [
        ("/api/v1/servers", &[][..], 401),
        ("/metrics", &[], 401),
        ("/api/v1/servers", &["Authorization: Bearer wrong"], 401),
        ("/api/v1/servers", &[&bearer, "Origin: https://evil.example"], 403),
        ("/", &["Origin: https://evil.example"], 403),
        ("//evil.example/", &[&bearer], 404),
        ("/no-such-page", &[&bearer], 404),
    ] {
        let (status, text) = shown.get(path, headers);
        assert_eq!(status, expected, "{path} {headers:?}: {text}");
    }
    let foreign = shown.web().request("GET /", "evil.example", &[], "");
    assert!(foreign.status >= 400, "{foreign:?}");
    let mcp = Web { address: &shown.address, token: Some(&shown.token), session: None }.greet();
    assert!(mcp.status >= 400, "MCP is not served here: {mcp:?}");

    kill_process(Pid::from_child(&shown.child), Signal::INT).unwrap();
    assert_eq!(shown.child.wait().unwrap().code(), Some(130));
    place.run(&["status"]).ends(0).prints("demo");
    drop(serving);
}

#[test]
fn the_browser_of_the_user_gets_a_private_page_that_leads_to_the_url() {
    let place = Place::with(json!({"demo": demo()}));
    let serving = Serving::greet(&place, &[]);
    let got = place.path("got");
    // Arguments of programs are no secret, so the URL is in a file.
    let browser =
        place.file("browser", format!("#!/bin/sh\necho \"$1\" > {0}.part && mv {0}.part {0}\n", got.display()));
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = place.command(&["dashboard"]);
    command.env("BROWSER", &browser).stderr(Stdio::null());
    let mut shown = Dashboard::start(command);
    appears(&got);
    let page = std::fs::read_to_string(&got).unwrap();
    assert!(!page.contains(&shown.token), "{page}");
    let page = std::path::Path::new(page.trim_end());
    let url = format!("location.replace(\"http://{}/#token={}\")", shown.address, shown.token);
    assert!(std::fs::read_to_string(page).unwrap().contains(&url));
    assert_eq!(std::fs::metadata(page).unwrap().permissions().mode() & 0o777, 0o600);
    kill_process(Pid::from_child(&shown.child), Signal::INT).unwrap();
    assert_eq!(shown.child.wait().unwrap().code(), Some(130));
    assert!(!page.exists());
    drop(serving);
}

#[test]
fn at_a_terminal_a_gateway_says_what_it_serves_to_whom_and_where() {
    let place = Place::with(json!({"demo": demo(), "other": demo()}));
    // The end of its input ends it.
    let ran = place.run_at_terminal(&["serve", "--record", "records"], "\u{4}").ends(0);
    let ran = ran.prints("serving 2 servers: demo, other").prints("on standard input and output");
    ran.prints("recording calls in records").prints("`toolgate dashboard` opens its page");
    let quiet = place.feed(&["serve"], "").ends(0);
    assert_eq!(quiet.stderr, "");
}
