//! Who may see and call what: one decision for listing and for calling.

mod glob;
mod grants;
mod unmatched;

use std::collections::BTreeMap;

use crate::types::{Annotations, Note, ToolRef, Trace};
use glob::Globs;
use grants::Grants;
pub use unmatched::{RuleList, Unmatched, find_unmatched};

/// Which tools of a server exist for anyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Names and globs that are let through; `None` lets all through, an empty list nothing.
    pub allow: Option<Vec<String>>,
    /// Names and globs that are kept out, whatever `allow` says; `any` is all of them.
    pub deny: Vec<String>,
}

/// What the configuration says of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// The name of the tool on its server, in any case.
    pub tool: String,
    /// Overrides of what the server says of the tool.
    pub annotations: Annotations,
    /// Capabilities that all are needed to use the tool.
    pub requires: Vec<String>,
}

/// What the configuration says of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRules {
    /// The id of the server.
    pub id: String,
    /// Which of its tools exist.
    pub rules: Rules,
    /// Names and globs of tools that a person must approve; `any` is all of them.
    pub ask: Vec<String>,
    /// Capabilities that all are needed to use any tool of the server.
    pub requires: Vec<String>,
    /// What is said of single tools.
    pub tools: Vec<ToolRules>,
}

/// A server that a gate may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedServer {
    /// The id of the server.
    pub id: String,
    /// Names and globs of its tools that the gate may use; empty means all.
    pub tools: Vec<String>,
}

/// What happens to tools that may delete or overwrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DestructivePolicy {
    /// They are like any other tool.
    #[default]
    Allow,
    /// A person must approve each call.
    Ask,
    /// They are neither listed nor callable.
    Deny,
}

/// All rules of one gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The configured servers, in the order in which they are shown.
    pub servers: Vec<ServerRules>,
    /// The servers that this gate may use; `None` means all.
    pub selection: Option<Vec<SelectedServer>>,
    /// Only tools that change nothing.
    pub read_only: bool,
    /// What happens to destructive tools.
    pub destructive: DestructivePolicy,
    /// What the principal has been granted; `None` means that no principal is given.
    pub capabilities: Option<Vec<String>>,
}

/// A grant that could mean several things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousGrant {
    /// The grant as written.
    pub grant: String,
    /// What it could mean, in the unambiguous form.
    pub meanings: Vec<String>,
}

/// Why a policy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// The selection names no server.
    EmptySelection,
    /// The selection names this server, which is not configured.
    UnknownServer(String),
    /// Two servers have this id.
    DuplicateServer(String),
    /// This server id is not of the form `[A-Za-z0-9_-]+`.
    BadServerId(String),
    /// A grant names two things in this configuration.
    AmbiguousGrant(AmbiguousGrant),
}

/// Whether a tool may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is listed and callable.
    Allow,
    /// It is listed, and a person must approve each call.
    Ask,
    /// It is neither listed nor callable.
    Deny,
}

/// A verdict and the rules that led to it; the last one decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules, in the order in which they were asked.
    pub trace: Trace,
}

/// Keeps the names that the rules let through, in their order.
pub fn filter<'a>(rules: &Rules, tools: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let rules = CompiledRules::new(rules);
    tools.into_iter().filter(|tool| rules.lets_through(tool)).collect()
}

/// A policy made ready to be asked often.
#[derive(Debug)]
pub struct Access {
    servers: BTreeMap<String, Server>,
    read_only: bool,
    destructive: DestructivePolicy,
    grants: Option<Grants>,
}

#[derive(Debug)]
struct Server {
    /// `None` where the gate may not use the server at all.
    selected: Option<Globs>,
    rules: CompiledRules,
    ask: Globs,
    requires: Vec<String>,
    tools: Vec<ToolRules>,
}

impl Server {
    /// All that is said of a tool. Its name fits as in the other lists, or a rule would be passed over without a word.
    fn rules_of(&self, tool: &str) -> impl Iterator<Item = &ToolRules> {
        self.tools.iter().filter(move |rules| glob::is_same(&rules.tool, tool))
    }
}

#[derive(Debug)]
struct CompiledRules {
    allow: Globs,
    deny: Globs,
}

impl CompiledRules {
    fn new(rules: &Rules) -> Self {
        let allow = rules.allow.as_deref().map_or_else(Globs::all, Globs::permitting);
        CompiledRules { allow, deny: Globs::restricting(&rules.deny) }
    }

    fn lets_through(&self, tool: &str) -> bool {
        self.deny.find(tool).is_none() && self.allow.find(tool).is_some()
    }
}

impl Access {
    /// Compiles a policy.
    pub fn new(policy: &Policy) -> Result<Access, PolicyError> {
        let mut servers = BTreeMap::new();
        for rules in &policy.servers {
            if !is_server_id(&rules.id) {
                return Err(PolicyError::BadServerId(rules.id.clone()));
            }
            let server = Server {
                selected: policy.selection.is_none().then(Globs::all),
                rules: CompiledRules::new(&rules.rules),
                ask: Globs::restricting(&rules.ask),
                requires: rules.requires.clone(),
                tools: rules.tools.clone(),
            };
            if servers.insert(rules.id.clone(), server).is_some() {
                return Err(PolicyError::DuplicateServer(rules.id.clone()));
            }
        }
        if let Some(selection) = &policy.selection {
            if selection.is_empty() {
                return Err(PolicyError::EmptySelection);
            }
            for selected in selection {
                let unknown = || PolicyError::UnknownServer(selected.id.clone());
                let tools = &selected.tools;
                let globs = if tools.is_empty() { Globs::all() } else { Globs::permitting(tools) };
                servers.get_mut(&selected.id).ok_or_else(unknown)?.selected = Some(globs);
            }
        }
        let ids: Vec<&str> = servers.keys().map(String::as_str).collect();
        let grants = policy.capabilities.as_ref().map(|capabilities| Grants::new(capabilities, &ids));
        let mut access = Access { servers, read_only: policy.read_only, destructive: policy.destructive, grants };
        match access.learn(|_, _| false).into_iter().next() {
            Some(ambiguous) => Err(PolicyError::AmbiguousGrant(ambiguous)),
            None => Ok(access),
        }
    }

