//! What a gate shares with its calls: settings, access rules, the servers' tools and maskers.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Settings;
use super::own_tools::SearchableTools;
use crate::catalog::{Catalog, NoRoute, Route};
use crate::filtering::{Access, Globs, Verdict};
use crate::masking::Masker;
use crate::rules::{Circumstances, CompiledRules, Outlook, Subject};
use crate::types::{Tool, ToolRef};

/// The state of a gate, which its calls share.
#[derive(Debug)]
pub(super) struct GateState {
    pub settings: Rc<Settings>,
    pub access: Access,
    pub catalog: Catalog,
    /// What is done to results.
    pub results: ResultRules,
    /// What is done to the results of servers with settings of their own.
    pub server_results: BTreeMap<String, ResultRules>,
    /// The rules that see arguments, people and what happened before.
    pub rules: Rc<CompiledRules>,
    /// The tools that are listed however many there are.
    pub always_listed: Globs,
    /// The tools that can be found; made when they are first sought after an offer.
    pub searchable: OnceCell<SearchableTools>,
}

/// What is done to the results of a server.
#[derive(Clone, Debug)]
pub(super) struct ResultRules {
    pub masker: Rc<Masker>,
    /// The number of tokens above which a text is summarized.
    pub summarize_above_tokens: Option<u64>,
    /// Whether JSON text becomes structured content.
    pub structured_text: bool,
}

impl GateState {
    /// Reports whether the rules allow a tool.
    pub(super) fn may_use(&self, server: &str, tool: &Tool) -> bool {
        self.access.verdict(server, &tool.name, tool.annotations) != Verdict::Deny
    }

    /// Says what rules do with calls of a tool before there are arguments; nothing if no server offers it.
    pub(super) fn foresee(&self, ToolRef { server, tool }: &ToolRef, seen: &Circumstances) -> Outlook {
        let Some(entry) = self.catalog.entry(server, tool) else { return Outlook::default() };
        let annotations = self.access.annotations(server, tool, entry.tool.annotations);
        self.rules.foresee(Subject { server, tool, annotations, arguments: None, schema: None }, seen)
    }

    /// Finds the tool that a name means.
    pub(super) fn resolve(&self, name: &str) -> Result<Route, NoRoute> {
        let may_use = |server: &str, tool: &Tool| self.may_use(server, tool);
        self.catalog.resolve(name, &may_use, &|server| self.access.selects(server))
    }

    /// Lists the servers that must be connected before it is certain what the name means.
    pub(super) fn missing(&self, name: &str, route: &Result<Route, NoRoute>) -> Vec<String> {
        let selects = |server: &str| self.access.selects(server);
        let contenders = self.catalog.contenders(name, &selects);
        match route {
            Err(NoRoute::Unknown(_)) if contenders.is_empty() => self.catalog.candidates(name, &selects),
            _ => contenders,
        }
    }

    /// Returns what is done to a server's results.
    pub(super) fn results(&self, server: &str) -> &ResultRules {
        self.server_results.get(server).unwrap_or(&self.results)
    }
}
