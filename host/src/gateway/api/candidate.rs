//! What another configuration would change: whose access, and which of the recorded calls.
//!
//! Its text comes with the request. It is only parsed: no variable, file or command in it is expanded, since an admin
//! over HTTP may not read this machine's files and environment, and no server of it is started.

mod access_changes;
mod replayed_calls;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::call_filter::CallFilter;
use super::super::client::Principal;
use super::super::recent::CallPage;
use super::super::recorded::RecordFolders;
use super::super::{Gateway, GatewayState};
use super::access::AccessQuery;
use super::{ApiResponse, error};
use crate::access::ServerTools;
use crate::config;
use crate::config::model::Config;
use crate::config::resolve::check_tokens;
use crate::failure::format_chain;
use crate::json::read_object;
use crate::logic::{Component, ComponentOptions};
use crate::record::{Candidate, UnusableServer};
use access_changes::AccessComparison;

/// The candidate, and the calls that it is tried on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CandidateQuestion {
    /// The text of the configuration.
    text: String,
    /// The name of its file, for messages.
    #[serde(default)]
    name: String,
    /// The labels of what agents have seen.
    #[serde(default)]
    labels: Vec<String>,
    /// The conditions that select calls, as parameters of the API.
    #[serde(default)]
    calls: BTreeMap<String, String>,
}

impl Gateway {
    /// Tells what the configuration in this text would change. Nothing changes in the gateway.
    pub(in crate::gateway) async fn try_candidate(
        &self,
        principal: &Principal,
        body: &[u8],
    ) -> Result<ApiResponse, ApiResponse> {
        if body.len() > MOST_BYTES {
            return Err(error(413, &format!("a candidate may have up to {MOST_BYTES} bytes")));
        }
        let wrong = |why| error(400, &format!("send {{\"text\": a configuration, \"name\": its file}}: {why}"));
        let mut question: CandidateQuestion = read_object(body).map_err(wrong)?;
        let filter = filter_of(&question.calls).map_err(|why| error(400, &why))?;
        let query = AccessQuery::new(&question.labels.join(","), CallFilter::default());
        question.labels = query.map_err(|why| error(400, &why))?.labels;
        let (offers, unlisted) = self.listed_tools();
        let CallPage { calls, .. } = self.recent().page(None, usize::MAX, |call| filter.matches(call));
        let mut recent = HashMap::new();
        for call in &calls {
            let Some(tool) = &call.tool else { continue };
            *recent.entry((call.principal.clone(), tool.server.clone(), tool.tool.clone())).or_default() += 1;
        }
        let trial = CandidateTrial {
            state: Arc::clone(&self.state),
            component: self.registry().component().clone(),
            current: self.registry().config(),
            records: self.record_folders(),
            offers,
            unlisted,
            recent,
            filter,
        };
        let answer = self.slow_queries.run(principal, move |until| trial.answer(&question, until)).await??;
        Ok(self.redacted(&answer.to_string()))
    }
}

/// Everything that a candidate is compared with.
struct CandidateTrial {
    state: Arc<GatewayState>,
    component: Component,
    current: Arc<Config>,
    /// The folders of records; `None` if the gateway knows none.
    records: Option<RecordFolders>,
    offers: Vec<ServerTools>,
    unlisted: Vec<String>,
    /// How often principals called tools, of the calls that the gateway remembers.
    recent: HashMap<(String, String, String), u64>,
    filter: CallFilter,
}

impl CandidateTrial {
    fn answer(&self, question: &CandidateQuestion, until: Instant) -> Result<Value, ApiResponse> {
        let unusable = |why: &dyn std::error::Error| error(400, &format!("it cannot be used: {}", format_chain(why)));
        let parsed = config::parse(&question.text, &file_name(&question.name)).map_err(|why| unusable(&why))?;
        check_tokens(&parsed).map_err(|why| unusable(&why))?;
        let notices: Vec<_> = parsed.notices.iter().take(MOST_NOTICES).map(ToString::to_string).collect();
        let candidate = Candidate { component: Some(self.component.clone()), config: Some(Arc::new(parsed)) };
        let checked = candidate.checked(&ComponentOptions::default()).map_err(|why| unusable(&why))?;
        let (candidate, left_out) = checked;
        let left_out =
            left_out.iter().map(|UnusableServer { server, reason }| json!({"server": server, "reason": reason}));
        let config = candidate.config.as_ref().expect("a checked candidate keeps its configuration");
        let comparison = AccessComparison { trial: self, after: config, labels: &question.labels };
        let access = comparison.answer(Instant::now() + (until - Instant::now()) / 2);
        let access = access.map_err(|why| unusable(&why))?;
        let calls = self.replay(&candidate, until);
        let offered = |id: &str| self.offers.iter().any(|offer| offer.server == id);
        let new = config.servers.iter().filter(|server| server.enabled && !offered(&server.id));
        let mut unlisted: Vec<_> = new.map(|server| &server.id).chain(&self.unlisted).collect();
        unlisted.sort();
        unlisted.dedup();
        Ok(json!({
            "notices": notices,
            "unusable_servers": left_out.collect::<Vec<_>>(),
            "unlisted": unlisted,
            "access": access,
            "calls": calls.as_ref().ok(),
            "calls_problem": calls.as_ref().err(),
        }))
    }
}

/// Returns the path of the candidate in messages: a plain name, which is never opened.
fn file_name(name: &str) -> PathBuf {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    match !name.is_empty() && name.len() <= MOST_NAME && name.chars().all(is_plain) {
        true => PathBuf::from(name),
        false => Path::new("new.yaml").to_owned(),
    }
}

/// Returns the filter that these parameters of the API make.
fn filter_of(parameters: &BTreeMap<String, String>) -> Result<CallFilter, String> {
    let mut filter = CallFilter::default();
    for (name, value) in parameters {
        if !CallFilter::PARAMETERS.contains(&name.as_str()) {
            return Err(format!("calls: unknown condition {name:?}: there are {}", CallFilter::PARAMETERS.join(", ")));
        }
        filter.set(name, value.trim()).map_err(|why| format!("calls: {why}"))?;
    }
    Ok(filter)
}

/// The size of a request with a candidate.
const MOST_BYTES: usize = 1 << 20;
const MOST_NAME: usize = 100;
const MOST_NOTICES: usize = 50;
