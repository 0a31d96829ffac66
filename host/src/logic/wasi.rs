//! Stubs for the few WASI functions that the standard library imports: no arguments, no environment, no input; output
//! is discarded, and stderr is kept as the reason of a trap. Nothing here blocks, so any thread may call the component.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentType, Linker, LinkerInstance, Lower, Resource, ResourceType};
use wasmtime::{Engine, Result, StoreContextMut};

use super::state::StoreState;

/// Links the component's imports, and returns those that are not allowed.
pub(super) fn link(engine: &Engine, component: &Component, linker: &mut Linker<StoreState>) -> Result<Vec<String>> {
    let mut forbidden = Vec::new();
    for (import, item) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(instance)) = (allowed(import), item.ty) else {
            forbidden.push(import.to_owned());
            continue;
        };
        let mut linked = linker.instance(import)?;
        for (name, item) in instance.exports(engine) {
            let known = match item.ty {
                ComponentItem::ComponentFunc(_) => link_function(&mut linked, interface, name)?,
                ComponentItem::Resource(_) => link_resource(&mut linked, name)?,
                _ => true,
            };
            if !known {
                forbidden.push(format!("{import}#{name}"));
            }
        }
    }
    Ok(forbidden)
}

/// Returns the interface without its version, if a component may import it.
fn allowed(import: &str) -> Option<&str> {
    let (interface, version) = import.split_once('@')?;
    let (package, name) = interface.split_once('/')?;
    let known = match package {
        "wasi:io" => matches!(name, "error" | "poll" | "streams"),
        "wasi:cli" => {
            matches!(name, "environment" | "exit" | "stdin" | "stdout" | "stderr") || name.starts_with("terminal-")
        }
        _ => false,
    };
    (known && version.starts_with("0.2.")).then_some(interface)
}

fn link_resource(linker: &mut LinkerInstance<'_, StoreState>, name: &str) -> Result<bool> {
    let ty = match name {
        "error" => ResourceType::host::<IoError>(),
        "pollable" => ResourceType::host::<Pollable>(),
        "input-stream" => ResourceType::host::<Input>(),
        "output-stream" => ResourceType::host::<Output>(),
        "terminal-input" | "terminal-output" => ResourceType::host::<Terminal>(),
        _ => return Ok(false),
    };
    // A handle is just a number, so there is nothing to free.
    linker.resource(name, ty, |_, _| Ok(()))?;
    Ok(true)
}

fn link_function(linker: &mut LinkerInstance<'_, StoreState>, interface: &str, name: &str) -> Result<bool> {
    type Store<'a> = StoreContextMut<'a, StoreState>;
    match (interface, name) {
        ("wasi:cli/environment", "get-environment") => {
            linker.func_wrap(name, |_: Store, ()| Ok((Vec::<(String, String)>::new(),)))
        }
        ("wasi:cli/environment", "get-arguments") => linker.func_wrap(name, |_: Store, ()| Ok((Vec::<String>::new(),))),
        ("wasi:cli/environment", "initial-cwd") => linker.func_wrap(name, |_: Store, ()| Ok((None::<String>,))),
        ("wasi:cli/exit", "exit") => linker
            .func_wrap(name, |_: Store, (status,): (std::result::Result<(), ()>,)| exit(u8::from(status.is_err()))),
        ("wasi:cli/exit", "exit-with-code") => linker.func_wrap(name, |_: Store, (code,): (u8,)| exit(code)),
        ("wasi:cli/stdin", "get-stdin") => linker.func_wrap(name, |_: Store, ()| Ok((Resource::<Input>::new_own(0),))),
        ("wasi:cli/stdout", "get-stdout") => {
            linker.func_wrap(name, |_: Store, ()| Ok((Resource::<Output>::new_own(STDOUT),)))
        }
        ("wasi:cli/stderr", "get-stderr") => {
            linker.func_wrap(name, |_: Store, ()| Ok((Resource::<Output>::new_own(STDERR),)))
        }
        (
            "wasi:cli/terminal-stdin" | "wasi:cli/terminal-stdout" | "wasi:cli/terminal-stderr",
            "get-terminal-stdin" | "get-terminal-stdout" | "get-terminal-stderr",
        ) => linker.func_wrap(name, |_: Store, ()| Ok((None::<Resource<Terminal>>,))),
        ("wasi:io/error", "[method]error.to-debug-string") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<IoError>,)| Ok((String::new(),)))
        }
        ("wasi:io/poll", "poll") => linker.func_wrap(name, |_: Store, (all,): (Vec<Resource<Pollable>>,)| {
            Ok(((0..u32::try_from(all.len())?).collect::<Vec<u32>>(),))
        }),
        ("wasi:io/poll", "[method]pollable.ready") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<Pollable>,)| Ok((true,)))
        }
        ("wasi:io/poll", "[method]pollable.block") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<Pollable>,)| Ok(()))
        }
        ("wasi:io/streams", method) => return link_stream(linker, method),
        _ => return Ok(false),
    }?;
    Ok(true)
}

