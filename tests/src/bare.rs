//! JSON-RPC without any client library: the lowest possible cost of an exchange.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A server on a pipe, used by one blocking thread.
pub struct Pipe {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    id: u64,
}

impl Pipe {
    /// Starts a server and does the handshake.
    pub fn open(program: &str, args: &[&str]) -> Self {
        let mut server = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let input = server.stdin.take().expect("it has an input");
        let output = BufReader::with_capacity(256 << 10, server.stdout.take().expect("it has an output"));
        let mut pipe = Pipe { server, input, output, line: Vec::new(), id: 0 };
        pipe.ask("initialize", INITIALIZE);
        pipe.input.write_all(format!("{INITIALIZED}\n").as_bytes()).expect("the server reads");
        pipe
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: &str) {
        self.ask("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#));
    }

    /// Calls a tool `calls` times with up to `at_a_time` calls in flight; requests that fit go out in one write.
    pub fn call_side_by_side(&mut self, calls: usize, at_a_time: usize, tool: &str, arguments: &str) {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        let (mut sent, mut answered, mut messages) = (0, 0, String::new());
        while answered < calls {
            while sent < calls && sent - answered < at_a_time {
                self.id += 1;
                messages.push_str(&request(self.id, "tools/call", &params));
                messages.push('\n');
                sent += 1;
            }
            self.input.write_all(messages.as_bytes()).expect("the server reads");
            messages.clear();
            loop {
                self.read();
                assert!(self.line.windows(8).any(|window| window == b"\"result\""), "{:?}", self.line);
                answered += 1;
                if answered == sent || !self.output.buffer().contains(&b'\n') {
                    break;
                }
            }
        }
    }

    fn ask(&mut self, method: &str, params: &str) {
        self.id += 1;
        let mut message = request(self.id, method, params);
        message.push('\n');
        self.input.write_all(message.as_bytes()).expect("the server reads");
        self.read();
        check(&self.line, self.id);
    }

    fn read(&mut self) {
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line).expect("the server writes");
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        end(&mut self.server);
    }
}

/// Builds a request.
pub fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Panics unless the message answers this id; looks only at its beginning and its end.
pub fn check(message: &[u8], id: u64) {
    let wanted = format!("\"id\":{id}");
    let has = |part: &[u8]| part.windows(wanted.len()).any(|window| window == wanted.as_bytes());
    let (first, last) = (&message[..message.len().min(160)], &message[message.len().saturating_sub(96)..]);
    if !has(first) && !has(last) {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        panic!("not the answer to {id}: {message}");
    }
}

/// Kills a server.
pub fn end(server: &mut Child) {
    // The server may have exited by itself.
    let _ = server.kill();
    let _ = server.wait();
}

/// The params of `initialize`.
pub const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}"#;
/// The notification that ends the handshake.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
