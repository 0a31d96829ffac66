//! A loaded component: read, checked against world `logic`, compiled or taken from the cache, and linked once.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use wasmtime::Engine;
use wasmtime::component::{Component as Compiled, Linker};

use super::bindings::LogicPre;
use super::error::{BadComponent, LogicError};
use super::instance::Instance;
use super::options::{Cache, ComponentOptions};
use super::state::{MemoryBudget, StoreState};
use super::{cache, contract, engine, wasi};
use crate::ownership;
use crate::packed::unpack;
use crate::sha256::sha256_hex;

/// The component that this crate was built with, as a file contains it. It is unpacked when it is first used.
pub static EMBEDDED: LazyLock<Vec<u8>> =
    LazyLock::new(|| unpack(include_bytes!(concat!(env!("OUT_DIR"), "/logic.wasm.deflate"))));

/// The SHA-256 of [`EMBEDDED`], in hexadecimal.
pub const EMBEDDED_DIGEST: &str = env!("TOOLGATE_LOGIC_DIGEST");

/// The packed machine code of [`EMBEDDED`], if this program was built with it; otherwise nothing, packed.
const COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/logic.cwasm.deflate"));

/// Compiles [`EMBEDDED`] to machine code that a build for this operating system and architecture can include.
pub fn precompile() -> Result<Vec<u8>, LogicError> {
    let engine = engine::portable_engine()?;
    engine.precompile_component(&EMBEDDED).map_err(|error| LogicError::Engine { reason: format!("{error:#}") })
}

/// A component of world `logic`, ready to be instantiated any number of times and from any thread.
#[derive(Clone)]
pub struct Component {
    pre: LogicPre<StoreState>,
    options: ComponentOptions,
    digest: String,
    /// The bytes it was loaded from, if they are not [`EMBEDDED`].
    bytes: Option<Arc<[u8]>>,
    warning: Option<String>,
}

impl Component {
    /// Loads the component that this crate was built with.
    pub fn embedded(options: &ComponentOptions) -> Result<Self, LogicError> {
        // The digest is known from the build, so the bytes are unpacked only if the cache does not have the component.
        Self::load(|| &EMBEDDED, EMBEDDED_DIGEST.to_owned(), options)
    }

    /// Loads a component from a file that nobody else can change.
    pub fn from_file(path: impl AsRef<Path>, options: &ComponentOptions) -> Result<Self, LogicError> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        ownership::open(path)
            .map_err(io::Error::from)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|source| LogicError::Unreadable { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes, options).map_err(|error| match error {
            LogicError::BadComponent(source) => LogicError::BadFile { path: path.to_owned(), source },
            other => other,
        })
    }

    /// Loads a component from memory.
    pub fn from_bytes(bytes: &[u8], options: &ComponentOptions) -> Result<Self, LogicError> {
        check_form(bytes)?;
        let mut component = Self::load(|| bytes, sha256_hex(bytes), options)?;
        component.bytes = (component.digest != EMBEDDED_DIGEST).then(|| bytes.into());
        // The generated bindings check the types of functions only when they are looked up in an instance.
        match component.instantiate() {
            Err(error @ LogicError::Trap { .. }) => {
                let compiled = component.pre.instance_pre().component();
                Err(unfit(component.pre.engine(), compiled, &options.cache, Vec::new())?.unwrap_or(error))
            }
            Err(error) => Err(error),
            Ok(_) => Ok(component),
        }
    }

    /// Creates an instance, in microseconds.
    pub fn instantiate(&self) -> Result<Instance, LogicError> {
        self.instantiate_with_budget(None)
    }

    /// Creates an instance whose memory counts against a shared budget.
    pub(super) fn instantiate_with_budget(&self, budget: Option<Arc<MemoryBudget>>) -> Result<Instance, LogicError> {
        Instance::new(&self.pre, &self.options, budget)
    }

    /// Returns the SHA-256 of the component, in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the component as a file contains it.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(&EMBEDDED)
    }

    /// Returns the full names of the interfaces that it imports.
    pub fn imports(&self) -> Vec<String> {
        let compiled = self.pre.instance_pre().component().component_type();
        compiled.imports(self.pre.engine()).map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the options that it was loaded with.
    pub fn options(&self) -> &ComponentOptions {
        &self.options
    }

    /// Returns why the cache could not be used, if it could not; the component works anyway.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    fn load<'b>(
        bytes: impl FnOnce() -> &'b [u8],
        digest: String,
        options: &ComponentOptions,
    ) -> Result<Self, LogicError> {
        let engine = engine::engine(options)?;
        let (compiled, warning) = compile(&engine, bytes, &digest, &options.cache)?;
        let pre = link(&engine, &compiled, &options.cache)?;
        Ok(Self { pre, options: options.clone(), digest, bytes: None, warning })
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Component").field("digest", &self.digest).finish_non_exhaustive()
    }
}