fn link_stream(linker: &mut LinkerInstance<'_, StoreState>, name: &str) -> Result<bool> {
    type Store<'a> = StoreContextMut<'a, StoreState>;
    let (resource, method) = name.trim_start_matches("[method]").split_once('.').unwrap_or_default();
    match (resource, method) {
        ("input-stream", "read" | "blocking-read") => {
            linker.func_wrap(name, |_: Store, (_, _): (Resource<Input>, u64)| Ok((closed::<Vec<u8>>(),)))
        }
        ("input-stream", "skip" | "blocking-skip") => {
            linker.func_wrap(name, |_: Store, (_, _): (Resource<Input>, u64)| Ok((closed::<u64>(),)))
        }
        ("input-stream", "subscribe") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<Input>,)| Ok((Resource::<Pollable>::new_own(0),)))
        }
        ("output-stream", "subscribe") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<Output>,)| Ok((Resource::<Pollable>::new_own(0),)))
        }
        ("output-stream", "check-write") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<Output>,)| Ok((written(WRITE_PERMIT),)))
        }
        ("output-stream", "write" | "blocking-write-and-flush") => {
            linker.func_wrap(name, |mut store: Store, (stream, bytes): (Resource<Output>, Vec<u8>)| {
                if stream.rep() == STDERR {
                    store.data_mut().write_stderr(&bytes);
                }
                Ok((written(()),))
            })
        }
        ("output-stream", "flush" | "blocking-flush") => {
            linker.func_wrap(name, |_: Store, (_,): (Resource<Output>,)| Ok((written(()),)))
        }
        ("output-stream", "write-zeroes" | "blocking-write-zeroes-and-flush") => {
            linker.func_wrap(name, |_: Store, (_, _): (Resource<Output>, u64)| Ok((written(()),)))
        }
        ("output-stream", "splice" | "blocking-splice") => linker
            .func_wrap(name, |_: Store, (_, _, _): (Resource<Output>, Resource<Input>, u64)| Ok((closed::<u64>(),))),
        _ => return Ok(false),
    }?;
    Ok(true)
}

fn exit(code: u8) -> Result<()> {
    Err(wasmtime::Error::msg(format!("it called exit with code {code}")))
}

fn closed<T>() -> std::result::Result<T, StreamError> {
    Err(StreamError::Closed)
}

fn written<T>(value: T) -> std::result::Result<T, StreamError> {
    Ok(value)
}

/// `wasi:io/streams.stream-error`; every stream here is closed or discards what it gets.
#[derive(ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[allow(dead_code, reason = "the type must have the case, and nothing here fails so")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

struct IoError;
struct Pollable;
struct Input;
struct Output;
struct Terminal;

