//! Gateways as processes of their own, and blocking clients that call their tools: for benches.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bare::{INITIALIZE, INITIALIZED, check, request};

/// Returns the `toolgate` of a release build, which lies beside the benches, or says how to build it.
pub fn release() -> PathBuf {
    let bench = std::env::current_exe().expect("a bench has a path");
    let toolgate = bench.ancestors().nth(2).expect("benches lie in target/release/deps").join("toolgate");
    if !toolgate.exists() {
        eprintln!("{} is missing: first run `cargo build --release --workspace`", toolgate.display());
        std::process::exit(2);
    }
    toolgate
}

/// A gateway that runs.
pub struct Gateway {
    process: Child,
    address: String,
    /// Where it serves MCP.
    path: String,
}

impl Gateway {
    /// Starts `toolgate serve` with these arguments on a free port.
    pub fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(release());
        command.args(["serve", "--http", "127.0.0.1:0"]).args(arguments);
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("toolgate starts");
        let mut lines = BufReader::new(process.stderr.take().expect("it has one")).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("listening on")).expect("it says where it listens");
        // What else it has to say is read, so that it never waits.
        thread::spawn(move || lines.for_each(drop));
        let address = line.split("//").nth(1).expect("an address").trim_end_matches("/mcp").to_owned();
        Gateway { process, address, path: "/mcp".to_owned() }
    }

    /// Starts another gateway, and waits until it listens on the port that it was given.
    pub fn other(command: &mut Command, port: u16, path: String) -> Self {
        let mut process = command.stdin(Stdio::null()).spawn().expect("the other gateway starts");
        let address = format!("127.0.0.1:{port}");
        let begun = Instant::now();
        // It cannot tell when it is ready, so it is tried.
        while TcpStream::connect(&address).is_err() {
            let ended = process.try_wait().expect("its state is known");
            assert!(ended.is_none(), "the other gateway has ended: {ended:?}");
            assert!(begun.elapsed() < Duration::from_secs(60), "the other gateway does not listen on port {port}");
            thread::sleep(Duration::from_millis(20));
        }
        Gateway { process, address, path }
    }

    /// Returns where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Has it read its configuration again.
    pub fn hang_up(&self) {
        let status = Command::new("kill").args(["-HUP", &self.process.id().to_string()]).status();
        assert!(status.expect("kill is a program").success(), "it runs");
    }

    /// Opens a connection with a session.
    pub fn connect(&self) -> Client {
        Client::new(self, "")
    }

    /// Opens a connection with a session of the principal that has this token.
    pub fn connect_as(&self, token: &str) -> Client {
        Client::new(self, &format!("Authorization: Bearer {token}\r\n"))
    }

    /// Has clients call a tool until all calls are made; returns how long each call took.
    pub fn load(&self, clients: usize, calls: usize, tool: &str, arguments: &str) -> Vec<Duration> {
        let mut clients: Vec<Client> = (0..clients).map(|_| self.connect()).collect();
        load(&mut clients, calls, tool, arguments)
    }

    /// Returns its processor time, in the ticks of the system.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("it runs on Linux");
        // The fields after its name, which may contain blanks.
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("it has fields").split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * MILLIS_PER_TICK)
    }

    /// Returns the memory that it uses, in bytes.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it runs on Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<usize>().ok()).expect("a number") << 10
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // A signal, so that what was recorded last is written.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// Has clients call a tool until all calls are made; returns how long each call took.
pub fn load(clients: &mut [Client], calls: usize, tool: &str, arguments: &str) -> Vec<Duration> {
    let left = AtomicUsize::new(calls);
    let takes_one = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    let run = |client: &mut Client| {
        let mut times = Vec::new();
        while takes_one() {
            let begun = Instant::now();
            client.call(tool, arguments);
            times.push(begun.elapsed());
        }
        times
    };
    thread::scope(|scope| {
        let running: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| run(client))).collect();
        running.into_iter().flat_map(|client| client.join().expect("every call is answered")).collect()
    })
}

/// A client of 2025-06-18 on one connection.
pub struct Client {
    stream: BufReader<TcpStream>,
    path: String,
    /// What is sent with each request, besides the length of its body.
    headers: String,
    id: u64,
    body: Vec<u8>,
}

impl Client {
    fn new(Gateway { address, path, .. }: &Gateway, header: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("it is a socket");
        let headers = format!(
            "Host: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2025-06-18\r\n{header}"
        );
        let mut client =
            Client { stream: BufReader::new(stream), path: path.clone(), headers, id: 0, body: Vec::new() };
        if let Some(session) = client.ask("initialize", INITIALIZE) {
            client.headers.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        client.post(INITIALIZED);
        client
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &str) -> &[u8] {
        self.ask("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#));
        let found = self.body.windows(9).take(500).any(|part| part == b"\"content\"");
        assert!(found, "{}", String::from_utf8_lossy(&self.body));
        &self.body
    }

    /// Returns the names of all tools that end with these words.
    pub fn tools(&mut self, end: &str) -> Vec<String> {
        self.ask("tools/list", "{}");
        let body = String::from_utf8_lossy(&self.body);
        let names = body.split("\"name\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        names.filter(|name| name.ends_with(end)).map(str::to_owned).collect()
    }

    /// Reads a page.
    pub fn get(&mut self, path: &str) -> &[u8] {
        self.exchange(&format!("GET {path}"), "");
        &self.body
    }

    fn ask(&mut self, method: &str, params: &str) -> Option<String> {
        self.id += 1;
        let session = self.post(&request(self.id, method, params));
        check(&self.body, self.id);
        session
    }

    fn post(&mut self, message: &str) -> Option<String> {
        self.exchange(&format!("POST {}", self.path), message)
    }

    /// Sends a request, and reads the response; returns the session that it names.
    fn exchange(&mut self, line: &str, body: &str) -> Option<String> {
        let message = format!("{line} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{body}", self.headers, body.len());
        self.stream.get_mut().write_all(message.as_bytes()).expect("it reads");
        let (mut length, mut is_chunked, mut session) = (0, false, None);
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { if line.is_empty() { break } else { continue } };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().expect("a length is a number"),
                "transfer-encoding" => is_chunked = value == "chunked",
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        self.body.clear();
        if !is_chunked {
            self.read(length);
            return session;
        }
        loop {
            let size = usize::from_str_radix(&self.line(), 16).expect("a size is a number");
            self.read(size);
            self.line();
            if size == 0 {
                return session;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stream.read_line(&mut line).expect("it answers") > 0, "it has closed the connection");
        line.truncate(line.trim_end().len());
        line
    }

    fn read(&mut self, bytes: usize) {
        let read = self.body.len();
        self.body.resize(read + bytes, 0);
        self.stream.read_exact(&mut self.body[read..]).expect("the whole answer comes");
    }
}

/// The ticks of `/proc/PID/stat` are hundredths of a second on every Linux of today.
const MILLIS_PER_TICK: u64 = 10;
