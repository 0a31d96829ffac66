//! The module as the rest of the host uses it, with the embedded component and with bad ones.

use std::fs;
use std::path::Path;

use super::*;

fn load(options: &ComponentOptions) -> Component {
    Component::embedded(options).expect("the embedded component loads")
}

/// Returns the default options with a cache that all tests share, because compiling is slow.
pub(super) fn quick() -> ComponentOptions {
    cached(&Path::new(env!("OUT_DIR")).join("test-cache"))
}

fn cached(folder: &Path) -> ComponentOptions {
    ComponentOptions { cache: Cache::Dir(folder.to_owned()), ..ComponentOptions::default() }
}

fn limited(fuel: Option<u64>, memory_bytes: usize) -> ComponentOptions {
    ComponentOptions { limits: InstanceLimits { fuel, memory_bytes }, ..quick() }
}

/// Returns why these bytes are rejected.
fn refusal(bytes: &[u8]) -> BadComponent {
    match Component::from_bytes(bytes, &quick()) {
        Err(LogicError::BadComponent(reason)) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

fn text(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).expect("the test's component is well formed")
}

#[test]
fn a_component_crosses_threads_and_an_instance_moves() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send>() {}
    shared::<Component>();
    moved::<Instance>();
}

#[test]
fn the_embedded_component_decides() {
    let component = load(&quick());
    let mut instance = component.instantiate().unwrap();
    assert_eq!(instance.normalize("a__b").unwrap(), "a.b");
    assert_eq!(component.digest(), EMBEDDED_DIGEST);
    assert!(instance.memory_bytes() > 0);
    assert!(!instance.is_dead());
}

#[test]
fn a_component_from_memory_has_the_digest_of_the_build() {
    let component = Component::from_bytes(&EMBEDDED, &quick()).unwrap();
    assert_eq!(component.digest(), EMBEDDED_DIGEST);
}

#[test]
fn it_runs_without_fuel() {
    let mut instance = load(&limited(None, 64 << 20)).instantiate().unwrap();
    assert_eq!(instance.normalize("a__b").unwrap(), "a.b");
}

#[test]
fn each_new_call_has_an_id_of_sixteen_digits() {
    let id = || types::execution::ToolCall::new("a.b".to_owned(), String::new()).id;
    let (one, other) = (id(), id());
    assert!(one.len() == 16 && u64::from_str_radix(&one, 16).is_ok() && one != other, "{one} {other}");
}

#[test]
fn resources_live_until_they_are_dropped() {
    let mut instance = load(&quick()).instantiate().unwrap();
    let settings = instance.default_settings(&["a".to_owned()]).unwrap();
    let gate = instance.new_gate(&settings).unwrap().unwrap();
    let call = types::execution::ToolCall { id: "1".into(), name: "a__b".into(), arguments: String::new() };
    let (execution, _) = instance.begin(&gate, &call).unwrap();
    instance.drop_gate(gate).unwrap();
    instance.next(&execution, &types::execution::Event::Cancelled).unwrap();
    instance.drop_execution(execution).unwrap();
    assert!(!instance.is_dead());
}

#[test]
fn a_handle_of_another_instance_is_refused_and_does_no_harm() {
    let component = load(&quick());
    let (mut one, mut other) = (component.instantiate().unwrap(), component.instantiate().unwrap());
    let catalog = one.new_catalog(&[], false).unwrap();
    assert!(matches!(other.resolve(&catalog, "a.b"), Err(LogicError::ForeignHandle)));
    assert!(matches!(other.drop_catalog(catalog), Err(LogicError::ForeignHandle)));
    assert!(!other.is_dead());
}

#[test]
fn a_call_that_burns_its_fuel_ends_and_the_instance_with_it() {
    let fuel = 200_000;
    let mut instance = load(&limited(Some(fuel), 256 << 20)).instantiate().unwrap();
    let error = instance.normalize(&"x".repeat(8 << 20)).unwrap_err();
    assert!(matches!(error, LogicError::Fuel { limit } if limit == fuel), "{error}");
    assert!(instance.is_dead());
    assert!(matches!(instance.normalize("a"), Err(LogicError::Dead)));
}

#[test]
fn every_call_has_its_own_fuel() {
    let mut instance = load(&limited(Some(200_000), 256 << 20)).instantiate().unwrap();
    for _ in 0..1000 {
        instance.normalize("a__b").unwrap();
    }
}

#[test]
fn a_call_that_wants_too_much_memory_ends() {
    let mut instance = load(&limited(None, 4 << 20)).instantiate().unwrap();
    let error = instance.normalize(&"x".repeat(8 << 20)).unwrap_err();
    assert!(matches!(error, LogicError::Memory { limit } if limit == 4 << 20), "{error}");
}

