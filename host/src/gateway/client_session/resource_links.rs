//! Remembers the resources that servers link to in results: they may be on no list, and the client may want to read
//! them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use crate::json::MemberFinder;
use crate::lock::lock;

/// The server that last linked to each resource, for one client.
#[derive(Default)]
pub(super) struct ResourceLinks(Mutex<LinkTable>);

#[derive(Default)]
struct LinkTable {
    servers: HashMap<Arc<str>, Arc<str>>,
    /// The URIs, oldest first.
    order: VecDeque<Arc<str>>,
}

#[derive(Deserialize)]
struct ResultContent {
    #[serde(default)]
    content: Vec<ContentBlock>,
    #[serde(default)]
    messages: Vec<PromptMessage>,
}

#[derive(Deserialize)]
struct PromptMessage {
    content: ContentBlock,
}

/// A content block: a resource link, an embedded resource, or anything else.
#[derive(Deserialize)]
struct ContentBlock {
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    resource: Option<EmbeddedResource>,
}

#[derive(Deserialize)]
struct EmbeddedResource {
    uri: String,
}

impl ResourceLinks {
    /// Remembers the resources that a server's result links to. Most results contain none and are not parsed.
    pub(super) fn learn(&self, server: &str, answer: &str) {
        if !NAMED.is_in(answer) {
            return;
        }
        let Ok(ResultContent { content, messages }) = serde_json::from_str(answer) else { return };
        let blocks = content.into_iter().chain(messages.into_iter().map(|message| message.content));
        let uris = blocks.filter_map(|block| block.uri.or(block.resource.map(|held| held.uri)));
        let mut table = lock(&self.0);
        for uri in uris.filter(|uri| uri.len() <= LONGEST) {
            table.put(uri.into(), server.into());
        }
    }

    /// Reports whether no server has linked to any resource.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).servers.is_empty()
    }

    /// Returns the server that last linked to this resource.
    pub(super) fn server_of(&self, uri: &str) -> Option<Arc<str>> {
        lock(&self.0).servers.get(uri).cloned()
    }
}

impl LinkTable {
    fn put(&mut self, uri: Arc<str>, server: Arc<str>) {
        if self.servers.insert(Arc::clone(&uri), server).is_some() {
            return;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.servers.remove(&oldest);
        }
        self.order.push_back(uri);
    }
}

/// The common start of `resource_link` and `resource`.
static NAMED: MemberFinder = MemberFinder::new("\"resource");
/// The maximum number of remembered resources.
const MOST: usize = 4096;
/// The maximum length of a remembered URI.
const LONGEST: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_names_is_of_who_named_it_last_and_is_not_remembered_without_end() {
        let linked = ResourceLinks::default();
        linked.learn(
            "a",
            r#"{"content":[{"type":"text","text":"x"},{"type":"resource_link","uri":"x://1","name":"1"}]}"#,
        );
        linked.learn("b", r#"{"content":[{"type":"resource","resource":{"uri":"x://2","text":""}}]}"#);
        linked.learn("c", r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x://3"}}}]}"#);
        linked.learn("d", r#"{"content":[{"type":"text","text":"x://4","uri":"x://4"}]}"#);
        linked.learn("e", r#"{"content":[{"type":"text","text":"\ud83d"},{"type":"resource_link","uri":"x://5"}]}"#);
        let of = |uri: &str| linked.server_of(uri).map(|server| server.to_string());
        let all = ["x://1", "x://2", "x://3", "x://5"].map(of);
        assert_eq!(all, ["a", "b", "c", "e"].map(|server| Some(server.to_owned())));
        assert_eq!(of("x://4"), None);
        for n in 1..=MOST {
            linked.learn("e", &format!(r#"{{"content":[{{"type":"resource_link","uri":"x://{n}"}}]}}"#));
        }
        assert_eq!(of("x://1").as_deref(), Some("e"));
        let table = linked.0.lock().unwrap();
        assert_eq!((table.order.len(), table.servers.len()), (MOST, MOST));
    }
}
