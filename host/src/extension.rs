//! Adds toolgate to your own wasmtime host: tools for the plugins that it runs, and transports for world `client`.
//!
//! Use it like `wasmtime_wasi`: the data of a store has a [`ToolgateCtx`], which says what the store may reach, and
//! [`add_to_linker`] gives components their imports. A store without a grant reaches nothing, and its calls fail with
//! the reason.
//!
//! ```
//! use std::{collections::HashMap, path::Path, sync::Arc};
//! use toolgate::extension::{self, bindings::ClientPre};
//! use toolgate::logic::types::execution::ToolCall;
//! use toolgate::logic::{Cache, Component, ComponentOptions};
//! use toolgate::registry::{Registry, RegistryOptions};
//! use toolgate::transport::Connect;
//! use toolgate::{ToolgateCtx, ToolgateView};
//! use wasmtime::component::Linker;
//! use wasmtime::{Engine, Store};
//!
//! struct State {
//!     toolgate: ToolgateCtx,
//! }
//!
//! impl ToolgateView for State {
//!     fn toolgate(&mut self) -> &mut ToolgateCtx {
//!         &mut self.toolgate
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cache = Cache::Dir(std::env::temp_dir().join("toolgate-doc"));
//! // The host has an engine, and toolgate has servers.
//! let engine = Engine::default();
//! # let options = ComponentOptions { cache: cache.clone(), ..ComponentOptions::default() };
//! let config = toolgate::config::parse("servers: {demo: {command: toolgate, args: [demo-server]}}", Path::new("toolgate.yaml"))?;
//! # let transports = HashMap::from([("demo".to_owned(), Arc::new(toolgate::demo::InProcessDemo) as Arc<dyn Connect>)]);
//! let registry = Registry::new(&Component::embedded(&options)?, config, RegistryOptions { transports, ..Default::default() })?;
//!
//! let client = extension::client(&engine, &cache)?;
//! let mut linker = Linker::<State>::new(&engine);
//! toolgate::add_to_linker(&mut linker)?;
//! // Rust's standard library imports these only to report a panic.
//! linker.define_unknown_imports_as_traps(&client)?;
//! let client = ClientPre::new(linker.instantiate_pre(&client)?)?;
//!
//! // This store may reach one server.
//! let toolgate = ToolgateCtx::new().with_servers(&registry, ["demo"])?;
//! let mut store = Store::new(&engine, State { toolgate });
//! let client = client.instantiate_async(&mut store).await?;
//! let executor = client.toolgate_client_tool_executor();
//! # let settings = { use toolgate::decide::Decide; toolgate::logic::Supervisor::new(registry.component().clone())?.default_settings(&["demo".to_owned()])? };
//! let call = ToolCall { id: "1".into(), name: "demo.add".into(), arguments: "a: 1, b: 2".into() };
//! let result = store.run_concurrent(async |store| {
//!     executor.call_configure(store, settings).await?.expect("the settings can be used");
//!     executor.call_execute(store, call).await
//! }).await??;
//! assert_eq!(result.text, "3");
//! # registry.close().await;
//! # Ok(())
//! # }
//! ```

pub mod bindings;
mod context;
mod tools;
mod transport;

use std::sync::LazyLock;

use wasmtime::component::{Component, HasData, Linker};
use wasmtime::{Engine, Result};

pub use context::ToolgateCtx;

use crate::logic::{Cache, cache};
use crate::packed::unpack;

/// The bytes of the component of world `client`. They are unpacked when they are first used.
pub static CLIENT: LazyLock<Vec<u8>> =
    LazyLock::new(|| unpack(include_bytes!(concat!(env!("OUT_DIR"), "/client.wasm.deflate"))));

/// The SHA-256 of [`CLIENT`], in hexadecimal.
pub const CLIENT_DIGEST: &str = env!("TOOLGATE_CLIENT_DIGEST");

/// Implement this for the data of your stores.
pub trait ToolgateView: Send {
    /// Returns what this store may reach.
    fn toolgate(&mut self) -> &mut ToolgateCtx;
}

/// Gives components the imports `toolgate:client/transport` and `toolgate:client/tools`. The engine must support async
/// functions of the component model, as it does by default.
pub fn add_to_linker<T: ToolgateView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    bindings::toolgate::client::transport::add_to_linker::<T, Toolgate>(linker, T::toolgate)?;
    bindings::toolgate::client::tools::add_to_linker::<T, Toolgate>(linker, T::toolgate)
}

/// Compiles the component of world `client` for this engine, or takes it from the cache.
pub fn client(engine: &Engine, kept: &Cache) -> Result<Component> {
    let compile = || Component::from_binary(engine, &CLIENT);
    match kept {
        Cache::None => compile(),
        Cache::Dir(folder) => {
            let (component, warning) = cache::load(folder, engine, CLIENT_DIGEST, compile)?;
            if let Some(warning) = warning {
                tracing::warn!("{warning}");
            }
            Ok(component)
        }
    }
}

/// Tells the generated code how to find the [`ToolgateCtx`] of a store.
struct Toolgate;

impl HasData for Toolgate {
    type Data<'a> = &'a mut ToolgateCtx;
}