    /// Takes in which tools exist, and says which grants have become ambiguous by it.
    pub fn learn(&mut self, exists: impl Fn(&str, &str) -> bool) -> Vec<AmbiguousGrant> {
        let servers = &self.servers;
        let known = |server: &str, tool: &str| {
            exists(server, tool) || servers.get(server).is_some_and(|server| server.rules_of(tool).next().is_some())
        };
        self.grants.as_mut().map_or_else(Vec::new, |grants| grants.learn(known))
    }

    /// Whether a server of this id is configured.
    pub fn knows(&self, server: &str) -> bool {
        self.servers.contains_key(server)
    }

    /// Whether the gate may use anything of the server: who may not does not hear of it.
    pub fn selects(&self, id: &str) -> bool {
        self.opens(id, Grants::touch).is_some()
    }

    /// Whether the gate may have what a server has beside its tools: resources, prompts, logs. They belong to the server as
    /// a whole, so a selection or a grant of single tools is none of them.
    pub fn admits(&self, id: &str) -> bool {
        self.opens(id, Grants::cover_server).is_some_and(Globs::fit_all)
    }

    /// The tools of a server that are selected, where it is and these grants open it.
    fn opens(&self, id: &str, open: fn(&Grants, &str) -> bool) -> Option<&Globs> {
        let server = self.servers.get(id)?;
        let granted = |grants: &Grants| open(grants, id) && grants.lacking(&server.requires).is_none();
        server.selected.as_ref().filter(|_| self.grants.as_ref().is_none_or(granted))
    }

    /// What is said of a tool: by the configuration, else by its server.
    pub fn annotations(&self, server: &str, tool: &str, said: Annotations) -> Annotations {
        let Some(server) = self.servers.get(server) else { return said };
        // Where tools differ in case alone, each has its own.
        let rules = server.rules_of(tool).min_by_key(|rules| rules.tool != tool);
        rules.map_or(said, |rules| rules.annotations.or(said))
    }

    /// Decides on one tool; `said` is what its server says of it.
    pub fn decide(&self, tool: &ToolRef, said: Annotations) -> Decision {
        let mut trace = Trace::new();
        let verdict = self.judge(&tool.server, &tool.tool, said, &mut |note| trace.push(note().into_owned()));
        Decision { verdict, trace }
    }

    /// The verdict, and to the notes the rules that led to it; the last one decided.
    pub fn explain(&self, server: &str, tool: &str, said: Annotations, notes: &mut Vec<Note>) -> Verdict {
        self.judge(server, tool, said, &mut |note| notes.push(note()))
    }

    /// The verdict alone, for long lists.
    pub fn verdict(&self, server: &str, tool: &str, said: Annotations) -> Verdict {
        self.judge(server, tool, said, &mut |_| {})
    }

    /// Asks every rule in turn. Notes are made only where somebody listens.
    fn judge(&self, id: &str, tool: &str, said: Annotations, note: &mut dyn FnMut(&dyn Fn() -> Note)) -> Verdict {
        let Some(server) = self.servers.get(id) else {
            note(&|| format!("server {id:?} is not configured").into());
            return Verdict::Deny;
        };
        let Some(selected) = &server.selected else {
            note(&|| format!("selection: server {id:?} is not in it").into());
            return Verdict::Deny;
        };
        if selected.find(tool).is_none() {
            note(&|| format!("selection: tool {tool:?} is not in it").into());
            return Verdict::Deny;
        }
        if let Some(glob) = server.rules.deny.find(tool) {
            note(&|| format!("deny: {glob:?} keeps it out").into());
            return Verdict::Deny;
        }
        match server.rules.allow.find(tool) {
            Some("") => note(&|| "allow: no list, so every tool passes".into()),
            Some(glob) => note(&|| format!("allow: {glob:?} lets it through").into()),
            None => {
                note(&|| "allow: nothing in the list lets it through".into());
                return Verdict::Deny;
            }
        }
        let annotations = self.annotations(id, tool, said);
        let read_only = annotations.read_only == Some(true);
        let destructive = !read_only && annotations.destructive != Some(false);
        if self.read_only && !read_only {
            note(&|| "read_only: the tool is not declared read-only".into());
            return Verdict::Deny;
        }
        if self.destructive == DestructivePolicy::Deny && destructive {
            note(&|| "destructive: deny, and the tool is not declared harmless".into());
            return Verdict::Deny;
        }
        if let Some(grants) = &self.grants {
            match grants.covering(id, tool) {
                Some(grant) => note(&|| format!("capability: {grant:?} grants it").into()),
                None => {
                    note(&|| grants.refusal(id, tool).into());
                    return Verdict::Deny;
                }
            }
            let own = || server.rules_of(tool).find_map(|rules| grants.lacking(&rules.requires));
            if let Some(missing) = grants.lacking(&server.requires).or_else(own) {
                note(&|| format!("requires: {missing:?} is missing").into());
                return Verdict::Deny;
            }
        }
        if let Some(glob) = server.ask.find(tool) {
            note(&|| format!("ask: {glob:?} wants a person's approval").into());
            return Verdict::Ask;
        }
        if self.destructive == DestructivePolicy::Ask && destructive {
            note(&|| "destructive: ask, and the tool is not declared harmless".into());
            return Verdict::Ask;
        }
        Verdict::Allow
    }
}

fn is_server_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
