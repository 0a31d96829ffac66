//! An isolated environment for each run of the binary: folders, a configuration, and only the given variables.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary under test.
pub const TOOLGATE: &str = env!("CARGO_BIN_EXE_toolgate");

/// Folders that nobody else uses: `home` for the user, `work` to run in.
pub struct Place {
    folder: TempDir,
    config: Option<PathBuf>,
    variables: Vec<(String, String)>,
}

/// How a run ended, and what it printed.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    /// A place without any configuration.
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["home", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Place { folder, config: None, variables: Vec::new() }
    }

    /// A place whose runs are told of a `toolgate.yaml` with these servers.
    pub fn with(servers: Value) -> Self {
        Place::configured(&json!({"version": 1, "servers": servers}))
    }

    /// A place whose runs are told of this `toolgate.yaml`.
    pub fn configured(config: &Value) -> Self {
        Place::new().and_configured(config)
    }

    /// Gives the place this `toolgate.yaml`, which its runs are told of.
    pub fn and_configured(mut self, config: &Value) -> Self {
        self.config = Some(self.file("home/servers.yaml", config.to_string()));
        self
    }

    /// Sets a variable for all runs here.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file; the name counts from the folder around `home` and `work`.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The path of a file here.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary, ready to be started here.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        #[cfg(unix)]
        hear_signals();
        let mut command = Command::new(TOOLGATE);
        command.args(arguments);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        // The compiled component is kept for all tests.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        command.env_clear().env("PATH", path).env("HOME", self.path("home")).env("TOOLGATE_CACHE_DIR", cache);
        // Gateways of other places are not to be found.
        command.env("XDG_RUNTIME_DIR", self.path("run"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.path("work")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Ran {
        self.command(arguments).output().expect("the binary starts").into()
    }

    /// Runs the binary to its end at a terminal where this is typed; standard output and standard error are one text.
    #[cfg(unix)]
    pub fn run_at_terminal<A: AsRef<OsStr>>(&self, arguments: &[A], typed: &str) -> Ran {
        fed(&mut self.at_terminal(arguments), typed)
    }

    /// The binary, ready to be started at such a terminal.
    #[cfg(unix)]
    pub fn at_terminal<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        self.given_a_terminal(&self.command(arguments))
    }

    /// Another program, such as a shell, which finds the binary by its name; no configuration is named.
    #[cfg(unix)]
    pub fn program(&self, name: &str, arguments: &[&str]) -> Command {
        let toolgate = Place::command::<&str>(self, &[]);
        let mut program = Command::new(name);
        program.args(arguments).current_dir(self.path("work")).stdin(Stdio::null());
        program.env_clear().envs(toolgate.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let binaries = Path::new(TOOLGATE).parent().expect("the binary lies in a folder").to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(binaries).chain(std::env::split_paths(&path));
        program.env("PATH", std::env::join_paths(folders).expect("no folder has a colon in its name"));
        program
    }

    /// The command, ready to be started at a terminal.
    #[cfg(unix)]
    pub fn given_a_terminal(&self, command: &Command) -> Command {
        let mut at_terminal = Command::new(&*PYTHON);
        at_terminal.args(["-I", "-S", "-c", TERMINAL]).arg(command.get_program()).args(command.get_args());
        at_terminal.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        at_terminal.current_dir(self.path("work")).stdout(Stdio::piped()).stderr(Stdio::piped());
        at_terminal
    }

    /// Runs the binary to its end with this on standard input.
    pub fn feed<A: AsRef<OsStr>>(&self, arguments: &[A], input: &str) -> Ran {
        fed(&mut self.command(arguments), input)
    }
}

/// Runs a command to its end with this on standard input.
pub fn fed(command: &mut Command, input: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
    // A command that reads nothing may have ended already.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the program ends").into()
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
        let code = output.status.code().expect("it is not killed");
        Ran { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ran {
    /// Checks the exit code, and returns the run.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Checks that standard error contains this, and returns the run.
    #[track_caller]
    pub fn says(self, what: &str) -> Self {
        assert!(self.stderr.contains(what), "no {what:?} in {self:#?}");
        self
    }

    /// Checks that standard output contains this, and returns the run.
    #[track_caller]
    pub fn prints(self, what: &str) -> Self {
        assert!(self.stdout.contains(what), "no {what:?} in {self:#?}");
        self
    }

    /// The one line of JSON on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:#?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:#?}"))
    }
}

/// The demo server as an entry of a configuration.
pub fn demo() -> Value {
    json!({"command": TOOLGATE, "args": ["demo-server"]})
}

/// A server of `server.py` with this habit as an entry of a configuration.
pub fn fixture(habit: &str) -> Value {
    fixture_with(habit, &[])
}

/// The entry of a test server with this habit and arguments for it.
pub fn fixture_with(habit: &str, arguments: &[&str]) -> Value {
    // Without what is installed beside Python, which takes it longest to look at.
    let arguments = [&["-I", "-S", SCRIPT, habit], arguments].concat();
    json!({"command": *PYTHON, "args": arguments})
}

/// A server of another script, which lies beside `server.py`, as an entry of a configuration.
pub fn fixture_in(script: &str, arguments: &[&str]) -> Value {
    let script = format!("{}/tests/cli/{script}", env!("CARGO_MANIFEST_DIR"));
    let arguments = [&["-I", "-S", &script], arguments].concat();
    json!({"command": *PYTHON, "args": arguments})
}

/// An entry with more keys.
pub fn and(mut entry: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more} is no object") };
    entry.as_object_mut().unwrap().extend(more);
    entry
}

/// Python itself: a launcher in its place would cost every server a shell script.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable, end='')"]).output();
    String::from_utf8(output.expect("the tests need python3").stdout).expect("its path is UTF-8")
});

/// Runs its arguments at a terminal.
const TERMINAL: &str = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

/// The script that `fixture` runs.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/server.py");

/// The values at a pointer in each element of a list.
pub fn each<'v>(list: &'v Value, pointer: &str) -> Vec<&'v str> {
    let text = |item: &'v Value| item.pointer(pointer).and_then(Value::as_str).unwrap_or("?");
    list.as_array().expect("it is a list").iter().map(text).collect()
}

/// Lets children hear signals even if these tests run where they are ignored, as under `nohup` or `&`: in a child, a
/// signal that its parent handles has its default, and one that its parent ignores is ignored.
#[cfg(unix)]
fn hear_signals() {
    use rustix::process::Signal;
    use tokio::signal::unix::SignalKind;
    static HEARD: LazyLock<()> = LazyLock::new(|| {
        let ignored = [(Signal::INT, SignalKind::interrupt()), (Signal::HUP, SignalKind::hangup())];
        let ignored = ignored.into_iter().filter(|(signal, _)| is_ignored(*signal));
        // On a thread of its own, because the test may be in a runtime already.
        let handle = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _inside = runtime.enter();
            ignored.for_each(|(_, kind)| drop(tokio::signal::unix::signal(kind).unwrap()));
        };
        std::thread::spawn(handle).join().unwrap();
    });
    LazyLock::force(&HEARD);
}

/// Whether this process, and so each that it starts, ignores the signal.
#[cfg(unix)]
fn is_ignored(signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}
