//! Who may see and call what: listing and calling use the same decision.

mod glob;
mod grants;
mod unmatched;

use std::collections::BTreeMap;

use crate::types::{Annotations, ToolRef, Trace, TraceNote};
pub(crate) use glob::{Globs, pattern_problem};
use grants::Grants;
pub use unmatched::{RuleList, Unmatched, find_unmatched};

/// Which tools of a server exist for everyone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Names and globs to allow; `None` allows every tool, an empty list allows none.
    pub allow: Option<Vec<String>>,
    /// Names and globs to deny, even if `allow` lists them; `any` denies every tool.
    pub deny: Vec<String>,
}

/// Configured rules for one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// The name of the tool on its server, in any case.
    pub tool: String,
    /// Overrides for the annotations that the server gives.
    pub annotations: Annotations,
    /// Capabilities that the tool requires; the principal needs all of them.
    pub requires: Vec<String>,
}

/// Configured rules for one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRules {
    /// The id of the server.
    pub id: String,
    /// Which of its tools exist.
    pub rules: Rules,
    /// Names and globs of tools that need approval; `any` matches every tool.
    pub ask: Vec<String>,
    /// Capabilities that every tool of the server requires; the principal needs all of them.
    pub requires: Vec<String>,
    /// Rules for single tools.
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
    /// They are treated like any other tool.
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
    /// The servers that the agent chose for itself; `None` means all. A tool must be in both lists.
    pub choice: Option<Vec<SelectedServer>>,
    /// Whether only tools that change nothing may be used.
    pub read_only: bool,
    /// What happens to destructive tools.
    pub destructive: DestructivePolicy,
    /// The principal's capabilities; `None` means that there is no principal.
    pub capabilities: Option<Vec<String>>,
}

/// A capability that could mean several things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmbiguousGrant {
    /// The capability, as written.
    pub grant: String,
    /// Its possible meanings, each in an unambiguous form.
    pub meanings: Vec<String>,
}

/// The reason why a policy is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// The selection names no server.
    EmptySelection,
    /// The selection names this server, but it is not configured.
    UnknownServer(String),
    /// Two servers have this id.
    DuplicateServer(String),
    /// This server id is not of the form `[A-Za-z0-9_-]+`.
    BadServerId(String),
    /// A capability is ambiguous in this configuration.
    AmbiguousGrant(AmbiguousGrant),
    /// A name or glob of a tool can never match; the text says why.
    BadGlob(String),
}

/// Whether a tool may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The tool is listed and callable.
    Allow,
    /// The tool is listed, and a person must approve each call.
    Ask,
    /// The tool is neither listed nor callable.
    Deny,
}

/// A verdict and the rules that led to it; the last note is the deciding one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// The rules, in the order in which they were checked.
    pub trace: Trace,
}

/// Keeps the names that the rules allow, in their order; none if a pattern that denies can never match.
pub fn filter<'a>(rules: &Rules, tools: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if find_problem(&rules.deny).is_some() {
        return Vec::new();
    }
    let rules = CompiledRules::new(rules);
    tools.into_iter().filter(|tool| rules.lets_through(tool)).collect()
}

/// Says what is wrong with the first pattern that can never match.
fn find_problem(patterns: &[String]) -> Option<String> {
    patterns.iter().find_map(|pattern| pattern_problem(pattern))
}

/// Refuses names and globs that can never match: a rule that restricts tools by one would leave them open.
fn check_patterns(policy: &Policy) -> Result<(), PolicyError> {
    let mut problem = None;
    for server in &policy.servers {
        let allow = server.rules.allow.as_deref().unwrap_or_default();
        for patterns in [allow, &server.rules.deny, &server.ask] {
            problem = problem.or_else(|| find_problem(patterns));
        }
    }
    for selected in policy.selection.iter().flatten() {
        problem = problem.or_else(|| find_problem(&selected.tools));
    }
    match problem {
        Some(problem) => Err(PolicyError::BadGlob(problem)),
        None => Ok(()),
    }
}

