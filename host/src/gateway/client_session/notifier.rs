//! Queues the notifications of one client until there is room to send them. Log messages that do not fit are dropped.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ClientSession;
use super::changes::ChangeSet;
use super::request_context::RequestContext;
use super::tool_list::ToolSnapshot;
use super::updates::{self, ResourceUpdate, SUBSCRIPTION, WatchMatch};
use crate::gateway::client::{ClientSink, PATIENCE, SinkError};
use crate::registry::ResourceWatcher;
use crate::rpc;
use crate::transport::BoxFuture;

/// The changes that a client wants to be notified of, as `subscriptions/listen` names them.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SubscriptionFilter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) prompts_list_changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_subscriptions: Option<HashSet<String>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) resources_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) tools_list_changed: bool,
}

/// Sends notifications to one client, and keeps those that cannot be sent yet.
pub(super) struct ClientNotifier<'a> {
    sink: &'a dyn ClientSink,
    wanted: SubscriptionFilter,
    /// The id of the client's subscription, if it has one.
    subscription: Option<&'a str>,
    /// The tools that the client knows; `None` if its session keeps track of them.
    snapshot: Option<ToolSnapshot>,
    pending: PendingNotifications,
    /// Completes when sending may be tried again; `None` if nothing failed.
    retry: Option<BoxFuture<'a, ()>>,
}

/// The notifications that are still to be sent.
#[derive(Default)]
struct PendingNotifications {
    /// The acknowledgement of the subscription; sent before everything else.
    acknowledgement: Option<String>,
    tools: bool,
    prompts: bool,
    resources: bool,
    /// The resources whose updates may have been missed.
    gaps: BTreeSet<String>,
    updates: VecDeque<(ResourceUpdate, WatchMatch)>,
    /// Log notifications, ready to be sent.
    logs: Vec<String>,
}

impl<'a> ClientNotifier<'a> {
    /// Creates a notifier for a client of the initialize era.
    pub(super) fn for_session(sink: &'a dyn ClientSink) -> Self {
        let wanted = SubscriptionFilter {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            resource_subscriptions: None,
        };
        let pending = PendingNotifications::default();
        ClientNotifier { sink, wanted, subscription: None, snapshot: None, pending, retry: None }
    }

    /// Creates a notifier for `subscriptions/listen`; it sends the acknowledgement first.
    pub(super) fn for_subscription(
        context: &RequestContext<'a>,
        wanted: SubscriptionFilter,
        acknowledgement: String,
    ) -> Self {
        let RequestContext { client, request, envelope, .. } = *context;
        // In a shared session, the tools that other clients were shown say nothing about this one.
        let snapshot = (wanted.tools_list_changed && client.is_shared()).then(|| ToolSnapshot::now(client));
        let pending =
            PendingNotifications { acknowledgement: Some(acknowledgement), ..PendingNotifications::default() };
        let subscription = Some(request.id());
        ClientNotifier { sink: &*envelope.sink, wanted, subscription, snapshot, pending, retry: None }
    }

    /// Queues changes; of resource updates, only those that the client watches.
    pub(super) fn queue<'w>(
        &mut self,
        changes: ChangeSet,
        watched: impl Iterator<Item = (&'w String, Option<&'w ResourceWatcher>)> + Clone,
    ) {
        let pending = &mut self.pending;
        pending.tools |= changes.tools && self.wanted.tools_list_changed;
        pending.prompts |= changes.prompts && self.wanted.prompts_list_changed;
        pending.resources |= changes.resources && self.wanted.resources_list_changed;
        pending.logs.extend(changes.logs);
        for update in changes.updates {
            if let Some(fit) = update.match_watched(watched.clone()) {
                pending.updates.retain(|(known, _)| !known.is_of(&update));
                pending.updates.push_back((update, fit));
            }
        }
        let many = pending.updates.len() > MOST_UPDATES;
        if many {
            pending.updates.clear();
        }
        if many || changes.missed {
            pending.gaps.extend(watched.map(|(uri, _)| uri.clone()));
        }
    }

    /// Queues a notification for a resource whose updates may have been missed.
    pub(super) fn queue_gap(&mut self, uri: String) {
        self.pending.gaps.insert(uri);
    }

    /// Sends as much as there is room for; returns false if the client is gone.
    pub(super) fn flush(&mut self, client: &ClientSession) -> bool {
        // Created before the attempt, so that room that becomes free meanwhile is not missed.
        let room = self.sink.wait_for_room();
        let sent = self.try_flush(client);
        self.pending.logs.clear();
        self.retry = sent.is_err().then(|| -> BoxFuture<'a, ()> {
            Box::pin(async move {
                tokio::time::sleep(PAUSE).await;
                // Not every sink reports room.
                let _ = tokio::time::timeout(PATIENCE, room).await;
            })
        });
        sent != Err(SinkError::Closed)
    }

    /// Waits until sending may be tried again; never returns if nothing failed.
    pub(super) async fn wait_for_retry(&mut self) {
        match &mut self.retry {
            Some(again) => again.await,
            None => std::future::pending().await,
        }
        self.retry = None;
    }

    fn try_flush(&mut self, client: &ClientSession) -> Result<(), SinkError> {
        client.sync_view();
        if let Some(acknowledgement) = &self.pending.acknowledgement {
            self.sink.send(acknowledgement.clone())?;
            self.pending.acknowledgement = None;
        }
        // A client that may not use what changed sees no change.
        if self.pending.tools {
            let changed = match &self.snapshot {
                Some(snapshot) => snapshot.changed(client).map(Some),
                None => client.sent.tools.have_changed(client).then_some(None),
            };
            if let Some(snapshot) = changed {
                self.sink.send(self.list_changed("notifications/tools/list_changed"))?;
                self.snapshot = snapshot;
            }
            self.pending.tools = false;
        }
        if self.pending.prompts {
            self.sink.send(self.list_changed("notifications/prompts/list_changed"))?;
            self.pending.prompts = false;
        }
        if self.pending.resources {
            self.sink.send(self.list_changed("notifications/resources/list_changed"))?;
            self.pending.resources = false;
        }
        while let Some(uri) = self.pending.gaps.first() {
            self.sink.send(updates::gap_notification(uri, self.subscription))?;
            self.pending.gaps.pop_first();
        }
        while let Some((update, fit)) = self.pending.updates.front() {
            if let Some(text) = update.notification(client, *fit, self.subscription) {
                self.sink.send(text)?;
            }
            self.pending.updates.pop_front();
        }
        self.pending.logs.drain(..).try_for_each(|line| self.sink.send(line))
    }

    /// Builds a notification that a list has changed.
    fn list_changed(&self, method: &str) -> String {
        let params = self.subscription.map(|id| format!(r#"{{"_meta":{{"{SUBSCRIPTION}":{id}}}}}"#));
        rpc::notification(method, params.as_deref())
    }
}

/// The maximum number of queued updates; beyond it, the client is told that everything it watches may have changed.
const MOST_UPDATES: usize = 1000;
/// The minimum time before sending is tried again.
const PAUSE: Duration = Duration::from_millis(100);
