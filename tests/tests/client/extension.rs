//! Tests `add_to_linker`: the component uses real servers, as far as its store was granted them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolgate::config;
use toolgate::decide::Decide;
use toolgate::extension::bindings::ClientPre;
use toolgate::logic::types::execution::{Code, Settings, ToolResult};
use toolgate::registry::{Registry, RegistryLifetime, RegistryOptions};
use toolgate::{ToolgateCtx, ToolgateView};
use toolgate_tests::client::{call, house};
use wasmtime::component::Linker;
use wasmtime::{Engine, Store};

struct State(ToolgateCtx);

impl ToolgateView for State {
    fn toolgate(&mut self) -> &mut ToolgateCtx {
        &mut self.0
    }
}

/// The servers of a `toolgate.yaml`, with `FIXTURE` for the path of the fixture.
fn registry(yaml: &str) -> Arc<Registry> {
    let yaml = yaml.replace("FIXTURE", env!("CARGO_BIN_EXE_fixture"));
    let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    assert!(config.notices.is_empty(), "{:?}", config.notices);
    let options = RegistryOptions { lifetime: RegistryLifetime::OneShot, ..RegistryOptions::default() };
    Registry::new(&toolgate_tests::component(), config, options).expect("the component starts")
}

fn settings(servers: &[&str]) -> Settings {
    let servers: Vec<String> = servers.iter().map(|&id| id.to_owned()).collect();
    toolgate_tests::supervisor().default_settings(&servers).unwrap()
}

/// A store with this grant, and the component in it.
async fn open(grant: ToolgateCtx) -> (Store<State>, toolgate::extension::bindings::Client) {
    let (engine, component) = (house().engine(), house().component());
    let mut linker = Linker::<State>::new(engine);
    toolgate::add_to_linker(&mut linker).unwrap();
    linker.define_unknown_imports_as_traps(component).unwrap();
    let client = ClientPre::new(linker.instantiate_pre(component).unwrap()).unwrap();
    let mut store = Store::new(engine, State(grant));
    let client = client.instantiate_async(&mut store).await.unwrap();
    (store, client)
}

/// One call in a store with this grant.
async fn execute(grant: ToolgateCtx, settings: Settings, name: &str, arguments: &str) -> ToolResult {
    let (mut store, client) = open(grant).await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings).await?.expect("good settings");
        executor.call_execute(store, call("1", name, arguments)).await
    });
    tokio::time::timeout(Duration::from_secs(60), run).await.expect("nothing hangs").unwrap().unwrap()
}

const TWO: &str = "servers:\n  a: {command: FIXTURE, args: [plain]}\n  b: {command: FIXTURE, args: [plain]}\n";

#[tokio::test]
async fn a_store_reaches_the_servers_that_it_was_granted_and_no_other() {
    let registry = registry(TWO);
    let grant = || ToolgateCtx::new().with_servers(&registry, ["a"]).unwrap();
    let result = execute(grant(), settings(&["a", "b"]), "a.add", "a: 1, b: 2").await;
    assert_eq!((result.code, result.text.as_str()), (Code::Ok, "3"));
    let result = execute(grant(), settings(&["a", "b"]), "b.add", "a: 1, b: 2").await;
    assert_eq!((result.code, result.attempts), (Code::NeedsAuth, 0));
    assert!(result.text.contains("server \"b\"") && result.text.contains("granted only a"), "{}", result.text);
    assert!(registry.link("b").unwrap().current().is_none(), "it was not even started");
    registry.close().await;
}

#[tokio::test]
async fn a_store_without_a_grant_reaches_nothing() {
    let registry = registry(TWO);
    let nothing = [ToolgateCtx::new(), ToolgateCtx::new().with_servers(&registry, Vec::<String>::new()).unwrap()];
    for grant in nothing {
        let result = execute(grant, settings(&["a"]), "a.add", "a: 1, b: 2").await;
        assert_eq!(result.code, Code::NeedsAuth);
        assert!(result.text.contains("granted no server at all"), "{}", result.text);
    }
    registry.close().await;
}

#[tokio::test]
async fn a_server_that_there_is_not_cannot_be_granted() {
    let registry = registry(TWO);
    let error = ToolgateCtx::new().with_servers(&registry, ["c"]).unwrap_err().to_string();
    assert!(error.contains("\"c\""), "{error}");
    registry.close().await;
}

#[tokio::test]
async fn a_server_that_died_is_opened_again_where_that_is_safe() {
    let folder = tempfile::tempdir().unwrap();
    for (read_only, code, runs) in [(true, Code::ServerUnavailable, 2), (false, Code::OutcomeUnknown, 1)] {
        let file = folder.path().join(format!("runs-{read_only}"));
        let registry =
            registry(&format!("servers:\n  a: {{command: FIXTURE, args: [dies-during, {}]}}\n", file.display()));
        let grant = ToolgateCtx::new().with_servers(&registry, ["a"]).unwrap();
        let mut settings = settings(&["a"]);
        settings.policy.servers[0].tools = vec![toolgate::logic::types::filtering::ToolRules {
            tool: "echo".to_owned(),
            annotations: toolgate::logic::types::Annotations {
                read_only: Some(read_only),
                destructive: None,
                idempotent: Some(read_only),
                open_world: None,
            },
            requires: Vec::new(),
        }];
        let result = execute(grant, settings, "a.echo", "text: x").await;
        assert_eq!(result.code, code, "{} {:?}", result.text, result.trace);
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), runs);
        registry.close().await;
    }
}

/// Waits until a file says something.
async fn until(file: &Path, says: &str) {
    let waiting = async {
        while !std::fs::read_to_string(file).unwrap_or_default().contains(says) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("it never said {says:?}"));
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let diary = folder.path().join("diary");
    let registry = registry(&format!("servers:\n  a: {{command: FIXTURE, args: [works, {}]}}\n", diary.display()));
    let (mut store, client) = open(ToolgateCtx::new().with_servers(&registry, ["a"]).unwrap()).await;
    let executor = client.toolgate_client_tool_executor();
    let run = store.run_concurrent(async |store| {
        executor.call_configure(store, settings(&["a"])).await?.expect("good settings");
        let cancelling = async {
            until(&diary, "began work").await;
            executor.call_cancel(store, "1".to_owned()).await
        };
        let (called, cancelled) =
            tokio::join!(executor.call_execute(store, call("1", "a.hold", "text: work")), cancelling);
        Ok::<_, wasmtime::Error>((called?, cancelled?))
    });
    let run = tokio::time::timeout(Duration::from_secs(120), run).await.expect("nothing hangs");
    let (result, cancelled) = run.unwrap().unwrap();
    assert!(cancelled);
    assert_eq!(result.code, Code::Cancelled, "{}", result.text);
    until(&diary, "cancelled work").await;
    registry.close().await;
}

#[test]
fn an_engine_that_knows_no_async_functions_is_told_so() {
    let mut config = wasmtime::Config::new();
    config.concurrency_support(false);
    let mut linker = Linker::<State>::new(&Engine::new(&config).unwrap());
    let error = toolgate::add_to_linker(&mut linker).unwrap_err().to_string();
    assert!(error.contains("concurrency_support"), "{error}");
}