/// A policy, compiled for many decisions.
#[derive(Debug)]
pub struct Access {
    servers: BTreeMap<String, Server>,
    read_only: bool,
    destructive: DestructivePolicy,
    grants: Option<Grants>,
}

#[derive(Debug)]
struct Server {
    /// `None` if the gate may not use the server at all.
    selected: Option<SelectedTools>,
    rules: CompiledRules,
    ask: Globs,
    requires: Vec<String>,
    tools: Vec<ToolRules>,
}

/// The tools of a server that the gate may use and that its agent chose.
#[derive(Debug)]
struct SelectedTools {
    usable: Globs,
    chosen: Globs,
}

impl SelectedTools {
    /// Returns the tools of a server in both lists; `None` if one of them does not have the server.
    fn new(policy: &Policy, id: &str) -> Option<Self> {
        let globs = |list: &Option<Vec<SelectedServer>>| match list {
            None => Some(Globs::all()),
            Some(servers) => {
                let tools = &servers.iter().rfind(|selected| selected.id == id)?.tools;
                Some(if tools.is_empty() { Globs::all() } else { Globs::permitting(tools) })
            }
        };
        Some(SelectedTools { usable: globs(&policy.selection)?, chosen: globs(&policy.choice)? })
    }

    fn has(&self, tool: &str) -> bool {
        self.usable.find(tool).is_some() && self.chosen.find(tool).is_some()
    }

    fn fit_all(&self) -> bool {
        self.usable.fit_all() && self.chosen.fit_all()
    }
}

