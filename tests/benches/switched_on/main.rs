//! What a gateway costs with its rules switched on: filters, masks, records and approval.
//!
//! Run with `cargo build --release --workspace && cargo bench -p toolgate-tests --bench switched_on [-- PART]`; the parts
//! are `calls`, `texts` and `sessions`. If `PEER` names a program, it is started as `PEER PORT SERVER` and has to serve
//! MCP over Streamable HTTP on that port, at `PEER_PATH` (`/mcp` by default), in front of the program `SERVER`, which
//! speaks MCP over stdio.

mod calls;
mod sessions;
mod texts;

fn main() {
    let part = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| part.as_deref().is_none_or(|part| name == part);
    let parts: [(&str, fn()); 3] = [("calls", calls::calls), ("texts", texts::texts), ("sessions", sessions::sessions)];
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, run)| run());
}

const ECHO: &str = env!("CARGO_BIN_EXE_echo");
