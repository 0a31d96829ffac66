//! The lowest possible cost of a call, for benches: starts a server, does the handshake, calls `echo` and prints the
//! answer.

use std::io::{BufRead, BufReader, Error, Write};
use std::process::{Command, Stdio};

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let program = words.next().ok_or_else(|| Error::other("usage: oneshot PROGRAM [ARGS]"))?;
    let mut server = Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(Error::other("the server has no pipes"));
    };
    let mut output = BufReader::new(output);
    let mut line = String::new();
    input.write_all(INITIALIZE.as_bytes())?;
    output.read_line(&mut line)?;
    input.write_all(CALL.as_bytes())?;
    line.clear();
    output.read_line(&mut line)?;
    let answer: serde_json::Value = serde_json::from_str(&line)?;
    println!("{}", answer["result"]["content"][0]["text"].as_str().unwrap_or_default());
    drop(input);
    server.wait().map(drop)
}

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"#,
    r#""clientInfo":{"name":"oneshot","version":"1"}}}"#,
    "\n"
);
const CALL: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#,
    "\n"
);
