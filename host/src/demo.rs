//! The built-in demo server: a real MCP server of both eras, for trying things out.
//!
//! It is synchronous and needs nothing but an input and an output:
//!
//! ```
//! let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
//! toolgate::demo::serve(&ping[..], std::io::stdout())?; // {"jsonrpc":"2.0","id":1,"result":{}}
//! # Ok::<(), std::io::Error>(())
//! ```

mod era;
mod forecast;
mod in_process;
mod methods;
mod output;
mod server;
mod sleeps;
mod tools;

pub use in_process::InProcessDemo;
pub use server::serve;

/// The demo server and its tools, in the `servers` shape of `eval`.
pub const SERVERS: &str = include_str!("demo/servers.json");

#[cfg(test)]
mod tests;