impl Server {
    /// Returns all rules for a tool. Names match as in the other lists; otherwise a rule would be silently ignored.
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
        check_patterns(policy)?;
        let mut servers = BTreeMap::new();
        for rules in &policy.servers {
            if !is_server_id(&rules.id) {
                return Err(PolicyError::BadServerId(rules.id.clone()));
            }
            let server = Server {
                selected: SelectedTools::new(policy, &rules.id),
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
            if let Some(unknown) = selection.iter().find(|selected| !servers.contains_key(&selected.id)) {
                return Err(PolicyError::UnknownServer(unknown.id.clone()));
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

    /// Updates the grants with the tools that exist, and returns those that became ambiguous.
    pub fn learn(&mut self, exists: impl Fn(&str, &str) -> bool) -> Vec<AmbiguousGrant> {
        let servers = &self.servers;
        let known = |server: &str, tool: &str| {
            exists(server, tool) || servers.get(server).is_some_and(|server| server.rules_of(tool).next().is_some())
        };
        self.grants.as_mut().map_or_else(Vec::new, |grants| grants.learn(known))
    }

    /// Reports whether a server with this id is configured.
    pub fn knows(&self, server: &str) -> bool {
        self.servers.contains_key(server)
    }

    /// Reports whether the gate may use anything of the server; if not, the caller learns nothing about it.
    pub fn selects(&self, id: &str) -> bool {
        self.opens(id, Grants::touch).is_some()
    }

    /// Reports whether the gate may use what a server has besides tools: resources, prompts, logs. They belong to the
    /// whole server, so selecting or granting single tools is not enough.
    pub fn admits(&self, id: &str) -> bool {
        self.opens(id, Grants::cover_server).is_some_and(SelectedTools::fit_all)
    }

    /// Returns the selected tools of a server if it is selected and the grants allow it.
    fn opens(&self, id: &str, open: fn(&Grants, &str) -> bool) -> Option<&SelectedTools> {
        let server = self.servers.get(id)?;
        let granted = |grants: &Grants| open(grants, id) && grants.lacking(&server.requires).is_none();
        server.selected.as_ref().filter(|_| self.grants.as_ref().is_none_or(granted))
    }

    /// Returns the annotations of a tool, from the configuration or else from its server.
    pub fn annotations(&self, server: &str, tool: &str, said: Annotations) -> Annotations {
        let Some(server) = self.servers.get(server) else { return said };
        // If two tools differ only in case, each has its own rules.
        let rules = server.rules_of(tool).min_by_key(|rules| rules.tool != tool);
        rules.map_or(said, |rules| rules.annotations.or(said))
    }

    /// Decides about one tool; `said` are its server's annotations.
    pub fn decide(&self, tool: &ToolRef, said: Annotations) -> Decision {
        let mut trace = Trace::new();
        let verdict = self.judge(&tool.server, &tool.tool, said, &mut |note| trace.push(note().into_owned()));
        Decision { verdict, trace }
    }

    /// Returns the verdict, and appends the rules that led to it to the notes; the last one is the deciding one.
    pub fn explain(&self, server: &str, tool: &str, said: Annotations, notes: &mut Vec<TraceNote>) -> Verdict {
        self.judge(server, tool, said, &mut |note| notes.push(note()))
    }

    /// Returns only the verdict, for long lists.
    pub fn verdict(&self, server: &str, tool: &str, said: Annotations) -> Verdict {
        self.judge(server, tool, said, &mut |_| {})
    }

    /// Checks every rule in turn; notes are built only if the caller wants them.
    fn judge(&self, id: &str, tool: &str, said: Annotations, note: &mut TakeNote<'_>) -> Verdict {
        let Some(server) = self.servers.get(id) else {
            return deny(note, &|| format!("denied: server {id:?} is not configured").into());
        };
        let Some(selected) = &server.selected else {
            return deny(note, &|| format!("denied: server {id:?} is not selected").into());
        };
        if !selected.has(tool) {
            return deny(note, &|| format!("denied: tool {tool:?} is not selected").into());
        }
        if let Some(glob) = server.rules.deny.find(tool) {
            return deny(note, &|| format!("denied by `deny: {}`", glob.escape_debug()).into());
        }
        match server.rules.allow.find(tool) {
            Some("") => note(&|| "allowed: no allow list".into()),
            Some(glob) => note(&|| format!("allowed by `allow: {}`", glob.escape_debug()).into()),
            None => return deny(note, &|| "denied: not in the allow list".into()),
        }
        let annotations = self.annotations(id, tool, said);
        let read_only = annotations.read_only == Some(true);
        let destructive = !read_only && annotations.destructive != Some(false);
        if self.read_only && !read_only {
            return deny(note, &|| "denied by `read_only: true`: the tool is not declared read-only".into());
        }
        if self.destructive == DestructivePolicy::Deny && destructive {
            return deny(note, &|| "denied by `destructive: deny`: the tool may delete or overwrite".into());
        }
        if let Some(grants) = &self.grants {
            match grants.covering(id, tool) {
                Some(grant) => note(&|| format!("allowed by capability {grant:?}").into()),
                None => return deny(note, &|| grants.refusal(id, tool).into()),
            }
            let own = || server.rules_of(tool).find_map(|rules| grants.lacking(&rules.requires));
            if let Some(missing) = grants.lacking(&server.requires).or_else(own) {
                return deny(note, &|| format!("denied: required capability {missing:?} is missing").into());
            }
        }
        if let Some(glob) = server.ask.find(tool) {
            note(&|| format!("needs approval: matches `ask: {}`", glob.escape_debug()).into());
            return Verdict::Ask;
        }
        if self.destructive == DestructivePolicy::Ask && destructive {
            note(&|| "needs approval: the tool may delete or overwrite".into());
            return Verdict::Ask;
        }
        Verdict::Allow
    }
}

/// Takes a note, which it builds only if somebody reads it.
type TakeNote<'a> = dyn FnMut(&dyn Fn() -> TraceNote) + 'a;

fn deny(note: &mut TakeNote<'_>, why: &dyn Fn() -> TraceNote) -> Verdict {
    note(why);
    Verdict::Deny
}

fn is_server_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests;
