//! Tests running gateways and the commands that query them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::{Place, Ran, and, demo, each, fixture, fixture_with};
use crate::signals::{accept, send, until};

/// The component has been compiled, which the first run of all takes its time for.
static COMPILED: LazyLock<()> = LazyLock::new(|| {
    Place::new().run(&["route", "demo.echo", "text: hi"]).ends(0);
});

/// A gateway that runs. It ends with the test.
struct Serving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    socket: PathBuf,
}

impl Serving {
    /// On standard input and output; it can be found when this returns.
    fn start(place: &Place, arguments: &[&str]) -> Self {
        LazyLock::force(&COMPILED);
        let arguments = [&["serve"], arguments].concat();
        let mut child = place.command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let socket = place.path(&format!("run/toolgate/{}.sock", child.id()));
        until("socket", || socket.exists().then_some(()));
        Serving { child, stderr, socket }
    }

    /// Over HTTP, and its address.
    fn over_http(place: &Place) -> (Self, String) {
        let mut serving = Serving::start(place, &["--http", "127.0.0.1:0"]);
        let mut line = String::new();
        serving.stderr.read_line(&mut line).unwrap();
        let url = line.split_whitespace().last().unwrap_or_default().trim_end_matches("/mcp").to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{line:?}");
        (serving, url)
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// One page over its socket, without any token.
    fn page(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    fn ask(&self, ask: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(ask.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it in the way of its client, and gives its exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_status_of_a_gateway_tells_how_its_servers_are() {
    let place = Place::with(json!({"demo": demo(), "off": and(demo(), json!({"enabled": false}))}));
    let serving = Serving::start(&place, &[]);
    let before = place.run(&["status", "--json"]).ends(0).json();
    assert_eq!(each(&before["servers"], "/state"), ["dormant", "disabled"]);
    assert_eq!(before["gateway"]["pid"].to_string(), serving.pid());

    place.run(&["call", "demo.add", "a: 1, b: 2", "--gateway"]).ends(0).prints("3\n");
    let after = place.run(&["status", "--json"]).ends(0).json();
    let server = &after["servers"][0];
    assert_eq!((&server["state"], &server["version"]), (&json!("ready"), &json!("2026-07-28")));
    assert_eq!((&server["tools"], &server["calls"]["calls"]), (&json!(6), &json!(1)));
    assert!(server["pid"].is_u64() && server["calls"]["p99_ms"].is_f64(), "{server}");

    let shown = place.run(&["status"]).ends(0).prints("is ready").prints("servers.yaml").prints("2026-07-28");
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(lines[2].starts_with("SERVER") && lines[2].ends_with("LAST ERROR"), "{shown:#?}");
    let row: Vec<_> = lines[3].split_whitespace().collect();
    assert_eq!(row[..2], ["demo", "ready"], "{shown:#?}");
    assert_eq!(row[3..9], ["2026-07-28", "toolgate-demo", env!("CARGO_PKG_VERSION"), "shared", "6", "1"], "{shown:#?}");
    assert_eq!(lines.len(), 5, "{shown:#?}");

    let socket = serving.socket.clone();
    assert_eq!(serving.end(), Some(0));
    assert!(!socket.exists());
    place.run(&["status"]).ends(3).says("no gateway of yours is running").says("`toolgate serve`");
}

#[test]
fn a_gateway_over_http_is_found_by_its_address_and_by_its_socket() {
    let place = Place::with(json!({"demo": demo()}));
    let (serving, url) = Serving::over_http(&place);
    for gateway in [url.clone(), format!("{url}/mcp"), serving.pid(), format!("unix:{}", serving.socket.display())] {
        let flag = format!("--gateway={gateway}");
        place.run(&["status", &flag]).ends(0).prints(&format!("{url}/mcp"));
        place.run(&["call", &flag, "demo.echo", "text: hello"]).ends(0).prints("hello\n");
    }
    // An address may stand by itself, and the name of a tool is no address.
    place.run(&["call", "demo.echo", "text: hello", "--gateway", &url]).ends(0).prints("hello\n");
    place.run(&["call", "--gateway", "demo.echo", "text: hello"]).ends(0).prints("hello\n");
    place.run(&["status", "--gateway=nonsense"]).ends(2).says("--gateway=http://127.0.0.1:8808");
    place.run(&["status", "--gateway=1"]).ends(3).says("process id 1");
    let ran = place.run(&["status", "--gateway=http://me:s3cret@127.0.0.1:1"]).ends(2).says("must not contain a login");
    assert!(!ran.stderr.contains("s3cret"), "{ran:#?}");
    place.run(&["status", "--gateway=http://127.0.0.1:1"]).ends(3).says("cannot connect");
    place.run(&["status", &format!("--gateway={url}/elsewhere")]).ends(3).says("there is no toolgate gateway");

    send(&serving.child, Signal::INT);
    let socket = serving.socket.clone();
    until("end", || (!socket.exists()).then_some(()));
}

#[test]
fn the_socket_serves_the_same_pages_as_http() {
    let place = Place::with(json!({"demo": demo()}));
    let (serving, _) = Serving::over_http(&place);
    for (path, expected) in [
        ("/health", r#"{"status":"ok"}"#),
        ("/ready", r#""ready":true"#),
        ("/api/v1/mcp/tools", r#""name":"demo__add""#),
        ("/api/v1/calls", r#"{"calls":[],"last":0,"lost":0}"#),
        ("/metrics", "\ntoolgate_listener_connections{listener=\"socket\"} "),
        ("/metrics", "toolgate_listener_connections{listener=\"http\"} 0\n"),
        ("/metrics", "toolgate_listener_refused_total{listener=\"http\",reason=\"rate\"} 0\n"),
    ] {
        let answer = serving.page(path);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(expected), "{path}: {answer}");
    }
    assert!(serving.page("/nothing").starts_with("HTTP/1.1 404 "));
}

#[test]
fn who_has_an_answer_finds_the_call_among_those_of_late() {
    let place = Place::with(json!({"demo": demo()}));
    let mut serving = Serving::start(&place, &[]);
    let mut answers = BufReader::new(serving.child.stdout.take().unwrap());
    for number in 1..=20 {
        let params = json!({"name": "demo__echo", "arguments": {"text": "hi"}});
        let call = json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
        writeln!(serving.child.stdin.as_ref().unwrap(), "{call}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains(r#""text":"hi""#), "{answer}");
        let calls = serving.page("/api/v1/calls").matches(r#""name":"demo__echo""#).count();
        assert_eq!(calls, number);
    }
}

#[test]
fn of_two_gateways_one_must_be_named() {
    let place = Place::with(json!({"demo": demo()}));
    let (one, url) = Serving::over_http(&place);
    let two = Serving::start(&place, &[]);
    for command in [&["status"][..], &["tools", "--gateway"], &["call", "demo.echo", "hi", "--gateway"]] {
        let ran = place.run(command).ends(2).says("several gateways are running").says("servers.yaml");
        let ran = ran.says(&format!("--gateway={}  for ", one.pid())).says(&format!("--gateway={}  for ", two.pid()));
        ran.says(&url).says("standard input and output");
    }
    for serving in [&one, &two] {
        let about = place.run(&["status", "--json", &format!("--gateway={}", serving.pid())]).ends(0).json();
        assert_eq!(about["gateway"]["pid"].to_string(), serving.pid());
    }
}

#[test]
fn through_a_gateway_no_server_is_started_again() {
    let folder = Place::new();
    let file = folder.path("starts");
    let place = Place::with(json!({"one": fixture_with("counts", &[file.to_str().unwrap()])}));
    let starts = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    let _serving = Serving::start(&place, &[]);
    place.run(&["status"]).ends(0);
    assert_eq!(starts(), 0);
    for _ in 0..2 {
        place.run(&["tools", "--gateway"]).ends(0).prints("one__do");
        place.run(&["call", "one.do", "--gateway"]).ends(0).prints("done\n");
    }
    assert_eq!(starts(), 1);
    place.run(&["call", "one.do"]).ends(0);
    assert_eq!(starts(), 2);
}

#[test]
fn a_call_ends_with_and_without_a_gateway_alike() {
    let place = Place::with(json!({
        "demo": demo(),
        "dies": fixture("dies"),
        "refuses": fixture("rpc-error"),
        "visits": and(fixture("wants-a-visit"), json!({"env": {"GIVEN": "here"}})),
        "steers": fixture("steers"),
        "guarded": and(fixture("ok"), json!({"deny": ["do"]})),
    }));
    let _serving = Serving::start(&place, &[]);
    let told = |result: &Value| {
        let mut result = result.clone();
        // What differs between any two calls, and what the gateway does not read it does not tell.
        for name in ["call_id", "latency_ms", "trace", "attempts"] {
            assert!(!result.as_object_mut().unwrap().remove(name).unwrap().is_null(), "{name}");
        }
        result
    };
    for (name, arguments, code) in [
        ("demo.echo", "hello there", 0),
        ("mcp__demo__add", "a=1, b=2", 0),
        ("demo__forecast", "{'city': 'Rome',}", 0),
        ("demo.picture", "", 0),
        ("demo.fail", "message: no luck", 1),
        ("demo.add", "a: one", 2),
        ("demo.nope", "", 5),
        ("nobody.x", "", 5),
        ("nonsense", "", 5),
        ("guarded.do", "", 5),
        ("refuses.do", "", 1),
        ("visits.do", "", 1),
        ("dies.do", "", 4),
        ("steers.do", "", 0),
    ] {
        let without = place.run(&["call", name, arguments]).ends(code);
        let with = place.run(&["call", name, arguments, "--gateway"]).ends(code);
        // What servers are warned of is in the log of whoever runs them.
        let said = |ran: &Ran| ran.stderr.lines().filter(|line| !line.starts_with(" WARN")).collect::<String>();
        assert_eq!((&with.stdout, said(&with)), (&without.stdout, said(&without)), "{name}");
        let without = place.run(&["call", name, arguments, "--json"]).ends(code).json();
        let with = place.run(&["call", name, arguments, "--json", "--gateway"]).ends(code).json();
        assert_eq!(told(&with), told(&without), "{name}");
    }
    place.run(&["call", "demo.echo", "x", "--gateway", "--server", "demo"]).ends(2).says("--server");
    let cut = place.run(&["call", "demo.echo", &"long line\n".repeat(99), "--gateway", "--max-result-bytes", "50"]);
    assert!(cut.ends(0).stdout.len() < 300);
}

#[test]
fn tools_are_listed_with_and_without_a_gateway_alike() {
    let place = Place::with(json!({
        "demo": demo(),
        "odd": fixture("odd-names"),
        "guarded": and(fixture("ok"), json!({"allow": ["look"]})),
    }));
    let _serving = Serving::start(&place, &[]);
    for arguments in [
        &["tools"][..],
        &["tools", "--json"],
        &["tools", "--format", "openai"],
        &["tools", "--format", "gemini"],
        &["tools", "--format", "anthropic"],
        &["tools", "--server", "demo", "--server", "guarded"],
    ] {
        let without = place.run(arguments).ends(0);
        let with = place.run(&[arguments, &["--gateway"]].concat()).ends(0);
        let json = |ran: &Ran| serde_json::from_str::<Value>(&ran.stdout).ok();
        match json(&without) {
            Some(value) => assert_eq!(json(&with), Some(value), "{arguments:?}"),
            None => assert_eq!(with.stdout, without.stdout, "{arguments:?}"),
        }
        assert_eq!(with.stderr, without.stderr, "{arguments:?}");
    }
    place.run(&["tools", "--gateway", "--server", "nobody"]).ends(5).says("nobody");
}

#[test]
fn names_are_those_of_the_gateway() {
    let place = Place::with(json!({"demo": demo(), "other": demo()}));
    let serving = Serving::start(&place, &["--expose", "demo"]);
    let listed = place.run(&["tools", "--gateway", "--json"]).ends(0).json();
    assert_eq!(each(&listed["tools"], "/name")[..2], ["echo", "add"]);
    place.run(&["call", "echo", "text: hi", "--gateway"]).ends(0).prints("hi\n");
    let body = json!({"name": "echo", "arguments": "text: tried"}).to_string();
    let head = "POST /api/v1/mcp/call HTTP/1.1\r\nHost: localhost\r\nConnection: close";
    let tried = serving.ask(&format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    assert!(tried.contains(r#""text":"tried""#), "{tried}");
    assert_eq!(serving.end(), Some(0));
    let _serving = Serving::start(&place, &["--names", "dot"]);
    place.run(&["tools", "--gateway"]).ends(0).prints("demo.echo").prints("other.echo");
}

#[test]
fn a_gateway_with_tokens_wants_one_over_http_and_none_over_its_socket() {
    let (ann, admin) = ("a-token-of-ann-0123456789", "a-token-of-ops-0123456789");
    let tokens = json!([
        {"principal": "ann", "token": ann, "servers": ["demo"]},
        {"principal": "ops", "token": admin, "admin": true},
    ]);
    let servers = json!({"demo": demo(), "other": demo()});
    let place = Place::configured(&json!({"version": 1, "servers": servers, "gateway": {"tokens": tokens}}));
    let (_serving, url) = Serving::over_http(&place);
    let flag = format!("--gateway={url}");
    let with = |token: &str, arguments: &[&str]| -> Ran {
        place.command(arguments).env("TOOLGATE_GATEWAY_TOKEN", token).output().unwrap().into()
    };
    for command in [&["status"][..], &["status", "--watch"], &["tools"], &["call", "demo.echo", "text: hi"]] {
        let command = [command, &[flag.as_str()]].concat();
        place.run(&command).ends(7).says("needs a token").says("TOOLGATE_GATEWAY_TOKEN");
        let wrong = with("a-wrong-token-0123456789", &command).ends(7).says("rejected this token");
        assert!(!wrong.stderr.contains("a-wrong-token"), "{wrong:#?}");
    }
    with(ann, &["call", "demo.echo", "text: hi", &flag]).ends(0).prints("hi\n");
    with(ann, &["call", "other.echo", "text: hi", &flag]).ends(5);
    with(ann, &["status", &flag]).ends(0).prints("is ready");
    let tools = with(ann, &["tools", &flag]).ends(0);
    assert!(!tools.stdout.contains("other__"), "{tools:#?}");
    let file = place.file("home/token", format!("{admin}\n"));
    let ran = place.run(&["status", "--json", &flag, "--token-file", file.to_str().unwrap()]).ends(0);
    assert!(ran.json()["gateway"]["file"].is_string());
    place.run(&["status", &flag, "--token-file", "/nowhere/token"]).ends(2).says("/nowhere/token");
    for option in ["--token-file", "--ca"] {
        place.run(&["tools", option, "/nowhere/file"]).ends(2).says("--gateway[=<URL>]");
    }
    for wrong in ["ftp://h", "/tmp", "nonsense"] {
        let given = format!("--gateway={wrong}");
        place.run(&["status", &given]).ends(2).says(&format!("not the address of a gateway: {wrong}; write a URL"));
    }
    // A token is asked for, and the file of the gateway is none of ann's business.
    assert!(with(ann, &["status", "--json", &flag]).ends(0).json()["gateway"]["file"].is_null());
    place.run(&["tools", "--gateway"]).ends(0).prints("other__echo");
}

#[test]
fn a_gateway_that_was_killed_is_found_no_more_and_its_socket_is_removed() {
    let place = Place::with(json!({"demo": demo()}));
    let mut serving = Serving::start(&place, &[]);
    send(&serving.child, Signal::KILL);
    serving.child.wait().unwrap();
    assert!(serving.socket.exists(), "nobody was left to remove it");
    place.run(&["call", "demo.echo", "hi", "--gateway"]).ends(3).says("no gateway of yours is running");
    assert!(!serving.socket.exists());
}

#[test]
fn a_gateway_that_ends_in_the_midst_of_a_call_leaves_its_outcome_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let place = Place::with(json!({"slow": and(fixture_with("hangs-in-call", &[&port]), json!({"grace": "100ms"}))}));
    let mut serving = Serving::start(&place, &[]);
    let caller = place.command(&["call", "slow.do", "--gateway"]).spawn().unwrap();
    let _hanging = accept(&listener);
    send(&serving.child, Signal::KILL);
    serving.child.wait().unwrap();
    let ran: Ran = caller.wait_with_output().unwrap().into();
    ran.ends(4).says("the tool may or may not have run");
}

#[test]
fn a_call_that_finds_no_place_is_told_so_and_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let slow = and(fixture_with("hangs-in-call", &[&port]), json!({"queue": "one", "grace": "100ms"}));
    let queues = json!({"one": {"slots": 1, "waiting": 0}});
    let place = Place::configured(&json!({"version": 1, "queues": queues, "servers": {"slow": slow}}));
    let serving = Serving::start(&place, &[]);
    let mut first = place.command(&["call", "slow.do", "--gateway"]).spawn().unwrap();
    let _hanging = accept(&listener);
    let second = place.run(&["call", "slow.do", "--gateway", "--json"]).ends(3);
    assert_eq!(second.json()["code"], "queue-full");
    let metrics = serving.page("/metrics");
    for line in [
        "toolgate_queue_running{queue=\"one\"} 1\n",
        "toolgate_queue_refused_total{queue=\"one\"} 1\n",
        "toolgate_calls_total{server=\"slow\",tool=\"do\",code=\"queue-full\",principal=\"local\"} 1\n",
        "toolgate_listener_requests_in_flight{listener=\"socket\"} 1\n",
    ] {
        assert!(metrics.contains(line), "no {line:?} in {metrics}");
    }
    let row = place.run(&["status"]).ends(0).stdout;
    let row: Vec<_> = row.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[15]), ("slow", "1"), "{row:?}");
    send(&first, Signal::INT);
    assert_eq!(first.wait().unwrap().code(), Some(130));
}

/// A line as it is shown.
fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    first + &parts.map(|part| part.split_once('m').map_or("", |(_, text)| text)).collect::<String>()
}

/// Where a terminal begins to be drawn anew.
const HOME: &[u8] = b"\x1b[H";

/// What a command that goes on has printed.
struct Printed {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Printed {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut child = place.command(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Printed { child, lines }
    }

    /// The first line from here on that has this.
    fn line(&mut self, what: &str) -> String {
        let mut seen = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.contains(what) {
                return line;
            }
            seen.push(line);
        }
        panic!("no {what:?} in {seen:#?}");
    }
}

#[test]
fn to_watch_is_to_read_a_line_for_each_change() {
    let place = Place::with(json!({"demo": demo()}));
    let serving = Serving::start(&place, &[]);
    let mut watched = Printed::start(&place, &["status", "--watch"]);
    let mut as_json = Printed::start(&place, &["status", "--watch", "--json"]);
    assert!(watched.line("demo dormant").contains("calls=0"));
    watched.line("gateway ready");
    as_json.line(r#""state":"dormant""#);
    place.run(&["call", "demo.echo", "hi", "--gateway"]).ends(0);
    // It is ready before its tools are known.
    assert!(watched.line("tools=6").contains("demo ready"));
    let shown: Value = serde_json::from_str(&as_json.line(r#""state":"ready""#)).unwrap();
    assert_eq!(shown["servers"][0]["server"], "demo");
    send(&watched.child, Signal::INT);
    // To stop it is its only end, so that is no error.
    assert_eq!(watched.child.wait().unwrap().code(), Some(0));
    // One that nobody reads ends at the next change, and the other one with the gateway.
    let mut unread = Printed::start(&place, &["status", "--watch"]);
    unread.line("gateway ready");
    drop(unread.lines);
    let disable = "POST /api/v1/servers/demo/disable HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(serving.ask(disable).starts_with("HTTP/1.1 200 "));
    assert_eq!(unread.child.wait().unwrap().code(), Some(0));
    assert_eq!(serving.end(), Some(0));
    let ended: Ran = as_json.child.wait_with_output().unwrap().into();
    ended.ends(3).says("the gateway");
}

#[test]
fn on_a_terminal_the_table_is_drawn_again_and_servers_cannot_steer_it() {
    let place = Place::with(json!({"steers": fixture("steers"), "ends": fixture("ends-at-once")}));
    let serving = Serving::start(&place, &[]);
    place.run(&["tools", "--gateway"]).ends(0);
    until("a failure that is told of", || {
        let status = place.run(&["status", "--json"]).ends(0).json();
        status["servers"][0]["last_error"].is_object().then_some(())
    });
    let shown = place.run_at_terminal(&["status"], "").ends(0).stdout;
    let mut watching = place.at_terminal(&["status", "--watch"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut output = watching.stdout.take().unwrap();
    let mut watched = Vec::new();
    // The gateway ends once the table has been drawn twice; times go on, so it is.
    while watched.windows(HOME.len()).filter(|part| *part == HOME).count() < 2 {
        let mut letter = [0];
        output.read_exact(&mut letter).expect("it is drawn again");
        watched.extend(letter);
    }
    assert_eq!(serving.end(), Some(0));
    output.read_to_end(&mut watched).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(3));
    // A terminal of unknown size counts as one of 80 columns.
    let table = shown.lines().skip_while(|line| !line.contains("SERVER"));
    let widest = table.map(|line| without_colours(line.trim_end()).trim_end().chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{widest:?}: {shown}");
    for shown in [shown, String::from_utf8(watched).unwrap()] {
        assert!(shown.contains("steers") && shown.contains("ends"), "{shown}");
        for steering in ["\u{1b}[31m", "\u{1b}]0;", "\u{7}", "\u{202e}", "\u{9b}"] {
            assert!(!shown.contains(steering), "{steering:?} in {shown:?}");
        }
    }
}

#[test]
fn without_a_folder_for_its_socket_a_gateway_warns_and_serves() {
    let place = Place::with(json!({"demo": demo()})).set("XDG_RUNTIME_DIR", "/proc/none");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let ran = place.feed(&["serve"], &format!("{ping}\n")).ends(0);
    ran.says("`toolgate status` will not find this gateway").says("/proc/none/toolgate");
}

#[test]
fn a_gateway_that_hangs_is_not_waited_for_without_end() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--gateway=http://{}", listener.local_addr().unwrap());
    let begun = std::time::Instant::now();
    for command in [&["status"][..], &["tools"], &["call", "a.b"]] {
        place.run(&[command, &[flag.as_str(), "--timeout", "200ms"]].concat()).ends(6).says("within ");
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}
