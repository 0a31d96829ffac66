//! Tests what the component imports and exports, and how components that do not fit are rejected.

use toolgate::logic::{BadComponent, Component, ComponentOptions, EMBEDDED, LogicError};
use toolgate::wit;

#[test]
fn the_component_imports_nothing_but_what_std_drags_in() {
    let imports = toolgate_tests::component().imports();
    let allowed = |name: &str| name.starts_with("wasi:io/") || name.starts_with("wasi:cli/");
    assert!(!imports.is_empty());
    let strangers: Vec<&String> = imports.iter().filter(|name| !allowed(name)).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

#[test]
fn nothing_impure_is_even_mentioned() {
    let text = String::from_utf8_lossy(&EMBEDDED);
    for package in ["wasi:clocks", "wasi:random", "wasi:filesystem", "wasi:sockets", "wasi:http"] {
        assert!(!text.contains(package), "{package}");
    }
}

#[test]
fn the_component_carries_no_path_of_its_builder() {
    let text = String::from_utf8_lossy(&EMBEDDED);
    let workspace = env!("CARGO_MANIFEST_DIR").trim_end_matches("/tests");
    assert!(!text.contains(workspace), "the component carries {workspace}");
    let home = std::env::var("HOME").unwrap_or_default();
    assert!(home.len() < 4 || !text.contains(&home), "the component carries {home}");
}

#[test]
fn every_item_of_the_wit_is_documented_and_dated() {
    let package = wit::package();
    let lines: Vec<&str> = package.lines().map(str::trim).collect();
    for (at, line) in lines.iter().enumerate() {
        let item = ["interface ", "world ", "record ", "variant ", "enum ", "resource ", "type "];
        let starts_item = item.iter().any(|word| line.starts_with(word));
        let function = line.contains(": func(");
        let member = (line.ends_with(',') || line.ends_with("),")) && !line.starts_with("///");
        if starts_item {
            assert!(lines[at - 1].starts_with("@since(version = "), "no @since before: {line}");
        }
        if starts_item || function || member {
            let documented = lines[..at].iter().rev().find(|line| !line.starts_with("@since")).unwrap();
            assert!(documented.starts_with("///"), "no documentation before: {line}");
        }
    }
}

#[test]
fn what_is_no_component_is_refused_with_a_reason() {
    let cut = &EMBEDDED[..EMBEDDED.len() / 2];
    for (bytes, reason) in [
        (&b""[..], "empty"),
        (b"hello", "does not begin like a WebAssembly binary"),
        (b"\0asm\x01\0\0\0", "core module"),
        (b"\0asm\x0d\0\x01\0\xff\xff", "damaged"),
        (cut, "damaged"),
    ] {
        let error = Component::from_bytes(bytes, &ComponentOptions::default()).unwrap_err();
        assert!(matches!(error, LogicError::BadComponent(BadComponent::NotAComponent(_))), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn an_empty_component_is_told_all_that_is_missing() {
    let error = Component::from_bytes(b"\0asm\x0d\0\x01\0", &ComponentOptions::default()).unwrap_err().to_string();
    for interface in [
        "naming",
        "arguments",
        "filtering",
        "catalog",
        "recovery",
        "backoff",
        "lifecycle",
        "content",
        "masking",
        "execution",
    ] {
        assert!(error.contains(&format!("toolgate:logic/{interface}@0.1.0")), "{error}");
    }
}