fn compile<'b>(
    engine: &Engine,
    bytes: impl FnOnce() -> &'b [u8],
    digest: &str,
    cache: &Cache,
) -> Result<(Compiled, Option<String>), LogicError> {
    let compile = || {
        if let Some(compiled) = included(engine, digest) {
            return Ok(compiled);
        }
        let bytes = bytes();
        Compiled::from_binary(engine, bytes).map_err(|error| {
            // It uses features that this engine has disabled, so its world must be recognised without compiling it.
            if bytes.windows(CLIENT.len()).any(|part| part == CLIENT) {
                return BadComponent::OtherWorld.into();
            }
            not_a_component(&format!("it is damaged, or uses features that this version does not support: {error:#}"))
        })
    };
    match cache {
        Cache::None => Ok((compile()?, None)),
        Cache::Dir(folder) => cache::load(folder, engine, digest, compile),
    }
}

/// Returns the built-in component from its machine code, if that is included and runs on this engine and processor.
fn included(engine: &Engine, digest: &str) -> Option<Compiled> {
    if digest != EMBEDDED_DIGEST {
        return None;
    }
    let machine_code = unpack(COMPILED);
    if machine_code.is_empty() {
        return None;
    }
    #[allow(unsafe_code, reason = "the bytes are a part of this program, and wasmtime made them")]
    unsafe { Compiled::deserialize(engine, machine_code) }.ok()
}

/// Links the imports and looks up the exports, or lists everything that does not match.
fn link(engine: &Engine, compiled: &Compiled, cache: &Cache) -> Result<LogicPre<StoreState>, LogicError> {
    let mut linker = Linker::new(engine);
    let mismatch = |error: wasmtime::Error| LogicError::from(BadComponent::Mismatch(format!("{error:#}")));
    let forbidden = wasi::link(engine, compiled, &mut linker).map_err(mismatch)?;
    if forbidden.is_empty() {
        let linked = linker.instantiate_pre(compiled).and_then(LogicPre::new);
        linked.or_else(|error| Err(unfit(engine, compiled, cache, forbidden)?.unwrap_or_else(|| mismatch(error))))
    } else {
        Err(unfit(engine, compiled, cache, forbidden)?.expect("a forbidden import is a difference"))
    }
}

/// Returns an error with everything that does not match, if any of it has a name.
fn unfit(
    engine: &Engine,
    compiled: &Compiled,
    cache: &Cache,
    forbidden: Vec<String>,
) -> Result<Option<LogicError>, LogicError> {
    // The embedded component is the reference, so there is no second list to maintain; a matching component does not
    // need it.
    let (measure, _) = compile(engine, || &EMBEDDED, EMBEDDED_DIGEST, cache)?;
    let (missing, mistyped) = contract::compare(engine, &measure, compiled);
    let fits = missing.is_empty() && mistyped.is_empty() && forbidden.is_empty();
    Ok((!fits).then(|| BadComponent::Unfit { missing, mistyped, forbidden }.into()))
}

/// Recognises the usual mistakes before a compiler sees the bytes.
fn check_form(bytes: &[u8]) -> Result<(), LogicError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(BadComponent::TooLarge { limit: MAX_BYTES }.into());
    }
    let text = bytes.trim_ascii_start();
    match bytes {
        [b'\0', b'a', b's', b'm', _, _, 1, 0, ..] => Ok(()),
        [b'\0', b'a', b's', b'm', _, _, 0, 0, ..] => Err(not_a_component(
            "it is a core module; build it for wasm32-wasip2, or wrap it with `wasm-tools component new`",
        )),
        [] => Err(not_a_component("the file is empty")),
        [0x7f, b'E', b'L', b'F', ..] => Err(not_a_component("it is native code; give the .wasm it was compiled from")),
        _ if text.starts_with(b"(component") || text.starts_with(b"(module") => {
            Err(not_a_component("it is WebAssembly text; turn it into a binary with `wasm-tools parse`"))
        }
        _ => Err(not_a_component("it does not begin like a WebAssembly binary")),
    }
}

fn not_a_component(reason: &str) -> LogicError {
    BadComponent::NotAComponent(reason.to_owned()).into()
}

const MAX_BYTES: u64 = 64 << 20;
/// The prefix of interface names that only a component of world `client` has.
const CLIENT: &[u8] = b"toolgate:client/";
