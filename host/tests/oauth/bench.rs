//! A gate in front of the protected server, and a person who always gives consent.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolgate::config;
use toolgate::config::secrets::Secrets;
use toolgate::gate::{CallOptions, CallOutcome, Gate, GateView};
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::logic::types::lifecycle::State;
use toolgate::logic::{Component, ComponentOptions};
use toolgate::oauth::{Browse, BrowseError, TokenStore};
use toolgate::registry::{self, Registry};
use toolgate::transport::BoxFuture;
use url::Url;

use super::world::{Rules, World};

/// A gate, and the world around it.
pub struct Bench {
    pub world: World,
    pub gate: Gate,
    pub person: Option<Arc<Person>>,
    pub folder: TempDir,
    pub secrets: Arc<Mutex<Secrets>>,
}

/// Whether a person is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum With {
    Person,
    Nobody,
}

impl Bench {
    /// A gate with a person.
    pub async fn new(rules: Rules) -> Self {
        Self::with(rules, json!({}), With::Person).await
    }

    /// A gate whose server has this `auth`.
    pub async fn with(rules: Rules, auth: Value, with: With) -> Self {
        let world = World::start(rules).await;
        let folder = tempfile::tempdir().unwrap();
        let entry = json!({"url": world.url(), "auth": auth, "timeouts": {"initialize": "5s"}});
        Self::over(world, folder, entry, with)
    }

    /// A gate over a server of this world, with tokens in this folder.
    pub fn over(world: World, folder: TempDir, mut entry: Value, with: With) -> Self {
        if entry["auth"].as_object().is_some_and(serde_json::Map::is_empty) {
            entry.as_object_mut().unwrap().remove("auth");
        }
        let person = (with == With::Person).then(|| Arc::new(Person::default()));
        let secrets = Arc::<Mutex<Secrets>>::default();
        let gate = gate(&entry, &folder.path().join("auth"), person.clone(), &secrets);
        Bench { world, gate, person, folder, secrets }
    }

    /// Restarts the client in this world, as another process would: nothing is left but what is kept in files.
    pub fn again(self, entry: Value, with: With) -> Self {
        let Bench { world, folder, .. } = self;
        Self::over(world, folder, entry, with)
    }

    /// The entry of the server without `auth`.
    pub fn entry(&self) -> Value {
        json!({"url": self.world.url(), "timeouts": {"initialize": "5s"}})
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str) -> CallOutcome {
        call(&self.gate, tool).await
    }

    /// Calls a tool, which must work.
    #[track_caller]
    pub fn works(&self, tool: &str) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let called = self.call(tool).await;
            assert_eq!(called.result.text, format!("{tool} is done"), "{place}: {:?}", called.failure);
        }
    }

    /// Calls a tool, which must want an authorization; gives the text.
    pub async fn needs_auth(&self, tool: &str) -> String {
        let called = self.call(tool).await;
        assert_eq!(called.result.code, Code::NeedsAuth, "{}", called.result.text);
        called.result.text
    }

    /// How often a person was asked.
    pub fn asked(&self) -> u32 {
        self.person.as_ref().map_or(0, |person| person.asked.load(Ordering::SeqCst))
    }

    /// Where the server stands.
    pub fn state(&self) -> State {
        self.gate.registry().statuses()[0].state
    }
}

/// A gate over one server, `notes`.
pub fn gate(entry: &Value, tokens: &Path, person: Option<Arc<Person>>, secrets: &Arc<Mutex<Secrets>>) -> Gate {
    let text = json!({"version": 1, "servers": {"notes": entry}}).to_string();
    let config = config::parse(&text, Path::new("toolgate.yaml")).unwrap();
    let options = registry::RegistryOptions {
        browse: person.map(|person| person as Arc<dyn Browse>),
        tokens: Some(TokenStore::folder(tokens)),
        secrets: Arc::clone(secrets),
        ..registry::RegistryOptions::default()
    };
    Gate::open(&Registry::new(&COMPONENT, config, options).unwrap(), GateView::default()).unwrap()
}

pub async fn call(gate: &Gate, tool: &str) -> CallOutcome {
    let call = ToolCall { id: "1".to_owned(), name: format!("notes.{tool}"), arguments: String::new() };
    let options = CallOptions::default();
    tokio::time::timeout(Duration::from_secs(60), gate.call(call, &options)).await.expect("a call ends").unwrap()
}

/// A person who follows where an address leads, once.
#[derive(Default)]
pub struct Person {
    pub asked: AtomicU32,
    /// What they do to the address that they were sent back to.
    pub twist: Mutex<Option<fn(&mut Url)>>,
}

impl Browse for Person {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:1/back".to_owned()
    }

    fn browse<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, BrowseError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let mut back = Url::parse(&follow(url).await).unwrap();
            if let Some(twist) = *self.twist.lock().unwrap() {
                twist(&mut back);
            }
            Ok(back.into())
        })
    }
}

/// Where an address leads.
pub async fn follow(url: &str) -> String {
    let answer = get(url).await;
    let location = answer.lines().find_map(|line| line.strip_prefix("location: "));
    location.unwrap_or_else(|| panic!("{url} leads nowhere: {answer}")).to_owned()
}

/// The whole answer at an address, head and body.
pub async fn get(url: &str) -> String {
    let url = Url::parse(url).unwrap();
    let address = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The component is compiled once for all tests.
static COMPONENT: LazyLock<Component> = LazyLock::new(|| Component::embedded(&ComponentOptions::default()).unwrap());
