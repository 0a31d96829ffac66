//! Who may use which tool by which rule, now: the matrix that `toolgate access` prints, from what the gateway knows.

mod table;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::json;

use super::super::client::Principal;
use super::super::{CallFilter, Gateway};
use super::{ApiResponse, error, failed};
use crate::access::{self, AccessSurvey, ServerTools, SharedRights};
use crate::config::model::Config;
use crate::gate::{GateError, GateView};
use crate::lock::lock;
use crate::logic::{Component, Supervisor};
pub(super) use table::AccessTable;

/// Whose access to which tools is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct AccessQuery {
    /// The labels of what agents have seen.
    pub labels: Vec<String>,
    /// Only this principal.
    pub principal: Option<String>,
    /// Only tools of this server.
    pub server: Option<String>,
}

impl AccessQuery {
    /// Returns the question that the parameters of a page ask; labels are separated by commas.
    pub(in crate::gateway) fn new(labels: &str, filter: CallFilter) -> Result<Self, String> {
        let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
        let labels: Vec<_> = labels.map(str::to_owned).collect();
        if labels.len() > MOST_LABELS || labels.iter().any(|label| label.len() > MOST_LABEL) {
            return Err(format!("labels takes up to {MOST_LABELS} labels of up to {MOST_LABEL} bytes"));
        }
        Ok(AccessQuery { labels, principal: filter.principal, server: filter.server })
    }
}

/// The last answers, each for as long as the configuration and the lists of tools stay the same.
#[derive(Default)]
pub(in crate::gateway) struct AccessCache(Mutex<VecDeque<(AccessKey, Arc<str>)>>);

/// Everything that an answer depends on.
#[derive(Debug, Clone, PartialEq)]
struct AccessKey {
    /// The versions of the configuration, the options and the lists of tools.
    versions: [u64; 3],
    /// The principal that is told of its own rights alone; `None` for admins.
    reader: Option<String>,
    query: AccessQuery,
}

impl AccessCache {
    fn get(&self, key: &AccessKey) -> Option<Arc<str>> {
        lock(&self.0).iter().find(|(known, _)| known == key).map(|(_, answer)| Arc::clone(answer))
    }

    fn put(&self, key: AccessKey, answer: &Arc<str>) {
        let mut kept = lock(&self.0);
        kept.retain(|(known, _)| known.versions == key.versions && *known != key);
        kept.push_front((key, Arc::clone(answer)));
        kept.truncate(MOST_KEPT);
    }
}

impl Gateway {
    /// Tells who may use which tool by which rule: everybody's rights for admins, and for others their own to the tools
    /// that they may use. It asks no server: the tools are those that servers have listed.
    pub(in crate::gateway) async fn access(
        &self,
        principal: &Principal,
        query: AccessQuery,
    ) -> Result<ApiResponse, ApiResponse> {
        let reader = (!principal.admin).then(|| principal.name.clone());
        let key = || AccessKey { versions: self.access_versions(), reader: reader.clone(), query: query.clone() };
        if let Some(known) = self.access_answers.get(&key()) {
            return Ok(self.redacted(&known));
        }
        let key = key();
        let question = self.access_question(principal, &query)?;
        let labels = query.labels;
        let cache = Arc::clone(&self.access_answers);
        let answer = self.slow_queries.run(principal, move |until| {
            // Somebody else may have asked the same meanwhile.
            if let Some(known) = cache.get(&key) {
                return Ok(known);
            }
            let answer: Arc<str> = question.answer(&labels, until)?.into();
            cache.put(key, &answer);
            Ok(answer)
        });
        Ok(self.redacted(&answer.await??))
    }

    /// Returns what changes whenever somebody's access may have changed.
    fn access_versions(&self) -> [u64; 3] {
        let (registry, edition) = (self.registry(), &self.state.edition);
        [registry.config_version(), edition.load(std::sync::atomic::Ordering::SeqCst), registry.tools_count()]
    }

