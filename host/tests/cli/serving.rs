//! A gateway in a process of its own, with a client over standard input and output or HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::place::Place;

/// No test waits longer than this for what never happens.
pub const LONG: Duration = Duration::from_secs(60);

/// A gateway that runs.
pub struct Serving {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<String>,
    log: Receiver<String>,
    /// What was said meanwhile that nobody has asked for.
    heard: Vec<Value>,
    next: u64,
}

impl Serving {
    /// Starts `toolgate serve` with these arguments.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        Serving::spawn(place.command(&[&["serve"], arguments].concat()))
    }

    /// Starts `toolgate serve` as `nohup` and `&` of a shell do: so that it ignores interrupts and hangups.
    pub fn start_under_nohup(place: &Place, arguments: &[&str]) -> Self {
        let command = place.command(&[&["serve"], arguments].concat());
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' INT HUP; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.current_dir(place.path("work")).stdout(Stdio::piped()).stderr(Stdio::piped());
        Serving::spawn(shell)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary starts");
        let messages = lines(child.stdout.take().unwrap());
        let log = lines(child.stderr.take().unwrap());
        let input = child.stdin.take();
        Serving { child, input, messages, log, heard: Vec::new(), next: 1 }
    }

    /// Starts a gateway, with a client of the initialize era on its standard input and output.
    pub fn greet(place: &Place, arguments: &[&str]) -> Self {
        let mut serving = Serving::start(place, arguments);
        let answer = serving.ask("initialize", hello());
        assert_eq!(answer["result"]["serverInfo"]["name"], "toolgate", "{answer}");
        serving.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        serving
    }

    pub fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("its input is open"), "{message}").expect("it reads");
    }

    /// Sends a request and gives its id.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        self.wait(&format!("an answer to {id}"), |message| message["id"] == id)
    }

    /// Waits for the answer to a batch.
    pub fn batch(&mut self) -> Value {
        self.wait("an answer to a batch", Value::is_array)
    }

    /// Waits for an answer that is to no request.
    pub fn answer_to_nobody(&mut self) -> Value {
        self.wait("an answer without an id", |message| message.get("id").is_some_and(Value::is_null))
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    pub fn call(&mut self, name: &str) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": {}}))
    }

    /// The names of all tools.
    pub fn tools(&mut self) -> Vec<String> {
        names(&self.ask("tools/list", json!({})))
    }

    /// Waits for a notification.
    pub fn told(&mut self, method: &str) -> Value {
        self.wait(method, |message| message["method"] == method)
    }

    /// What was told so far and not asked for, by its method.
    pub fn told_so_far(&mut self) -> Vec<String> {
        while let Ok(line) = self.messages.try_recv() {
            self.heard.push(serde_json::from_str(&line).unwrap());
        }
        self.heard.iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect()
    }

    fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&wanted) {
            return self.heard.remove(at);
        }
        loop {
            let line = self.messages.recv_timeout(LONG).unwrap_or_else(|error| panic!("no {what}: {error}"));
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
            if wanted(&message) {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Waits for a line of the log with all these words.
    pub fn logged(&self, words: &[&str]) -> String {
        self.logged_until(words).pop().expect("the last line is the one that was waited for")
    }

    /// Waits for a line of the log with all these words, and gives it after the lines that came before it.
    pub fn logged_until(&self, words: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        let since = Instant::now();
        loop {
            let left = LONG.saturating_sub(since.elapsed());
            let Ok(line) = self.log.recv_timeout(left) else { panic!("no {words:?} in {lines:#?}") };
            let found = words.iter().all(|word| line.contains(word));
            lines.push(line);
            if found {
                return lines;
            }
        }
    }

    /// The lines of the log that nobody has waited for.
    pub fn logged_so_far(&self) -> Vec<String> {
        self.log.try_iter().collect()
    }

    /// The address that it listens on.
    pub fn address(&self) -> String {
        let line = self.logged(&["listening on http"]);
        line.split("//").nth(1).unwrap().trim_end_matches("/mcp").to_owned()
    }

    /// A figure of its memory in `/proc`, such as `VmRSS` or `VmHWM`, in bytes.
    #[cfg(target_os = "linux")]
    pub fn memory(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).unwrap_or_else(|| panic!("{status}"));
        kilobytes.parse::<u64>().unwrap() << 10
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Closes its input, and waits for its end.
    pub fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        self.ended()
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < LONG, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Its servers end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that goes on printing lines until it is stopped. It ends with the test.
pub struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut child = place.command(arguments).stderr(Stdio::null()).spawn().expect("the binary starts");
        let lines = lines(child.stdout.take().unwrap());
        Following { child, lines }
    }

    /// The next line that it prints.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(LONG).expect("it prints another line")
    }

    /// The lines up to the first one with these words.
    #[track_caller]
    pub fn until(&self, words: &str) -> Vec<String> {
        let mut seen = vec![self.line()];
        while !seen.last().is_some_and(|line| line.contains(words)) {
            seen.push(self.line());
        }
        seen
    }

    /// Waits for an end that nobody asks it for, and gives the exit code.
    pub fn until_end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Presses Ctrl-C, and gives the exit code and the lines that nobody has read.
    pub fn interrupt(mut self) -> (Option<i32>, Vec<String>) {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client says of itself.
pub fn hello() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
}

/// The names in a list of tools.
pub fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a file is there.
pub fn appears(path: &std::path::Path) {
    let since = Instant::now();
    while !path.exists() {
        assert!(since.elapsed() < LONG, "no {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client over HTTP, with a connection for each request.
pub struct Web<'a> {
    pub address: &'a str,
    pub token: Option<&'a str>,
    pub session: Option<String>,
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Web<'_> {
    /// Posts a message of the initialize era.
    pub fn post(&self, message: &Value) -> Reply {
        self.request("POST /mcp", "localhost", &[], &message.to_string())
    }

    /// Opens a session.
    pub fn greet(&mut self) -> Reply {
        let reply = self.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello()}));
        let id = reply.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        self.session = id.map(str::to_owned);
        reply
    }

    /// The tools, in the session.
    pub fn tools(&self) -> Result<Vec<String>, u16> {
        let reply = self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
        match reply.status {
            200 => Ok(names(&serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}")))),
            status => Err(status),
        }
    }

    /// Lists the tools without a session, as a client of 2026-07-28 does.
    pub fn modern_tools(&self) -> Result<Vec<String>, u16> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
        let headers = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"];
        let reply = self.request("POST /mcp", "localhost", &headers, &message.to_string());
        match reply.status {
            200 => Ok(names(&serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}")))),
            status => Err(status),
        }
    }

    /// Any request.
    pub fn request(&self, line: &str, host: &str, headers: &[&str], body: &str) -> Reply {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut head = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        if let Some(token) = self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        headers.iter().for_each(|header| head += &format!("{header}\r\n"));
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?} is no answer"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// The lines of a stream, as they come.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
