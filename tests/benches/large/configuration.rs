//! Configurations of large gateways.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a configuration has.
#[derive(Clone, Copy)]
pub struct Size {
    pub servers: usize,
    /// The number of principals; without any, clients need no token.
    pub principals: usize,
    /// What `gateway.list` says.
    pub list: &'static str,
    /// How many sessions the gateway keeps in memory.
    pub sessions: usize,
}

/// Writes a configuration, and returns its file.
pub fn write(folder: &Path, at: SocketAddr, size: Size) -> PathBuf {
    let file = folder.join(format!("{}-{}-{}-{}.yaml", size.servers, size.principals, size.list, size.sessions));
    let mut yaml = String::from("readiness: all\nservers:\n");
    for server in 0..size.servers {
        let _ = writeln!(yaml, "  s{server:03}: {{url: \"http://{at}/{server}/mcp\"}}");
    }
    let Size { list, sessions, .. } = size;
    let _ = writeln!(yaml, "gateway:\n  list: {list}\n  max_sessions: {sessions}\n  max_connections: 8000");
    if size.principals > 0 {
        yaml.push_str("  tokens:\n");
    }
    for principal in 0..size.principals {
        let rights = rights(principal % SETS, size.servers);
        let _ = writeln!(yaml, "    - {{principal: p{principal}, token: {}, {rights}}}", token(principal));
    }
    std::fs::write(&file, yaml).expect("the folder is writable");
    file
}

/// Adds a token for another principal.
pub fn add_token(file: &Path, principal: usize) {
    let mut yaml = std::fs::read_to_string(file).expect("it was written");
    let _ = writeln!(yaml, "    - {{principal: p{principal}, token: {}}}", token(principal));
    std::fs::write(file, yaml).expect("the folder is writable");
}

/// Returns the token of a principal.
pub fn token(principal: usize) -> String {
    format!("bench-token-of-principal-number-{principal:04}")
}

/// Returns the rights of a set: half of them grant everything, each in its own words, and half select servers.
fn rights(set: usize, servers: usize) -> String {
    if set.is_multiple_of(2) {
        return format!("capabilities: [\"server:*\", team-{set}]");
    }
    let selected = (0..servers).filter(|server| sees(set, *server)).take(150).map(|server| format!("s{server:03}"));
    format!("servers: [{}]", selected.collect::<Vec<_>>().join(", "))
}

/// Reports whether the principals of a set see one of the first servers.
pub fn sees(set: usize, server: usize) -> bool {
    set.is_multiple_of(2) || server % SETS != set
}

/// As many sessions as any part opens.
pub const MANY_SESSIONS: usize = 4000;
/// How many sets of equal rights there are.
pub const SETS: usize = 10;
