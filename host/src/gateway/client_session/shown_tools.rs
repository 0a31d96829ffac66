//! Lists of tools as clients see them, rendered once for all clients that see the same.
//!
//! A large list takes megabytes and a good part of a second, so neither a session nor a notification has its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use serde_json::value::RawValue;

use super::ClientSession;
use crate::failure::RpcError;
use crate::json::{self, JsonObject};
use crate::lock::lock;
use crate::logic::LogicError;
use crate::logic::types::Annotations;
use crate::logic::types::catalog::ExposedTool;
use crate::logic::types::naming::NamingStyle;
use crate::registry::GateBackend;
use crate::rpc::code::INTERNAL_ERROR;
use crate::session::{self, ToolHeaders};
use crate::sha256::Sha256;

/// A list of tools as clients see it.
pub(super) struct ShownTools {
    pub(super) items: Arc<[Box<RawValue>]>,
    /// The tools in a form that clients before 2026-07-28 can read.
    pub(super) legacy_items: Arc<[Box<RawValue>]>,
    /// The arguments that headers repeat, by the tool names that the client sees.
    pub(super) headers: Arc<ToolHeaders>,
    /// The digest of all items.
    pub(super) digest: [u8; 32],
}

/// The lists of tools that clients are shown now.
#[derive(Default)]
pub(crate) struct SharedToolLists(Mutex<KnownLists>);

#[derive(Default)]
struct KnownLists {
    /// The list of each backend, by its address.
    of_backends: HashMap<usize, BackendList>,
    /// All lists, by their digest: different backends often show the same.
    all: HashMap<[u8; 32], Weak<ShownTools>>,
    /// The newest configuration that was seen.
    config_version: u64,
    /// How many backends and lists there may be until those that are gone are forgotten.
    limits: [usize; 2],
}

/// The list of one backend.
struct BackendList {
    /// Also keeps the address from being used again.
    backend: Weak<GateBackend>,
    /// Locked while the list is rendered, so that this is done once.
    current: Arc<Mutex<Option<CurrentList>>>,
}

struct CurrentList {
    /// The number of the backend's tools and the style of names that it was rendered for.
    offers: u64,
    style: NamingStyle,
    shown: Arc<ShownTools>,
}

impl SharedToolLists {
    /// Returns all tools that the clients of a backend may see, before rules that look at the caller hide any.
    pub(super) fn of_backend(
        &self,
        client: &ClientSession,
        backend: &Arc<GateBackend>,
    ) -> Result<Arc<ShownTools>, RpcError> {
        let style = client.style();
        let current = lock(&self.0).list_of(backend);
        let mut current = lock(&current);
        let offers = backend.offers_version();
        if let Some(known) = current.as_ref().filter(|known| known.offers == offers && known.style == style) {
            return Ok(Arc::clone(&known.shown));
        }
        let mut items = Ok(Vec::new());
        // A long list would keep other clients waiting.
        client.gateway.registry.blocking_runner()(&mut || {
            items = backend.tools(&style, None).and_then(|tools| render(client, backend, tools));
        });
        let shown = self.share(items.map_err(internal)?);
        *current = Some(CurrentList { offers, style, shown: Arc::clone(&shown) });
        Ok(shown)
    }

    /// Returns the tools that a client may see with this client program and this trace id.
    pub(super) fn of_caller(
        &self,
        client: &ClientSession,
        name: Option<&str>,
        trace: Option<&str>,
    ) -> Result<Arc<ShownTools>, RpcError> {
        let backend = client.gate.sync();
        if !backend.has_rules() {
            return self.of_backend(client, &backend);
        }
        let seen = client.gate.circumstances(name.unwrap_or_default(), trace, false);
        let mut items = Ok(Vec::new());
        client.gateway.registry.blocking_runner()(&mut || {
            let tools = backend.tools(&client.style(), Some(&seen));
            items = tools.and_then(|tools| render(client, &backend, tools));
        });
        Ok(self.share(items.map_err(internal)?))
    }

