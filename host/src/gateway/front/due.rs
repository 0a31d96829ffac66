//! What a client has yet to hear: it is kept until there is room to tell it, but for lines of logs.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::value::RawValue;

use super::Front;
use super::lists::Sight;
use super::news::Untold;
use super::updates::{self, Fit, SUBSCRIPTION, Update};
use crate::gateway::client::{Outlet, PATIENCE, Unsent};
use crate::registry::Watcher;
use crate::session::message;
use crate::transport::BoxFuture;

/// Which lists a client wants to hear of.
pub(super) struct Wanted {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
}

/// Tells one client what it has yet to hear.
pub(super) struct Crier<'a> {
    outlet: &'a dyn Outlet,
    wanted: Wanted,
    /// The id of its subscription, where it has one.
    subscription: Option<&'a RawValue>,
    /// The tools that it knows of; none where its front knows what it was shown.
    sight: Option<Sight>,
    due: Due,
    /// Where something could not be told: when to try again.
    again: Option<BoxFuture<'a, ()>>,
}

/// What a client has yet to hear.
#[derive(Default)]
struct Due {
    /// Comes before all else.
    greeting: Option<String>,
    tools: bool,
    prompts: bool,
    resources: bool,
    /// The resources of which something may have been missed.
    gaps: BTreeSet<String>,
    updates: VecDeque<(Update, Fit)>,
    /// Lines of logs, as the client gets them.
    logs: Vec<String>,
}

impl<'a> Crier<'a> {
    /// For a client of the initialize era.
    pub(super) fn of_session(outlet: &'a dyn Outlet) -> Self {
        let wanted = Wanted { tools: true, prompts: true, resources: true };
        Crier { outlet, wanted, subscription: None, sight: None, due: Due::default(), again: None }
    }

    /// For one that listens, and is told first that it does.
    pub(super) fn of_listener(
        front: &Front,
        outlet: &'a dyn Outlet,
        wanted: Wanted,
        subscription: &'a RawValue,
        greeting: String,
    ) -> Self {
        // What others were shown who share the front says nothing of this one.
        let sight = (wanted.tools && front.is_shared()).then(|| Sight::now(front));
        let due = Due { greeting: Some(greeting), ..Due::default() };
        Crier { outlet, wanted, subscription: Some(subscription), sight, due, again: None }
    }

    /// Takes what has changed, as far as it is of what the client watches.
    pub(super) fn take<'w>(
        &mut self,
        untold: Untold,
        watched: impl Iterator<Item = (&'w String, Option<&'w Watcher>)> + Clone,
    ) {
        let due = &mut self.due;
        due.tools |= untold.tools && self.wanted.tools;
        due.prompts |= untold.prompts && self.wanted.prompts;
        due.resources |= untold.resources && self.wanted.resources;
        due.logs.extend(untold.logs);
        for update in untold.updates {
            if let Some(fit) = update.fit(watched.clone()) {
                due.updates.retain(|(known, _)| !known.is_of(&update));
                due.updates.push_back((update, fit));
            }
        }
        let many = due.updates.len() > MOST_UPDATES;
        if many {
            due.updates.clear();
        }
        if many || untold.missed {
            due.gaps.extend(watched.map(|(uri, _)| uri.clone()));
        }
    }

    /// Something of a resource may have been missed.
    pub(super) fn take_gap(&mut self, uri: String) {
        self.due.gaps.insert(uri);
    }

    /// Tells what there is room for; false where nothing can be told any more.
    pub(super) fn tell(&mut self, front: &Front) -> bool {
        // Before it is tried, so that no room is missed.
        let room = self.outlet.room();
        let told = self.try_to_tell(front);
        self.due.logs.clear();
        self.again = told.is_err().then(|| -> BoxFuture<'a, ()> {
            Box::pin(async move {
                tokio::time::sleep(PAUSE).await;
                // There may be room that nobody tells of.
                let _ = tokio::time::timeout(PATIENCE, room).await;
            })
        });
        told != Err(Unsent::Gone)
    }

    /// Waits until there may be room for what could not be told.
    pub(super) async fn again(&mut self) {
        match &mut self.again {
            Some(again) => again.await,
            None => std::future::pending().await,
        }
        self.again = None;
    }

    fn try_to_tell(&mut self, front: &Front) -> Result<(), Unsent> {
        front.follow();
        if let Some(greeting) = &self.due.greeting {
            self.outlet.send(greeting.clone())?;
            self.due.greeting = None;
        }
        // A client that may not use what has changed sees no change.
        if self.due.tools {
            let changed = match &self.sight {
                Some(sight) => sight.changed(front).map(Some),
                None => front.lists.tools_have_changed(front).then_some(None),
            };
            if let Some(sight) = changed {
                self.outlet.send(self.changed("notifications/tools/list_changed"))?;
                self.sight = sight;
            }
            self.due.tools = false;
        }
        if self.due.prompts {
            self.outlet.send(self.changed("notifications/prompts/list_changed"))?;
            self.due.prompts = false;
        }
        if self.due.resources {
            self.outlet.send(self.changed("notifications/resources/list_changed"))?;
            self.due.resources = false;
        }
        while let Some(uri) = self.due.gaps.first() {
            self.outlet.send(updates::gap(uri, self.subscription))?;
            self.due.gaps.pop_first();
        }
        while let Some((update, fit)) = self.due.updates.front() {
            if let Some(text) = update.notification(front, *fit, self.subscription) {
                self.outlet.send(text)?;
            }
            self.due.updates.pop_front();
        }
        self.due.logs.drain(..).try_for_each(|line| self.outlet.send(line))
    }

    /// The notification that a list has changed.
    fn changed(&self, method: &str) -> String {
        let params = self.subscription.map(|id| format!(r#"{{"_meta":{{"{SUBSCRIPTION}":{id}}}}}"#));
        message::notification(method, params.as_deref())
    }
}

/// How many resources with new content are kept for a client that does not read; beyond, all that it watches may have.
const MOST_UPDATES: usize = 1000;
/// The least time before it is tried again to tell something.
const PAUSE: Duration = Duration::from_millis(100);
