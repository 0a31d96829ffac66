//! A wasmtime host with its own engine: a plugin that calls tools through toolgate, and an agent on world `client`.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolgate::decide::Decide;
use toolgate::extension::{self, bindings::ClientPre};
use toolgate::gate::{CallOptions, CloseMode, Gate, GateView};
use toolgate::logic::types::execution::ToolCall;
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::logic::{self, Cache, Supervisor};
use toolgate::registry::{self, Registry};
use toolgate::transport::Connect;
use toolgate::{ToolgateCtx, ToolgateView};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store, StoreLimits, StoreLimitsBuilder};

/// The data of a store: what it may reach, and how much memory it may use.
struct State {
    toolgate: ToolgateCtx,
    limits: StoreLimits,
}

impl ToolgateView for State {
    fn toolgate(&mut self) -> &mut ToolgateCtx {
        &mut self.toolgate
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which plugin? give its file, reporter.wasm")?;
    let registry = servers()?;
    let engine = Engine::new(Config::new().consume_fuel(true))?;
    let mut linker = Linker::<State>::new(&engine);
    toolgate::add_to_linker(&mut linker)?;

    println!("the plugin:");
    println!("{}", plugin(&engine, &linker, &registry, &file).await?);
    println!("the agent:");
    agent(&engine, &linker, &registry).await?;

    registry.close().await;
    Ok(())
}

/// The servers, which only toolgate reaches. Here both are the demo server in this process; without the last line,
/// toolgate would run the commands.
fn servers() -> Result<Arc<Registry>, Box<dyn Error>> {
    let text = "
        servers:
          demo: {command: toolgate, args: [demo-server]}
          vault: {command: toolgate, args: [demo-server]}
    ";
    let config = toolgate::config::parse(text, Path::new("toolgate.yaml"))?;
    let component =
        logic::Component::embedded(&logic::ComponentOptions { cache: Cache::user(), ..Default::default() })?;
    let local = || Arc::new(toolgate::demo::InProcessDemo) as Arc<dyn Connect>;
    let transports = HashMap::from([("demo".to_owned(), local()), ("vault".to_owned(), local())]);
    Ok(Registry::new(&component, config, registry::RegistryOptions { transports, ..Default::default() })?)
}

/// Runs somebody else's plugin: it gets the tools of its gate and limited fuel, memory and time, and nothing else.
async fn plugin(
    engine: &Engine,
    linker: &Linker<State>,
    registry: &Arc<Registry>,
    file: &str,
) -> Result<String, Box<dyn Error>> {
    let component = Component::from_file(engine, file)?;
    let mut linker = linker.clone();
    // A Rust plugin imports WASI for its panics; it gets none.
    linker.define_unknown_imports_as_traps(&component)?;
    // The allow list: two tools of one server.
    let allowed = SelectedServer { id: "demo".to_owned(), tools: vec!["forecast".to_owned(), "add".to_owned()] };
    let gate = Arc::new(Gate::open(registry, GateView { selection: Some(vec![allowed]), ..GateView::default() })?);
    let toolgate = ToolgateCtx::new().with_tools(Arc::clone(&gate), CallOptions::default());
    let mut store = store(engine, toolgate)?;
    let instance = linker.instantiate_async(&mut store, &component).await?;
    let report = instance.get_typed_func::<(), (String,)>(&mut store, "report")?;
    let (text,) = tokio::time::timeout(Duration::from_secs(30), report.call_async(&mut store, ())).await??;
    gate.close(CloseMode::Cancel).await;
    Ok(text)
}

/// Calls tools with the component of world `client`, which makes all decisions itself and reaches one server.
async fn agent(engine: &Engine, linker: &Linker<State>, registry: &Arc<Registry>) -> Result<(), Box<dyn Error>> {
    let component = extension::client(engine, &Cache::user())?;
    let mut linker = linker.clone();
    linker.define_unknown_imports_as_traps(&component)?;
    let client = ClientPre::new(linker.instantiate_pre(&component)?)?;
    let mut store = store(engine, ToolgateCtx::new().with_servers(registry, ["demo"])?)?;
    let client = client.instantiate_async(&mut store).await?;
    let executor = client.toolgate_client_tool_executor();
    // It knows both servers, and can reach one.
    let servers = ["demo".to_owned(), "vault".to_owned()];
    let settings = Supervisor::new(registry.component().clone())?.default_settings(&servers)?;
    let calls = [("demo__add", "a: 1, b: 2"), ("vault__echo", "text: all your secrets")];
    let results = store.run_concurrent(async |store| {
        executor.call_configure(store, settings).await?.map_err(|bad| wasmtime::Error::msg(format!("{bad:?}")))?;
        let mut results = Vec::new();
        for (name, arguments) in calls {
            let call = ToolCall { id: name.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
            results.push(executor.call_execute(store, call).await?);
        }
        Ok::<_, wasmtime::Error>(results)
    });
    for result in tokio::time::timeout(Duration::from_secs(30), results).await??? {
        println!("{}: {:?}: {}", result.name, result.code, result.text);
    }
    Ok(())
}

fn store(engine: &Engine, toolgate: ToolgateCtx) -> wasmtime::Result<Store<State>> {
    let limits = StoreLimitsBuilder::new().memory_size(64 << 20).build();
    let mut store = Store::new(engine, State { toolgate, limits });
    store.limiter(|state| &mut state.limits);
    store.set_fuel(20_000_000_000)?;
    Ok(store)
}
