//! A Redis for one test.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use url::Url;

use super::super::{Store, draw_replica_name};

/// A Redis that ends with this value.
pub(super) struct RedisServer {
    port: u16,
    options: Vec<String>,
    /// Where it would keep its data.
    folder: tempfile::TempDir,
    process: Child,
}

impl RedisServer {
    /// Starts `redis-server` with more options; `None`, said aloud, if it is not installed.
    pub(super) fn start(options: &[&str]) -> Option<Self> {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        // Another program may take the port first.
        for _ in 0..10 {
            let (port, folder) = (free_port(), tempfile::tempdir().unwrap());
            let process = match spawn(port, &options, &folder) {
                Ok(process) => process,
                Err(error) => {
                    // Not by a macro, whose output is shown only for tests that fail.
                    let text = format!("SKIPPED, since redis-server cannot be started: {error}\n");
                    std::io::stderr().write_all(text.as_bytes()).unwrap();
                    return None;
                }
            };
            let mut server = RedisServer { port, options: options.clone(), folder, process };
            if server.answers() {
                return Some(server);
            }
        }
        panic!("redis-server does not start");
    }

    /// Opens a store in it for a new replica.
    pub(super) fn store(&self) -> Store {
        self.store_with("")
    }

    /// Opens a store in it for a new replica, with a login such as `user:password@`.
    pub(super) fn store_with(&self, login: &str) -> Store {
        Store::redis(&self.url(login), &draw_replica_name()).unwrap()
    }

    pub(super) fn url(&self, login: &str) -> Url {
        Url::parse(&format!("redis://{login}127.0.0.1:{}/3", self.port)).unwrap()
    }

    /// Sends a signal to it, by name.
    pub(super) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([&*format!("-{name}"), &*id]).status().unwrap().success());
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again at the same port, without its data.
    pub(super) fn restart(&mut self) {
        self.process = spawn(self.port, &self.options, &self.folder).unwrap();
        assert!(self.answers());
    }

    /// Sends a command to it, and returns what it answers.
    pub(super) fn ask(&self, command: &[&str]) -> String {
        let asked = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(command).output().unwrap();
        String::from_utf8(asked.stdout).unwrap()
    }

    /// Waits until it answers; false if it has ended.
    fn answers(&mut self) -> bool {
        loop {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            // With a password, it answers that it wants one.
            let answer = self.ask(&["PING"]);
            if answer.starts_with("PONG") || answer.starts_with("NOAUTH") {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(port: u16, options: &[String], folder: &tempfile::TempDir) -> std::io::Result<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(folder.path()).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
