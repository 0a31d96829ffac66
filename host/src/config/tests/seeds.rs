//! The expectations of the seed projects, row by row; a comment marks where toolgate differs.

use super::super::model::{FileShape, Masking, ServerAuth, ServerSummarizer, SummarizerKind, TransportKind};
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
        (r#"{"command": "x", "summarization": {"size_threshold_tokens": 5000}}"#, ""),
        (r#"{"command": "x", "summarization": {"size_threshold_tokens": 0}}"#, "size_threshold_tokens"),
        (r#"{"command": "x", "data_masking": {"pattern_group": ["basic"]}}"#, "pattern_group"),
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

#[test]
fn a_file_of_tarsy_is_read_with_the_same_meaning() {
    let text = r#"
agents: {a: {mcp_servers: [kubernetes-server]}}
mcp_servers:
  kubernetes-server:
    transport:
      type: stdio
      command: npx
      args: ["-y", "kubernetes-mcp-server@latest"]
      env: {KUBECONFIG: "{{.KUBECONFIG}}"}
    instructions: Start with namespaces.
    data_masking:
      enabled: true
      pattern_groups: [kubernetes]
      patterns: [email]
      custom_patterns: [{pattern: "x+", replacement: "[X]", description: letters}]
    summarization: {enabled: true, size_threshold_tokens: 7000, summary_max_token_limit: 1000}
  remote:
    transport: {type: http, url: "https://mcp.example.com/v1", bearer_token: "{{.TOKEN}}", verify_ssl: false, timeout: 90}
    data_masking: {enabled: false, pattern_groups: [security]}
    summarization: {enabled: false}
"#;
    let config = parse(text, Path::new("tarsy.yaml")).unwrap();
    assert_eq!(config.shape, FileShape::Tarsy);
    assert_eq!(complaints("tarsy.yaml", text), "");
    let [kubernetes, remote] = &config.servers[..] else { panic!("two servers") };
    assert_eq!((kubernetes.kind, kubernetes.args.len()), (TransportKind::Stdio, 2));
    assert_eq!(kubernetes.env[0].1.text, "{{.KUBECONFIG}}");
    assert_eq!(kubernetes.instructions.as_deref(), Some("Start with namespaces."));
    assert_eq!(
        (&*kubernetes.masking.groups, &*kubernetes.masking.patterns),
        (&["kubernetes".to_owned()][..], &["email".to_owned()][..])
    );
    assert_eq!(kubernetes.masking.custom[0].name.as_deref(), Some("letters"));
    assert_eq!((&kubernetes.summarizer, kubernetes.summarize_above_tokens), (&ServerSummarizer::Shared, Some(7000)));
    assert_eq!((remote.kind, remote.timeouts.call.as_secs(), remote.tls.verify), (TransportKind::Http, 90, false));
    assert!(matches!(&remote.auth, ServerAuth::Bearer(token) if token.text == "{{.TOKEN}}"));
    assert_eq!((&remote.masking, &remote.summarizer), (&Masking::default(), &ServerSummarizer::Off));
}

#[test]
fn a_mask_of_tarsy_that_cannot_be_read_disables_its_server() {
    for masking in ["{enabled: maybe}", "{custom_patterns: [{replacement: x}]}", "{groups: [basic]}", "[basic]"] {
        let text = format!("mcp_servers: {{a: {{transport: {{command: x}}, data_masking: {masking}}}}}");
        let config = parse(&text, Path::new("tarsy.yaml")).unwrap();
        assert!(config.servers[0].problem.is_some(), "{masking}");
    }
}

#[test]
fn a_server_can_have_its_own_summaries_and_a_description() {
    let text = "servers:
  own: {command: x, summarizer: {command: sum}, summarize_above_tokens: 9, description: For tests., structured_text: true}
  off: {command: x, summarizer: false}
  shared: {command: x, summarizer: true}
";
    assert_eq!(complaints("toolgate.yaml", text), "");
    let config = parse(text, Path::new("toolgate.yaml")).unwrap();
    let [own, off, shared] = &config.servers[..] else { panic!("three servers") };
    assert!(
        matches!(&own.summarizer, ServerSummarizer::Own(rules) if matches!(&rules.how, SummarizerKind::Command { program, .. } if program.text == "sum"))
    );
    assert_eq!((own.summarize_above_tokens, own.description.as_deref()), (Some(9), Some("For tests.")));
    assert!(own.structured_text && !off.structured_text);
    assert_eq!((&off.summarizer, &shared.summarizer), (&ServerSummarizer::Off, &ServerSummarizer::Shared));
    for (value, expected) in [("{}", "needs a `command`"), ("7", "true or false")] {
        let found = complaints("toolgate.yaml", &format!("servers: {{a: {{command: x, summarizer: {value}}}}}"));
        assert!(found.contains(expected), "{value}: {found}");
    }
}