    /// Returns the list with these items: one that is known already, if there is one.
    fn share(&self, items: Vec<Box<RawValue>>) -> Arc<ShownTools> {
        let digest = digest(&items);
        let mut known = lock(&self.0);
        if let Some(shown) = known.all.get(&digest).and_then(Weak::upgrade) {
            return shown;
        }
        let items: Arc<[_]> = items.into();
        let (legacy_items, headers) = (for_legacy(&items), headers(&items));
        let shown = Arc::new(ShownTools { items, legacy_items, headers, digest });
        if known.all.len() >= known.limits[1] {
            known.all.retain(|_, shown| shown.strong_count() > 0);
            known.limits[1] = 2 * known.all.len() + FEW;
        }
        known.all.insert(digest, Arc::downgrade(&shown));
        shown
    }
}

impl KnownLists {
    /// Returns the list of a backend, and forgets those of backends that nobody uses now.
    fn list_of(&mut self, backend: &Arc<GateBackend>) -> Arc<Mutex<Option<CurrentList>>> {
        let address = Arc::as_ptr(backend) as usize;
        if let Some(known) = self.of_backends.get(&address) {
            return Arc::clone(&known.current);
        }
        let newest = backend.config_version();
        if newest > self.config_version {
            self.config_version = newest;
            // Sessions that have been idle since keep their backends, but nobody lists those again.
            let is_current = |backend: Arc<GateBackend>| backend.config_version() == newest;
            self.of_backends.retain(|_, known| known.backend.upgrade().is_some_and(is_current));
        }
        if self.of_backends.len() >= self.limits[0] {
            self.of_backends.retain(|_, known| known.backend.strong_count() > 0);
            self.limits[0] = 2 * self.of_backends.len() + FEW;
        }
        let (weak, current) = (Arc::downgrade(backend), Arc::default());
        self.of_backends.insert(address, BackendList { backend: weak, current: Arc::clone(&current) });
        current
    }
}