const STDOUT: u32 = 1;
const STDERR: u32 = 2;
const WRITE_PERMIT: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use wasmtime::Store;

    use super::super::instance::explain;
    use super::super::{InstanceLimits, LogicError};
    use super::*;

    /// Writes a line to stderr and traps, as a panic does; or calls exit.
    const BREAKS_OFF: &str = r#"(component
        (import "wasi:io/error@0.2.6" (instance $errors (export "error" (type (sub resource)))))
        (alias export $errors "error" (type $error))
        (import "wasi:io/streams@0.2.6" (instance $streams
            (alias outer 1 $error (type $outer-error))
            (export "error" (type $error (eq $outer-error)))
            (export "output-stream" (type $stream (sub resource)))
            (type $case (variant (case "last-operation-failed" (own $error)) (case "closed")))
            (export "stream-error" (type $stream-error (eq $case)))
            (export "[method]output-stream.blocking-write-and-flush" (func
                (param "self" (borrow $stream)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
        (alias export $streams "output-stream" (type $stream))
        (import "wasi:cli/stderr@0.2.6" (instance $stderr
            (alias outer 1 $stream (type $outer-stream))
            (export "output-stream" (type $stream (eq $outer-stream)))
            (export "get-stderr" (func (result (own $stream))))))
        (import "wasi:cli/exit@0.2.0" (instance $exits (export "exit" (func (param "status" (result))))))
        (core module $memories (memory (export "memory") 1))
        (core instance $memory (instantiate $memories))
        (core func $open (canon lower (func $stderr "get-stderr")))
        (core func $exit (canon lower (func $exits "exit")))
        (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
            (memory (core memory $memory "memory"))))
        (core module $program
            (import "" "memory" (memory 1))
            (import "" "open" (func $open (result i32)))
            (import "" "write" (func $write (param i32 i32 i32 i32)))
            (import "" "exit" (func $exit (param i32)))
            (data (i32.const 0) "no way\n")
            (func (export "panic")
                (call $write (call $open) (i32.const 0) (i32.const 7) (i32.const 16))
                unreachable)
            (func (export "exit") (call $exit (i32.const 1))))
        (core instance $running (instantiate $program (with "" (instance
            (export "memory" (memory $memory "memory"))
            (export "open" (func $open))
            (export "write" (func $write))
            (export "exit" (func $exit))))))
        (func (export "panic") (canon lift (core func $running "panic")))
        (func (export "exit") (canon lift (core func $running "exit"))))"#;

    fn reason_of(function: &str) -> String {
        let limits = InstanceLimits::default();
        let engine = Engine::default();
        let component = Component::from_binary(&engine, &wat::parse_str(BREAKS_OFF).unwrap()).unwrap();
        let mut linker = Linker::new(&engine);
        assert_eq!(link(&engine, &component, &mut linker).unwrap(), Vec::<String>::new());
        let mut store = Store::new(&engine, StoreState::new(limits.memory_bytes, None));
        let instance = linker.instantiate(&mut store, &component).unwrap();
        let error = instance.get_typed_func::<(), ()>(&mut store, function).unwrap().call(&mut store, ()).unwrap_err();
        match explain(&error, store.data(), limits) {
            LogicError::Trap { reason } => reason,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_breaks_off_on_a_worker_of_tokio_says_why() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        for (function, reason) in [("panic", "no way"), ("exit", "it called exit with code 1")] {
            assert_eq!(runtime.block_on(runtime.spawn(async move { reason_of(function) })).unwrap(), reason);
        }
    }

    #[test]
    fn only_the_dregs_of_the_standard_library_are_allowed() {
        for import in ["wasi:io/streams@0.2.0", "wasi:cli/exit@0.2.6", "wasi:cli/terminal-stdout@0.2.6"] {
            assert!(allowed(import).is_some(), "{import}");
        }
        for import in
            ["wasi:io/streams", "wasi:io/streams@0.3.0", "wasi:cli/run@0.2.6", "wasi:random/insecure-seed@0.2.6"]
        {
            assert!(allowed(import).is_none(), "{import}");
        }
    }
}
