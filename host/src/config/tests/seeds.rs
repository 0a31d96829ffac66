//! The expectations of the seed projects, row by row; a comment marks where toolgate differs.

use super::super::model::{ServerAuth, TransportKind};
use super::super::parse;
use super::complaints;

use std::path::Path;

#[test]
fn entries_are_accepted_and_refused_as_in_the_seeds() {
    let rows = [
        (r#"{"type": "stdio", "command": "test-command"}"#, ""),
        (r#"{"type": "http", "url": "http://example.com"}"#, ""),
        (r#"{"type": "sse", "url": "https://mcp.example.com/sse"}"#, ""),
        (r#"{"type": "invalid"}"#, "invalid transport type"),
        (r#"{"type": "stdio"}"#, "command required for stdio transport"),
        (r#"{"type": "http"}"#, "url required for http transport"),
        // The seeds say `requires url`, `requires command` and `unsupported transport type`; toolgate has one wording
        // for each.
        (r#"{"type": "sse"}"#, "url required for sse transport"),
        (r#"{"type": "grpc"}"#, "invalid transport type \"grpc\""),
        // The seeds refuse unknown masks while reading; here the component does, which knows the names.
        (r#"{"command": "x", "masking": {"groups": ["nonexistent-group"]}}"#, ""),
        (r#"{"command": "x", "masking": {"patterns": ["nonexistent-pattern"]}}"#, ""),
        // In toolgate, summaries are not a setting of a server.
        (r#"{"command": "x", "summarization": {"size_threshold_tokens": 5000}}"#, "unknown key \"summarization\""),
    ];
    for (entry, expected) in rows {
        let found = complaints("toolgate.yaml", &format!("servers: {{a: {entry}}}"));
        assert_eq!(found.is_empty(), expected.is_empty(), "{entry}: {found}");
        assert!(found.contains(expected), "{entry}: {found}");
    }
}

#[test]
fn a_transport_has_what_its_entry_says_as_in_the_seeds() {
    let text = r#"servers:
  k: {"type": "stdio", "command": "npx", "args": ["-y", "kubernetes-mcp-server@0.0.54"], "env": {"KUBECONFIG": "/home/test/.kube/config"}}
  h: {"type": "http", "url": "https://mcp.example.com/v1", "bearer_token": "my-token", "timeout": 30}
  s: {"type": "sse", "url": "https://mcp.example.com/sse", "verify_ssl": false}
"#;
    let config = parse(text, Path::new("toolgate.yaml")).unwrap();
    let [k, h, s] = &config.servers[..] else { panic!("three servers") };
    assert_eq!(
        (k.kind, k.env[0].0.as_str(), k.env[0].1.text.as_str()),
        (TransportKind::Stdio, "KUBECONFIG", "/home/test/.kube/config")
    );
    assert!(matches!(&h.auth, ServerAuth::Bearer(token) if token.text == "my-token"));
    assert_eq!(h.timeouts.call.as_secs(), 30);
    assert!(s.kind == TransportKind::Sse && !s.tls.verify);
}
