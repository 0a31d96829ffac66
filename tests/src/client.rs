//! A host of world `client` with its own transport, for tests and benches.

use std::sync::{Arc, OnceLock};

use toolgate::extension;
use toolgate::extension::bindings::toolgate::client::transport::{self, Failed, Host, HostWithStore};
use toolgate::extension::bindings::{Client, ClientPre};
use toolgate::logic::Cache;
use toolgate::logic::types::execution::ToolCall;
use toolgate::transport::BoxFuture;
use wasmtime::component::{Accessor, Component, HasData, Linker};
use wasmtime::{Config, Engine, Store, StoreLimits, StoreLimitsBuilder};

/// A request of the client to its transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A request to a server.
    Request {
        /// The id of the server.
        server: String,
        /// The method.
        method: String,
        /// The params, as JSON.
        params: String,
    },
    /// A new session with a server.
    Reconnect(String),
    /// A wait.
    Wait,
}

/// The outcome of a wish; a wait and a new session have no text.
pub type Answer = Result<String, Failed>;

/// A transport: a function that answers each wish.
pub type Wishes = Arc<dyn Fn(Wish) -> BoxFuture<'static, Answer> + Send + Sync>;

/// The data of a store.
pub struct State {
    wishes: Wishes,
    limits: StoreLimits,
}

/// An engine, with the component compiled and linked for it.
pub struct House {
    engine: Engine,
    component: Component,
    client: ClientPre<State>,
    fuel: Option<u64>,
}

impl House {
    /// Creates a host whose stores have this much fuel, if fuel is counted.
    pub fn new(fuel: Option<u64>) -> Self {
        let engine = Engine::new(Config::new().consume_fuel(fuel.is_some())).expect("the engine can be had");
        let component = compiled(&engine);
        let mut linker = Linker::<State>::new(&engine);
        transport::add_to_linker::<State, Lines>(&mut linker, |state| state).expect("the names are free");
        linker.define_unknown_imports_as_traps(&component).expect("the rest is WASI");
        let client = linker.instantiate_pre(&component).and_then(ClientPre::new).expect("it fits the world");
        House { engine, component, client, fuel }
    }

    /// Returns the compiled component.
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Creates a store, and an instance in it.
    pub async fn open(&self, wishes: Wishes) -> (Store<State>, Client) {
        let limits = StoreLimitsBuilder::new().memory_size(256 << 20).build();
        let mut store = Store::new(&self.engine, State { wishes, limits });
        store.limiter(|state| &mut state.limits);
        if let Some(fuel) = self.fuel {
            store.set_fuel(fuel).expect("fuel is counted");
        }
        let client = self.client.instantiate_async(&mut store).await.expect("it starts");
        (store, client)
    }
}

/// Returns a shared host that does not count fuel.
pub fn house() -> &'static House {
    static HOUSE: OnceLock<House> = OnceLock::new();
    HOUSE.get_or_init(|| House::new(None))
}

/// Returns the component of world `client`, which is compiled once for all tests on a machine.
pub fn compiled(engine: &Engine) -> Component {
    let folder = std::env::temp_dir().join(format!("toolgate-tests-client-{}", env!("CARGO_PKG_VERSION")));
    extension::client(engine, &Cache::Dir(folder)).expect("the component compiles")
}

/// Builds a call.
pub fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

/// Tells the generated code how to find the transport.
pub struct Lines;

impl HasData for Lines {
    type Data<'a> = &'a mut State;
}

impl Host for State {}

impl<T: Send + 'static> HostWithStore<T> for Lines {
    async fn request(store: &Accessor<T, Self>, server: String, method: String, params: String) -> Answer {
        store.with(|mut store| (store.get().wishes)(Wish::Request { server, method, params })).await
    }

    async fn reconnect(store: &Accessor<T, Self>, server: String) -> Result<(), Failed> {
        store.with(|mut store| (store.get().wishes)(Wish::Reconnect(server))).await.map(drop)
    }

    async fn wait(store: &Accessor<T, Self>, _min_ms: u64, _max_ms: u64) {
        // A wait cannot fail.
        let _ = store.with(|mut store| (store.get().wishes)(Wish::Wait)).await;
    }
}
