//! The `toolgate` program as people start it: one call, many servers, one large answer.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use toolgate_tests::race::{base, compare, race, report};

use crate::ECHO;

/// Measures all of them.
pub fn all() {
    let bench = std::env::current_exe().expect("a bench has a path");
    let toolgate = bench.ancestors().nth(2).expect("benches lie in target/release/deps").join("toolgate");
    if !toolgate.exists() {
        println!("programs: SKIPPED, first run `cargo build --release --workspace`");
        return;
    }
    let folder = tempfile::tempdir().expect("the folder for temporary files is writable");
    let toolgate = Toolgate { program: toolgate, folder: folder.path().to_owned() };
    one_call(&toolgate);
    side_by_side(&toolgate);
    memory(&toolgate);
}

/// The program, and a folder for its configurations.
struct Toolgate {
    program: PathBuf,
    folder: PathBuf,
}

impl Toolgate {
    fn config(&self, name: &str, servers: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, format!("servers:\n{servers}")).expect("the folder is writable");
        path
    }

    fn command(&self, config: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(config).args(words).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn output(&self, config: &Path, words: &[&str]) -> String {
        let output = self.command(config, words).output().expect("toolgate starts");
        String::from_utf8(output.stdout).expect("toolgate prints text")
    }
}

/// From the start of the program to its end, its server's included.
fn one_call(toolgate: &Toolgate) {
    let auto = toolgate.config("echo.yaml", &format!("  it: {{command: {ECHO}}}\n"));
    let legacy = toolgate.config("legacy.yaml", &format!("  it: {{command: {ECHO}, protocol: legacy}}\n"));
    let call = |config| assert_eq!(toolgate.output(config, &["call", "it.echo", "text: hello"]), "hello\n");
    let bare = || {
        let output = Command::new(env!("CARGO_BIN_EXE_oneshot")).arg(ECHO).output().expect("it starts");
        assert_eq!(output.stdout, b"hello\n");
    };
    let [bare, auto, legacy] = race(15, 5, [&mut { bare }, &mut || call(&auto), &mut || call(&legacy)]);
    base("one call from start to end, bare", bare);
    report("one call from start to end, `toolgate call`", auto, bare, 4.0);
    compare("one call from start to end, the era being known", legacy, bare);
}

/// Servers that take a second to start, and one that never does.
fn side_by_side(toolgate: &Toolgate) {
    let servers = |count: usize| {
        (0..count).fold(String::new(), |mut servers, n| {
            let _ = writeln!(servers, "  s{n}: {{command: {FIXTURE}, args: [slow-start, \"1\"]}}");
            servers
        })
    };
    let (one, many) = (toolgate.config("one.yaml", &servers(1)), toolgate.config("many.yaml", &servers(20)));
    let hangs =
        format!("{}  hangs: {{command: {FIXTURE}, args: [silent], timeouts: {{initialize: 3s}}}}\n", servers(19));
    let hangs = toolgate.config("hangs.yaml", &hangs);
    let tools = |config, servers: usize| {
        let printed = toolgate.output(config, &["tools", "--json"]);
        assert_eq!(printed.matches("__echo\"").count(), servers, "{printed}");
    };
    let [one, many, hangs] = race(3, 1, [&mut || tools(&one, 1), &mut || tools(&many, 20), &mut || tools(&hangs, 19)]);
    base("`toolgate tools`, a server that takes 1 s", one);
    report("`toolgate tools`, 20 such servers", many, one, 1.5);
    report("`toolgate tools`, 19 and one that hangs for 3 s", hangs, Duration::from_secs(3), 1.5);
}

/// An answer of 64 MiB where everything allows it.
fn memory(toolgate: &Toolgate) {
    let servers = format!("  it: {{command: {ECHO}, max_message_bytes: 1GiB}}\n");
    let config = toolgate.config("large.yaml", &servers);
    let arguments = format!("bytes: {LARGE}");
    let words = ["call", "it.payload", arguments.as_str(), "--max-result-bytes", "0"];
    let mut running = toolgate.command(&config, &words).stdout(Stdio::piped()).spawn().expect("toolgate starts");
    let mut output = running.stdout.take().expect("it has an output");
    let (mut piece, mut printed, mut peak) = (vec![0; 1 << 20], 0, None);
    // It cannot end before the last of its output is taken, so that its peak can be seen until then.
    loop {
        peak = peak.max(peak_of(running.id()));
        match output.read(&mut piece).expect("it writes") {
            0 => break,
            count => printed += count,
        }
    }
    let status = running.wait().expect("it ends");
    if !status.success() || printed < LARGE {
        println!("{:<58} FAILED: {status}, {printed} bytes", "64 MiB in one answer");
        return;
    }
    let Some(peak) = peak else {
        println!("64 MiB in one answer: memory SKIPPED, this system does not tell it");
        return;
    };
    let ratio = peak as f64 / LARGE as f64;
    let verdict = if ratio <= 4.0 { "ok" } else { "TOO MUCH" };
    let mib = peak >> 20;
    println!("{:<58} {mib:>6} MiB  {ratio:>5.2} × (at most 4 ×) {verdict}", "peak memory for 64 MiB in one answer");
}

/// The most memory that a process has had at a time, in bytes.
fn peak_of(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok().map(|kib: usize| kib << 10)
}

const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture");
const LARGE: usize = 64 << 20;
