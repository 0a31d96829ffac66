//! Finds out who may call what, by opening each principal's gate as a gateway would and asking it.
//!
//! This module knows no rules. A tool may be used if the gate lists it and begins to call it, and the component names
//! the rule that decided.

mod compare;
mod needs;
mod shared;
mod survey;

use std::sync::Arc;

pub use compare::{AccessChange, ChangeDirection, admin_changes, changes};
pub use needs::{ToolNeeds, find_needs};
pub use shared::SharedRights;
pub use survey::AccessSurvey;

use crate::agent::Agent;
use crate::config::model::Config;
use crate::gate::{self, GateError, GateView};
use crate::logic::Supervisor;
use crate::logic::types::filtering::Verdict;
use crate::logic::types::{Tool, ToolRef};
use crate::registry::resource_tools;

/// The tools that a server offers.
#[derive(Debug, Clone)]
pub struct ServerTools {
    /// The id of the server.
    pub server: String,
    /// The tools that it shows to a client with all capabilities, as a gateway is.
    pub tools: Arc<[Tool]>,
    /// The client capabilities that they need.
    pub needs: ToolNeeds,
}

impl ServerTools {
    /// Returns the tools that list and read resources.
    fn of_resources() -> Self {
        let (server, tools) = (gate::RESOURCE_SERVER.to_owned(), Arc::clone(&resource_tools().offered));
        ServerTools { server, tools, needs: ToolNeeds::default() }
    }
}

/// What each principal may do with each tool.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessMatrix {
    /// The principals, in the order of the configuration.
    pub principals: Vec<String>,
    /// The tools, in the order of their servers.
    pub tools: Vec<AccessTool>,
    /// For each principal, its right to each tool.
    rights: Vec<Vec<AccessRight>>,
}

/// A tool, as the component sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessTool {
    /// The server and the tool.
    pub tool: ToolRef,
    /// The name of the tool for a principal that may use everything.
    pub name: String,
    /// Whether the tool counts as one that may delete or overwrite.
    pub destructive: bool,
    /// Whether the tool counts as one that changes nothing.
    pub read_only: bool,
    /// The capabilities without which its server does not show the tool to a client.
    pub needs: Vec<&'static str>,
}

/// Whether a principal may call a tool, from the strictest to the loosest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessVerdict {
    /// It may not.
    Deny,
    /// A person must approve each call.
    Ask,
    /// Rules decide by the arguments, or by how many calls there were.
    Depends,
    /// It may.
    Allow,
}

impl AccessVerdict {
    /// Returns the name of the verdict.
    pub fn name(self) -> &'static str {
        match self {
            AccessVerdict::Deny => "deny",
            AccessVerdict::Ask => "ask",
            AccessVerdict::Depends => "depends",
            AccessVerdict::Allow => "allow",
        }
    }
}

impl From<Verdict> for AccessVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Deny => AccessVerdict::Deny,
            Verdict::Ask => AccessVerdict::Ask,
            Verdict::Allow => AccessVerdict::Allow,
        }
    }
}

/// The right of one principal to one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRight {
    /// The name of the tool for this principal; `None` if the tool is not listed.
    pub name: Option<String>,
    /// Whether the principal may call the tool.
    pub verdict: AccessVerdict,
    /// The conditions under which rules deny or ask, and by which rule.
    pub conditions: Vec<String>,
    /// The rule that decided.
    pub rule: String,
    /// All rules that were checked, in order; the last one decided.
    pub trace: Vec<String>,
}

/// Returns everybody who may use a gateway with this configuration, and what they may use: principals with tokens, and
/// the local principal, which needs none on standard input and output and on the socket.
pub fn principals(config: &Config) -> Vec<(String, GateView)> {
    let mut all = gate::views(config);
    if !all.iter().any(|(name, _)| name == gate::LOCAL) {
        all.push((gate::LOCAL.to_owned(), GateView::default()));
    }
    all
}

/// Returns the principal for HTTP requests without a token, which may use everything; `None` if the configuration has
/// tokens.
pub fn anonymous_principal(config: &Config) -> Option<(String, GateView)> {
    let agent = Agent { admin: false, ..Agent::default() };
    let view = GateView { agent, ..GateView::default() };
    config.settings.gateway.tokens.is_empty().then(|| (ANYONE.to_owned(), view))
}

impl AccessMatrix {
    /// Asks the component about each of these principals and each of these tools, for agents with these labels.
    pub fn find(
        logic: &mut Supervisor,
        config: &Config,
        principals: Vec<(String, GateView)>,
        all: &[ServerTools],
        labels: &[String],
    ) -> Result<Self, GateError> {
        let survey = AccessSurvey::new(logic, config, all, labels)?;
        let rights = principals.iter().map(|(_, view)| survey.rights(logic, view)).collect::<Result<_, _>>()?;
        let principals = principals.into_iter().map(|(name, _)| name).collect();
        Ok(AccessMatrix { principals, tools: survey.into_tools(), rights })
    }

    /// Returns the rights of one principal, or those of nobody.
    pub(crate) fn of_one(tools: &[AccessTool], principal: Option<(&str, Vec<AccessRight>)>) -> Self {
        let (names, rights) = principal.map(|(name, rights)| (name.to_owned(), rights)).into_iter().unzip();
        AccessMatrix { principals: names, tools: tools.to_vec(), rights }
    }

    /// Returns each principal with each tool, and its right.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &AccessTool, &AccessRight)> {
        let each = self.principals.iter().zip(&self.rights);
        each.flat_map(|(name, rights)| self.tools.iter().zip(rights).map(move |(tool, right)| (&**name, tool, right)))
    }
}

impl AccessRight {
    fn denied(why: &str) -> Self {
        let (verdict, conditions) = (AccessVerdict::Deny, Vec::new());
        AccessRight { name: None, verdict, conditions, rule: why.to_owned(), trace: vec![why.to_owned()] }
    }
}

/// A name that no principal can have, because it contains spaces.
const ANYONE: &str = "anyone (HTTP without a token)";