#[test]
fn a_component_that_does_not_fit_in_its_memory_does_not_start() {
    let error = load(&limited(None, 1 << 16)).instantiate().unwrap_err();
    assert!(matches!(error, LogicError::Memory { .. }), "{error}");
}

#[test]
fn a_pool_gives_what_it_has_and_takes_it_back() {
    let options = ComponentOptions { allocation: Allocation::Pooled { instances: 2 }, ..quick() };
    let component = load(&options);
    let mut one = component.instantiate().unwrap();
    let _other = component.instantiate().unwrap();
    assert!(matches!(component.instantiate(), Err(LogicError::PoolFull { instances: 2 })));
    assert_eq!(one.normalize("a__b").unwrap(), "a.b");
    drop(one);
    assert!(component.instantiate().is_ok());
}

#[test]
fn bytes_that_are_no_component_are_refused_with_what_they_are() {
    let check = |bytes: &[u8], said: &str| {
        let reason = refusal(bytes).to_string();
        assert!(reason.starts_with("not a WebAssembly component: ") && reason.contains(said), "{reason}");
    };
    check(b"", "empty");
    check(&text("(module)"), "core module");
    check(b"  (component)", "text");
    check(b"\x7fELF\x02\x01", "native code");
    check(b"hello", "does not begin like");
    check(b"\0asm", "does not begin like");
    check(b"\0asm\x0d\0\x01\0\xff\xff", "damaged");
    check(&EMBEDDED[..EMBEDDED.len() / 2], "damaged");
}

#[test]
fn a_file_that_is_too_large_or_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.wasm");
    fs::File::create(&path).unwrap().set_len((64 << 20) + 1).unwrap();
    let error = Component::from_file(&path, &ComponentOptions::default()).unwrap_err();
    assert!(matches!(error, LogicError::BadFile { source: BadComponent::TooLarge { .. }, .. }), "{error}");
    let error = Component::from_file(folder.path().join("none.wasm"), &ComponentOptions::default()).unwrap_err();
    assert!(matches!(error, LogicError::Unreadable { .. }), "{error}");
}

#[test]
fn an_empty_component_is_told_every_interface_it_lacks() {
    let reason = refusal(&text("(component)")).to_string();
    for interface in ["naming", "arguments", "filtering", "catalog", "recovery", "backoff", "lifecycle", "content"] {
        assert!(reason.contains(&format!("toolgate:logic/{interface}@0.1.0")), "{reason}");
    }
}

#[test]
fn every_forbidden_import_is_named_at_once() {
    let component = r#"(component
        (import "wasi:clocks/monotonic-clock@0.2.6" (instance))
        (import "wasi:random/random@0.2.0" (instance))
        (import "wasi:io/poll@0.2.6" (instance (export "invented" (func))))
        (import "wasi:cli/exit@0.3.0" (instance))
        (import "wasi:cli/stdin@0.2.6" (instance))
        (import "log" (func)))"#;
    let BadComponent::Unfit { forbidden, .. } = refusal(&text(component)) else { panic!("refused for another reason") };
    let expected = [
        "wasi:clocks/monotonic-clock@0.2.6",
        "wasi:random/random@0.2.0",
        "wasi:io/poll@0.2.6#invented",
        "wasi:cli/exit@0.3.0",
        "log",
    ];
    assert_eq!(forbidden, expected);
}

#[test]
fn a_function_of_another_type_is_named() {
    let component = r#"(component
        (core module $m (func (export "f") (param i32) (result i32) local.get 0))
        (core instance $i (instantiate $m))
        (func $f (param "name" u32) (result u32) (canon lift (core func $i "f")))
        (instance $n (export "normalize" (func $f)))
        (export "toolgate:logic/naming@0.1.0" (instance $n)))"#;
    let BadComponent::Unfit { missing, mistyped, forbidden } = refusal(&text(component)) else {
        panic!("refused for another reason")
    };
    assert_eq!(mistyped, ["toolgate:logic/naming@0.1.0#normalize"]);
    assert!(missing.contains(&"toolgate:logic/naming@0.1.0#split".to_owned()), "{missing:?}");
    assert!(forbidden.is_empty());
}

#[test]
fn the_second_start_takes_the_component_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let options = cached(&folder.path().join("new/toolgate"));
    for _ in 0..2 {
        let component = load(&options);
        assert_eq!(component.warning(), None);
        assert_eq!(component.instantiate().unwrap().normalize("a__b").unwrap(), "a.b");
    }
}