fn digest(items: &[Box<RawValue>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for item in items {
        digest.update(item.get());
        // A separator that cannot occur in JSON.
        digest.update([0]);
    }
    digest.finish()
}

/// Returns the tools in a form that clients before 2026-07-28 can read.
fn for_legacy(items: &Arc<[Box<RawValue>]>) -> Arc<[Box<RawValue>]> {
    let others: Vec<_> = items.iter().map(|item| session::strip_output_schema(item)).collect();
    if others.iter().all(Option::is_none) {
        return Arc::clone(items);
    }
    items.iter().zip(others).map(|(item, other)| other.unwrap_or_else(|| item.clone())).collect()
}

/// Collects the arguments that the tools' schemas want repeated in headers.
fn headers(items: &[Box<RawValue>]) -> Arc<ToolHeaders> {
    let headers = ToolHeaders::default();
    // Skips the parsing of most tools, which want none.
    let marked = items.iter().filter(|item| json::SHOWN.is_in(item.get()));
    for tool in marked.filter_map(|item| JsonObject::read(item.get())) {
        if let Some(name) = tool.get("name").and_then(json::string_value) {
            // Clients must ignore a tool with invalid marks, so nothing needs to be checked for it.
            let _ = headers.learn(&name, tool.get("inputSchema"));
        }
    }
    Arc::new(headers)
}

/// Renders the definitions of tools as the client sees them.
fn render(
    client: &ClientSession,
    backend: &GateBackend,
    tools: Vec<ExposedTool>,
) -> Result<Vec<Box<RawValue>>, LogicError> {
    let shown = tools.into_iter().map(|tool| {
        let definition = backend.definition(&tool.tool);
        let mut object = definition.and_then(|raw| JsonObject::read(raw.get())).unwrap_or_default();
        object.set("name", if client.exposed().is_some() { &tool.tool.tool } else { &tool.name });
        // Keep the server's own spelling unless the component changed the text.
        let written = object.get("description").and_then(json::string_value);
        if let Some(description) = tool.description.filter(|description| written.as_ref() != Some(description)) {
            object.set("description", &description);
        }
        if tool.tool.server.is_empty() {
            object.set("annotations", &annotations(tool.annotations));
        }
        if let Some(schema) = tool.input_schema.and_then(|schema| RawValue::from_string(schema).ok()) {
            object.set("inputSchema", &schema);
        }
        (tool.tool.server, object)
    });
    let mut shown: Vec<(String, JsonObject)> = shown.collect();
    backend.mask_descriptions(&mut shown)?;
    Ok(shown.iter().map(|(_, tool)| json::to_raw(tool)).collect())
}

/// Returns the annotations of one of the gate's own tools.
fn annotations(said: Annotations) -> serde_json::Value {
    serde_json::json!({
        "readOnlyHint": said.read_only,
        "destructiveHint": said.destructive,
        "idempotentHint": said.idempotent,
        "openWorldHint": said.open_world,
    })
}

fn internal(error: LogicError) -> RpcError {
    RpcError::new(INTERNAL_ERROR, error.to_string())
}

/// How many backends and lists are kept before it is worth a look which of them are gone.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;
    use crate::demo::InProcessDemo;
    use crate::gate::GateView;
    use crate::gateway::client::{ClientSink, Principal, SinkError};
    use crate::gateway::{Gateway, GatewayOptions, Relay};
    use crate::logic::types::filtering::SelectedServer;
    use crate::logic::{Component, ComponentOptions};
    use crate::registry::{Registry, RegistryOptions};
    use crate::transport::Connect;

    struct Nobody;

    impl ClientSink for Nobody {
        fn send(&self, _: String) -> Result<(), SinkError> {
            Ok(())
        }
    }

    /// A gateway with two servers, whose principals may use those that their names say.
    fn gateway() -> Gateway {
        let yaml = "servers: {one: {command: none}, two: {command: none}}";
        let config = config::parse(yaml, Path::new("toolgate.yaml")).unwrap();
        let transports = ["one", "two"].map(|id| (id.to_owned(), Arc::new(InProcessDemo) as Arc<dyn Connect>));
        let options = RegistryOptions { transports: transports.into(), ..RegistryOptions::default() };
        let component = Component::embedded(&ComponentOptions::default()).unwrap();
        let registry = Registry::new(&component, config, options).unwrap();
        let view = |name: &str| {
            let selected = name.split('-').skip(1).map(|id| SelectedServer { id: id.to_owned(), tools: Vec::new() });
            (name.to_owned(), GateView { selection: Some(selected.collect()), ..GateView::default() })
        };
        let views = ["ann-one-two", "bob-one-two", "dan-two-one", "eve-one"].map(view).into();
        Gateway::new(registry, Arc::new(Relay::default()), GatewayOptions { views, ..GatewayOptions::default() })
    }

    #[tokio::test]
    async fn clients_that_see_the_same_share_one_list_which_lives_as_long_as_it_is_current() {
        let gateway = gateway();
        let open = |name: &str| {
            let principal = Principal { name: name.to_owned(), admin: false };
            ClientSession::open(&gateway.state, &principal, name, Some(Arc::new(Nobody))).unwrap()
        };
        let names = ["ann-one-two", "ann-one-two", "bob-one-two", "dan-two-one", "eve-one"];
        let clients = names.map(open);
        for client in &clients {
            assert!(client.gate.refresh().await.failed.is_empty());
        }
        let list = |client: &Arc<ClientSession>| gateway.state.tool_lists.of_caller(client, None, None).unwrap();
        let lists = clients.each_ref().map(list);
        for (name, other) in names.iter().zip(&lists) {
            assert_eq!(Arc::ptr_eq(&lists[0], other), *name != "eve-one", "{name}");
        }
        assert_eq!(lists[0].items.len(), 2 * lists[4].items.len());
        let before = lists.each_ref().map(Arc::downgrade);
        drop(lists);
        assert!(before.iter().all(|list| list.upgrade().is_some()), "they are made once");

        let two = gateway.registry().link("two").unwrap();
        gateway.registry().disable(two.id());
        let lists = clients.each_ref().map(list);
        assert!(lists.iter().all(|list| Arc::ptr_eq(list, &lists[0])), "now they are all the same");
        assert!(before[0].upgrade().is_none(), "nobody is shown the earlier list");
        assert!(before[4].upgrade().is_some_and(|list| Arc::ptr_eq(&list, &lists[4])), "nothing changed for her");
        gateway.registry().close().await;
    }
}
