//! Resource updates, and which clients are notified of them.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;

use super::ClientSession;
use crate::json::JsonObject;
use crate::registry::{Link, ResourceWatcher};
use crate::rpc;

/// An update of a resource.
pub(super) struct ResourceUpdate {
    link: Weak<Link>,
    uri: String,
    /// The parameters of the server's notification.
    params: Box<RawValue>,
}

/// How an updated resource relates to a watched one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchMatch {
    Exact,
    /// It is below the watched one; watching a resource includes what is below it (2025-11-25, server, resources).
    Below,
}

impl ResourceUpdate {
    pub(super) fn new(link: &Arc<Link>, uri: String, params: Box<RawValue>) -> Self {
        ResourceUpdate { link: Arc::downgrade(link), uri, params }
    }

    /// Reports whether both updates are about the same resource.
    pub(super) fn is_of(&self, other: &ResourceUpdate) -> bool {
        self.uri == other.uri && self.link.ptr_eq(&other.link)
    }

    /// Returns how the update matches the watched resources, if it does. Resources of other servers match only exactly.
    pub(super) fn match_watched<'a>(
        &self,
        watched: impl IntoIterator<Item = (&'a String, Option<&'a ResourceWatcher>)>,
    ) -> Option<WatchMatch> {
        let mut fit = None;
        for (uri, watcher) in watched {
            if *uri == self.uri {
                return Some(WatchMatch::Exact);
            }
            if is_below(&self.uri, uri) && watcher.is_some_and(|watcher| watcher.is_of(&self.link)) {
                fit = Some(WatchMatch::Below);
            }
        }
        fit
    }

    /// Builds the client's notification, with the id of its subscription if it has one.
    pub(super) fn notification(
        &self,
        client: &ClientSession,
        fit: WatchMatch,
        subscription: Option<&str>,
    ) -> Option<String> {
        let link = self.link.upgrade()?;
        let mut params = JsonObject::read(&client.gate.mask(link.id(), self.params.get()).ok()?)?;
        if fit == WatchMatch::Exact {
            // The client itself sent this URI, so it need not be masked.
            params.set("uri", &self.uri);
        }
        Some(notification(params, subscription))
    }
}

/// Builds the notification for a resource whose updates may have been missed.
pub(super) fn gap_notification(uri: &str, subscription: Option<&str>) -> String {
    let mut params = JsonObject::default();
    params.set("uri", uri);
    notification(params, subscription)
}

/// Builds the notification with the client's subscription id in place of the server's.
fn notification(mut params: JsonObject, subscription: Option<&str>) -> String {
    let mut meta = params.remove("_meta").and_then(|meta| JsonObject::read(meta.get())).unwrap_or_default();
    meta.retain(|name| name != SUBSCRIPTION);
    if let Some(subscription) = subscription.and_then(|id| serde_json::from_str::<&RawValue>(id).ok()) {
        meta.set(SUBSCRIPTION, subscription);
    }
    if !meta.is_empty() {
        params.set("_meta", &meta);
    }
    rpc::notification("notifications/resources/updated", Some(&params.to_text()))
}

/// Reports whether a URI is below another one.
fn is_below(uri: &str, other: &str) -> bool {
    uri.strip_prefix(other).is_some_and(|rest| other.ends_with('/') || rest.starts_with('/'))
}

/// The member of `_meta` with the id of the subscription that a notification belongs to.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_an_address_begins_with_it_and_goes_on_after_a_slash() {
        let rows = [
            ("dir://a/b", "dir://a", true),
            ("dir://a/b", "dir://a/", true),
            ("dir://a/b/c", "dir://a", true),
            ("dir://ab", "dir://a", false),
            ("dir://a", "dir://a/b", false),
            ("dir://b/a", "dir://a", false),
        ];
        for (uri, other, expected) in rows {
            assert_eq!(is_below(uri, other), expected, "{uri} {other}");
        }
    }

    #[test]
    fn what_a_server_says_of_an_update_is_kept_but_for_its_subscription() {
        let read = |text: &str| JsonObject::read(text).unwrap();
        let params = read(r#"{"uri":"a:b","_meta":{"io.modelcontextprotocol/subscriptionId":7,"own":1},"more":[2]}"#);
        let told = |subscription: Option<&str>| {
            let id = subscription.map(|id| RawValue::from_string(id.to_owned()).unwrap());
            let text = notification(params.clone(), id.as_deref().map(RawValue::get));
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["params"].clone()
        };
        assert_eq!(told(None), serde_json::json!({"uri": "a:b", "_meta": {"own": 1}, "more": [2]}));
        let meta = serde_json::json!({"own": 1, "io.modelcontextprotocol/subscriptionId": "s"});
        assert_eq!(told(Some("\"s\"")), serde_json::json!({"uri": "a:b", "_meta": meta, "more": [2]}));
    }
}
