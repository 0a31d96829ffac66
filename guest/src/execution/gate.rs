//! What one agent session may use: its settings, its servers' tools, and the calls that it begins.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::gate_state::{GateState, ResultRules};
use super::own_tools::Search;
use super::{Directive, Execution, OfferNote, Settings, SettingsError, ToolCall, outcome};
use crate::catalog::{Catalog, ExposedTool, LeftOut};
use crate::filtering::{Access, Globs};
use crate::masking::{Masker, Masks};
use crate::naming::NamingStyle;
use crate::rules::{self, Circumstances, CompiledRules, Outlook, RuleNote};
use crate::search::FoundTool;
use crate::types::{Failure, Tool, ToolRef};

/// A gate: a cache of its settings and its servers' tools.
#[derive(Debug)]
pub struct Gate(Rc<RefCell<GateState>>);

impl Gate {
    /// Compiles the settings.
    pub fn new(settings: Settings) -> Result<Gate, SettingsError> {
        let access = Access::new(&settings.policy).map_err(SettingsError::Policy)?;
        let ids = settings.policy.servers.iter().map(|server| server.id.as_str());
        let catalog = Catalog::new(ids, settings.style.clone(), settings.bare_names);
        let compile = |masks: &Masks| Masker::new(masks).map(Rc::new).map_err(SettingsError::Masks);
        let summarize_above_tokens = settings.summarize_above_tokens;
        let results = ResultRules { masker: compile(&settings.masks)?, summarize_above_tokens, structured_text: false };
        let mut server_results = BTreeMap::new();
        for server in &settings.server_settings {
            if !access.knows(&server.server) {
                return Err(SettingsError::UnknownServer(server.server.clone()));
            }
            let both = Masks {
                groups: [&settings.masks.groups[..], &server.masks.groups].concat(),
                patterns: [&settings.masks.patterns[..], &server.masks.patterns].concat(),
                custom: [&settings.masks.custom[..], &server.masks.custom].concat(),
            };
            let rules = ResultRules {
                masker: compile(&both)?,
                summarize_above_tokens: server.summarize_above_tokens.or(summarize_above_tokens),
                structured_text: server.structured_text,
            };
            server_results.insert(server.server.clone(), rules);
        }
        rules::check_tools(&settings.rules).map_err(SettingsError::RuleTools)?;
        let rules = CompiledRules::new(&settings.rules).map(Rc::new).map_err(SettingsError::Rules)?;
        let always = settings.search.as_ref().map_or(&[][..], |search| &search.always);
        let always_listed = Globs::restricting(always);
        Ok(Gate(Rc::new(RefCell::new(GateState {
            settings: Rc::new(settings),
            access,
            catalog,
            results,
            server_results,
            rules,
            always_listed,
            searchable: OnceCell::new(),
        }))))
    }

    /// Stores the result of `tools/list`; it replaces the server's last offer.
    pub fn offer(&self, server: &str, tools: Vec<Tool>) -> Vec<OfferNote> {
        let GateState { access, catalog, searchable, .. } = &mut *self.0.borrow_mut();
        if !access.knows(server) {
            return vec![OfferNote::UnknownServer(server.to_owned())];
        }
        searchable.take();
        let (changes, left_out) = catalog.offer(server, tools);
        let ambiguous = access.learn(|server, tool| catalog.has(server, tool));
        let left_out = left_out.into_iter().map(|left_out| match left_out {
            LeftOut::Duplicate(tool) => OfferNote::Duplicate(tool),
            LeftOut::Unusable(tool) => OfferNote::Unusable(tool),
        });
        let changes = changes.into_iter().map(OfferNote::Changed);
        changes.chain(left_out).chain(ambiguous.into_iter().map(OfferNote::AmbiguousGrant)).collect()
    }

    /// Forgets the server's tools.
    pub fn withdraw(&self, server: &str) {
        let GateState { access, catalog, searchable, .. } = &mut *self.0.borrow_mut();
        searchable.take();
        catalog.withdraw(server);
        access.learn(|server, tool| catalog.has(server, tool));
    }

    /// Lists the tools that may be used, in the given naming style and in the order of the servers; with circumstances,
    /// without tools of which rules refuse every call. If there are too many to list, the gate's own tools stand for them.
    pub fn tools(&self, style: &NamingStyle, circumstances: Option<&Circumstances>) -> Vec<ExposedTool> {
        let inner = self.0.borrow();
        let mut tools = inner
            .catalog
            .tools(style, &|server, tool| inner.may_use(server, tool), &|server, tool| inner.describe(server, tool));
        if let Some(seen) = circumstances {
            // After names were given to all, since a call finds a tool by the name that it has among all.
            tools.retain(|listed| inner.foresee(&listed.tool, seen).denied.is_none());
        }
        inner.shorten(&mut tools);
        tools
    }

    /// Finds tools that may be used, the best first; with circumstances, without tools of which rules refuse every call.
    pub fn search(&self, query: &str, limit: usize, circumstances: Option<&Circumstances>) -> Vec<FoundTool> {
        self.0.borrow().find(&Search { query: query.to_owned(), limit }, circumstances)
    }

    /// Says what rules do with calls of a tool before there are arguments; nothing if no server offers it.
    pub fn foresee(&self, tool: &ToolRef, circumstances: &Circumstances) -> Outlook {
        self.0.borrow().foresee(tool, circumstances)
    }

    /// Finds probable mistakes in rules, given the tools that are offered.
    pub fn check_rules(&self) -> Vec<RuleNote> {
        let inner = self.0.borrow();
        let tools: Vec<_> = inner
            .catalog
            .entries()
            .map(|(server, entry)| (format!("{server}.{}", entry.tool.name), entry.schema()))
            .collect();
        let unknown: Vec<_> = inner.catalog.without_offer(&|_| true).map(str::to_owned).collect();
        inner.rules.check(&tools, &unknown)
    }

    /// Reports whether the gate may use anything of a server.
    pub fn selects(&self, server: &str) -> bool {
        self.0.borrow().access.selects(server)
    }

    /// Reports whether the gate may use what a server has besides tools.
    pub fn admits(&self, server: &str) -> bool {
        self.0.borrow().access.admits(server)
    }

    /// Lists the servers that this gate may use and whose tools are unknown, in order.
    pub fn servers_without_offer(&self) -> Vec<String> {
        let inner = self.0.borrow();
        inner.catalog.without_offer(&|server| inner.access.selects(server)).map(str::to_owned).collect()
    }

    /// Reports whether the server has listed its tools.
    pub fn has_offer(&self, server: &str) -> bool {
        self.0.borrow().catalog.has_offer(server)
    }

    /// Describes a server's failure, masked and cut like its results.
    pub fn describe(&self, server: &str, failure: &Failure) -> String {
        let inner = self.0.borrow();
        let text = outcome::describe(failure, server);
        outcome::fit(inner.settings.max_result_bytes, inner.results(server).masker.mask(&text)).0
    }

    /// Begins a call.
    pub fn begin(&self, call: ToolCall) -> (Execution, Directive) {
        Execution::begin(Rc::clone(&self.0), call)
    }

    /// Masks any JSON from a server in the way that its results are masked; if that is not safe, returns the redaction
    /// as a JSON string.
    pub fn mask_json(&self, server: &str, text: &str) -> String {
        self.0.borrow().results(server).masker.mask_json(text).into_owned()
    }
}
