//! Tests what the component of world `client` imports and exports.

use toolgate::extension::CLIENT;
use toolgate::wit;
use toolgate_tests::client::{House, house};
use wasmtime::component::types::ComponentItem;

/// The functions that an import has; one that has none is there for its types.
fn functions(house: &House, import: &str) -> Vec<String> {
    let ty = house.component().component_type();
    match ty.get_import(house.engine(), import).expect("it is imported").ty {
        ComponentItem::ComponentInstance(instance) => instance
            .exports(house.engine())
            .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_) | ComponentItem::Resource(_)))
            .map(|(name, _)| name.to_owned())
            .collect(),
        _ => vec![import.to_owned()],
    }
}

#[test]
fn it_imports_a_transport_and_what_std_drags_in_and_nothing_else() {
    let house = house();
    let ty = house.component().component_type();
    let imports: Vec<String> = ty.imports(house.engine()).map(|(name, _)| name.to_owned()).collect();
    let mut transport = functions(house, "toolgate:client/transport@0.1.0");
    transport.sort();
    assert_eq!(transport, ["reconnect", "request", "wait"]);
    for import in &imports {
        let known = import == "toolgate:client/transport@0.1.0"
            || import.starts_with("wasi:io/")
            || import.starts_with("wasi:cli/")
            || functions(house, import).is_empty();
        assert!(known, "{import} has {:?}", functions(house, import));
    }
}

#[test]
fn it_exports_the_executor_and_every_interface_of_logic() {
    let house = house();
    let ty = house.component().component_type();
    let exports: Vec<String> = ty.exports(house.engine()).map(|(name, _)| name.to_owned()).collect();
    let logic = [
        "types",
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
    ];
    let wanted = logic.iter().map(|interface| format!("toolgate:logic/{interface}@0.1.0"));
    for interface in wanted.chain(["toolgate:client/tool-executor@0.1.0".to_owned()]) {
        assert!(exports.contains(&interface), "{interface} is not among {exports:?}");
    }
}

#[test]
fn nothing_impure_is_even_mentioned_and_no_path_of_its_builder() {
    let text = String::from_utf8_lossy(&CLIENT);
    for package in ["wasi:clocks", "wasi:random", "wasi:filesystem", "wasi:sockets", "wasi:http"] {
        assert!(!text.contains(package), "{package}");
    }
    let workspace = env!("CARGO_MANIFEST_DIR").trim_end_matches("/tests");
    assert!(!text.contains(workspace), "the component carries {workspace}");
    let home = std::env::var("HOME").unwrap_or_default();
    assert!(home.len() < 4 || !text.contains(&home), "the component carries {home}");
}

#[test]
fn every_item_of_the_wit_is_documented_and_dated() {
    let package = wit::client_package();
    let own = package.split("\npackage ").next().expect("a text has a beginning");
    let lines: Vec<&str> = own.lines().map(str::trim).collect();
    let items = ["interface ", "world ", "record "];
    for (at, line) in lines.iter().enumerate() {
        let item = items.iter().any(|word| line.starts_with(word)) || line.contains(": async func(");
        let member = line.ends_with(',') && !line.starts_with("///");
        if item {
            assert!(lines[at - 1].starts_with("@since(version = "), "no @since before: {line}");
        }
        if item || member {
            let documented = lines[..at].iter().rev().find(|line| !line.starts_with("@since")).unwrap();
            assert!(documented.starts_with("///"), "no documentation before: {line}");
        }
    }
}

#[test]
fn only_the_modules_that_say_so_know_wasmtime() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/src");
    let mut folders = vec![std::path::PathBuf::from(sources)];
    let mut strangers = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let place = entry.strip_prefix(sources).unwrap().with_extension("");
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs")
                && !(place.starts_with("logic") || place.starts_with("extension"))
                && std::fs::read_to_string(&entry).unwrap().contains("wasmtime::")
            {
                strangers.push(place);
            }
        }
    }
    assert!(strangers.is_empty(), "{strangers:?}");
}