    fn access_question(&self, principal: &Principal, query: &AccessQuery) -> Result<AccessQuestion, ApiResponse> {
        let config = self.registry().config();
        let mut principals = match principal.admin {
            true => self.principals_of(&config),
            false => {
                let mut view = self.state.view(&principal.name).map_err(failed)?;
                (view.pass_through, view.listing, view.agent.admin) = (false, None, false);
                vec![(principal.name.clone(), view)]
            }
        };
        principals.retain(|(name, _)| query.principal.as_ref().is_none_or(|wanted| wanted == name));
        let (mut offers, unlisted) = self.listed_tools();
        offers.retain(|offer| query.server.as_ref().is_none_or(|wanted| *wanted == offer.server));
        let cells = principals.len().saturating_mul(offers.iter().map(|offer| offer.tools.len()).sum());
        if cells > MOST_CELLS {
            let text = format!("{cells} rights are more than {MOST_CELLS}: name a principal or a server");
            return Err(error(400, &text));
        }
        let component = self.registry().component().clone();
        Ok(AccessQuestion { component, config, principals, offers, unlisted, is_admin: principal.admin })
    }

    /// Returns everybody who may use a gateway with this configuration, and what they may use of what it exposes.
    pub(super) fn principals_of(&self, config: &Config) -> Vec<(String, GateView)> {
        let principals = access::principals(config).into_iter();
        principals.map(|(name, view)| (name, self.state.restrict_to_exposed(view))).collect()
    }

    /// Returns the tools that servers have listed, and the servers that have listed none.
    pub(super) fn listed_tools(&self) -> (Vec<ServerTools>, Vec<String>) {
        let (mut listed, mut unlisted) = (Vec::new(), Vec::new());
        for link in self.registry().links().iter().filter(|link| !link.is_disabled()) {
            match link.known_tools() {
                Some(known) => {
                    let (server, tools) = (link.id().to_owned(), Arc::clone(&known.offered));
                    listed.push(ServerTools { server, tools, needs: Default::default() });
                }
                None => unlisted.push(link.id().to_owned()),
            }
        }
        (listed, unlisted)
    }
}

/// Everything that is needed to answer, on whatever thread.
struct AccessQuestion {
    component: Component,
    config: Arc<Config>,
    principals: Vec<(String, GateView)>,
    offers: Vec<ServerTools>,
    unlisted: Vec<String>,
    is_admin: bool,
}

impl AccessQuestion {
    fn answer(&self, labels: &[String], until: Instant) -> Result<String, ApiResponse> {
        let table = self.find(labels, until).map_err(|why| match why {
            AccessFailure::Gate(why) => failed(why),
            AccessFailure::TooLong => error(503, TOO_LONG),
        })?;
        let mut answer = table.to_json();
        answer["labels"] = json!(labels);
        // Which servers there are is told to those who may use them.
        if self.is_admin {
            answer["unlisted"] = json!(self.unlisted);
        }
        Ok(answer.to_string())
    }

    fn find(&self, labels: &[String], until: Instant) -> Result<AccessTable, AccessFailure> {
        let AccessQuestion { component, config, principals, offers, is_admin, .. } = self;
        let mut logic = Supervisor::new(component.clone()).map_err(GateError::Logic)?;
        let survey = AccessSurvey::new(&mut logic, config, offers, labels)?;
        let mut shared = SharedRights::new(&survey, component.digest());
        let mut table = AccessTable::new(survey.tools(), *is_admin);
        for (name, view) in principals {
            if Instant::now() >= until {
                return Err(AccessFailure::TooLong);
            }
            if !(shared.ignores_callers() && table.add_like(name, view)) {
                table.add(name, view, shared.rights(&mut logic, view)?);
            }
        }
        Ok(table)
    }
}

/// Why there is no answer.
pub(super) enum AccessFailure {
    Gate(GateError),
    TooLong,
}

impl From<GateError> for AccessFailure {
    fn from(why: GateError) -> Self {
        AccessFailure::Gate(why)
    }
}

pub(super) const TOO_LONG: &str = "this takes too long: name a principal or a server";
const MOST_LABELS: usize = 20;
const MOST_LABEL: usize = 100;
/// The number of answers that are kept.
const MOST_KEPT: usize = 8;
/// The number of rights that are found at once.
const MOST_CELLS: usize = 1_000_000;
