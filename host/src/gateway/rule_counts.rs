//! How often each rule of the configuration matched a call, by what the traces of the calls say.
//!
//! The component names the rules that it looked at. Here each of them is known by that text, so that counting is one
//! lookup for each note.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::config::model::{Config, DestructivePolicy, FilePosition, RuleConfig, ServerConfig, TokenRules};
use crate::logic::types::rules::Effect;

/// The rules of one configuration, with their counts since it came into force.
#[derive(Debug)]
pub(super) struct RuleCounts {
    /// Since when calls are counted.
    pub since: SystemTime,
    /// The rules, in the order of the configuration.
    pub rules: Vec<CountedRule>,
    of_all: NotedRules,
    by_server: HashMap<String, NotedRules>,
    by_principal: HashMap<String, NotedRules>,
}

/// Rules by the notes that name them.
type NotedRules = HashMap<String, usize>;

/// A rule, and how often it matched.
#[derive(Debug)]
pub(super) struct CountedRule {
    /// The rule, as it is written.
    pub text: String,
    /// Whose calls it is for.
    pub scope: RuleScope,
    /// Where it is, or the entry that it is in; `None` for a setting.
    pub place: Option<FilePosition>,
    /// How a warning names it.
    pub warned_as: String,
    matched: AtomicU64,
    /// The time of the last match, in milliseconds since 1970.
    last_ms: AtomicU64,
}

/// Whose calls a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleScope {
    All,
    Server(String),
    Principal(String),
}

impl CountedRule {
    /// Returns how many calls it matched, and when the last one ended.
    pub(super) fn matched(&self) -> (u64, Option<SystemTime>) {
        let count = self.matched.load(Ordering::Relaxed);
        let last = SystemTime::UNIX_EPOCH + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        (count, (count > 0).then_some(last))
    }
}

impl RuleCounts {
    /// Begins to count for the rules of this configuration.
    pub(super) fn new(config: &Config) -> Self {
        let (of_all, by_server, by_principal) = Default::default();
        let mut counts = RuleCounts { since: SystemTime::now(), rules: Vec::new(), of_all, by_server, by_principal };
        counts.add_settings(config);
        config.settings.rules.iter().for_each(|rule| counts.add_rule(rule, &RuleScope::All));
        config.servers.iter().filter(|server| server.enabled).for_each(|server| counts.add_server(server));
        config.settings.gateway.tokens.iter().for_each(|token| counts.add_token(token));
        counts
    }

    /// Counts the rules that the trace of a call names as those that fit it.
    pub(super) fn count(&self, principal: &str, server: Option<&str>, trace: &[String], at: SystemTime) {
        let lists = [
            server.and_then(|server| self.by_server.get(server)),
            self.by_principal.get(principal),
            Some(&self.of_all).filter(|rules| !rules.is_empty()),
        ];
        if lists.iter().all(Option::is_none) {
            return;
        }
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        for note in trace {
            let named = key_of(note);
            if let Some(rule) = lists.iter().flatten().find_map(|rules| rules.get(named)) {
                self.rules[*rule].matched.fetch_add(1, Ordering::Relaxed);
                self.rules[*rule].last_ms.fetch_max(now_ms, Ordering::Relaxed);
            }
        }
    }

    fn add_settings(&mut self, config: &Config) {
        let settings = &config.settings;
        let mut add = |text: &str, note: &str| self.add(text.to_owned(), &RuleScope::All, None, String::new(), note);
        if settings.read_only {
            add("read_only: true", "denied by `read_only: true`: the tool is not declared read-only");
        }
        match settings.destructive {
            DestructivePolicy::Allow => {}
            DestructivePolicy::Ask => add("destructive: ask", "needs approval: the tool may delete or overwrite"),
            DestructivePolicy::Deny => {
                add("destructive: deny", "denied by `destructive: deny`: the tool may delete or overwrite");
            }
        }
    }

    fn add_server(&mut self, server: &ServerConfig) {
        let (scope, place) = (RuleScope::Server(server.id.clone()), Some(&server.place));
        let lists = [
            ("allow", "allowed by `allow: ", server.allow.as_deref().unwrap_or_default()),
            ("deny", "denied by `deny: ", &server.deny[..]),
            ("ask", "needs approval: matches `ask: ", &server.ask[..]),
        ];
        for (list, begin, patterns) in lists {
            for pattern in patterns.iter().map(|pattern| pattern.trim()).filter(|pattern| !pattern.is_empty()) {
                let note = format!("{begin}{}`", pattern.escape_debug());
                self.add(format!("{list}: {pattern}"), &scope, place, format!("{list}: {pattern:?} "), &note);
            }
        }
        if server.allow.is_some() {
            let text = "allow (denies all others)".to_owned();
            self.add(text, &scope, place, String::new(), "denied: not in the allow list");
        }
        let of_tools = server.tools.iter().flat_map(|tool| &tool.requires);
        for capability in server.requires.iter().chain(of_tools) {
            let note = format!("denied: required capability {capability:?} is missing");
            self.add(format!("requires: {capability}"), &scope, place, String::new(), &note);
        }
        server.rules.iter().for_each(|rule| self.add_rule(rule, &scope));
    }

    fn add_token(&mut self, token: &TokenRules) {
        let (scope, place) = (RuleScope::Principal(token.principal.clone()), Some(&token.place));
        let selected: Vec<_> = token.selection.iter().flatten().filter(|(_, tools)| !tools.is_empty()).collect();
        if !selected.is_empty() {
            let servers: Vec<_> = selected.iter().map(|(id, tools)| format!("{id}: [{}]", tools.join(", "))).collect();
            let text = format!("servers: {{{}}} (denies other tools)", servers.join(", "));
            self.add(text, &scope, place, "servers: ".to_owned(), UNSELECTED);
        }
        for grant in token.capabilities.iter().flatten() {
            let note = format!("allowed by capability {grant:?}");
            self.add(format!("capabilities: {grant}"), &scope, place, format!("capabilities: {grant:?} "), &note);
        }
        token.rules.iter().for_each(|rule| self.add_rule(rule, &scope));
    }

    fn add_rule(&mut self, config: &RuleConfig, scope: &RuleScope) {
        let rule = &config.rule;
        let effect = match &rule.effect {
            Effect::Deny => "deny".to_owned(),
            Effect::Ask => "ask".to_owned(),
            Effect::Allow => "allow".to_owned(),
            Effect::Label(labels) => format!("label {}", labels.join(", ")),
        };
        let when = rule.condition.as_ref().map(|when| format!(" when {when}")).unwrap_or_default();
        let text = format!("rule {:?}: {effect} {}{when}", rule.name, rule.tools.join(", "));
        let note = format!("rule {:?}", rule.name);
        self.add(text, scope, Some(&config.place), format!("{note}: "), &note);
    }

    /// Adds a rule; of several that one note names, the first one counts.
    fn add(&mut self, text: String, scope: &RuleScope, place: Option<&FilePosition>, warned_as: String, note: &str) {
        let noted = match scope {
            RuleScope::All => &mut self.of_all,
            RuleScope::Server(id) => self.by_server.entry(id.clone()).or_default(),
            RuleScope::Principal(name) => self.by_principal.entry(name.clone()).or_default(),
        };
        if noted.contains_key(note) {
            return;
        }
        noted.insert(note.to_owned(), self.rules.len());
        let (matched, last_ms) = Default::default();
        let (scope, place) = (scope.clone(), place.cloned());
        self.rules.push(CountedRule { text, scope, place, warned_as, matched, last_ms });
    }
}

/// Returns the part of a note that names a rule.
fn key_of(note: &str) -> &str {
    if note.starts_with("rule ")
        && let Some((rule, _)) = note.split_once(" fits: ")
    {
        return rule;
    }
    if note.starts_with("denied: tool ") && note.ends_with(UNSELECTED) { UNSELECTED } else { note }
}

/// How a note ends that says that a principal's selection does not have a tool.
const UNSELECTED: &str = " is not selected";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse;

    #[test]
    fn each_rule_counts_by_the_note_that_names_it_for_its_server_and_its_principal_alone() {
        let config = parse(
            r#"
destructive: ask
rules: [{name: 'a "b" fits: c', tools: ["*"], then: deny}]
servers:
  one: {command: x, allow: [" get_* "], deny: ["é'"], ask: [get_it], requires: [office]}
  two: {command: x, deny: ["é'"], rules: [{name: own, tools: [get], when: "true", then: ask}]}
gateway: {tokens: [{principal: ann, token: ann-0123456789-token, servers: {one: [get_it]}, capabilities: ["server:one"]}]}
"#,
            Path::new("toolgate.yaml"),
        )
        .unwrap();
        let counts = RuleCounts::new(&config);
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(7);
        let count = |principal: &str, server: Option<&str>, notes: &[&str]| {
            let before: Vec<_> = counts.rules.iter().map(|rule| rule.matched().0).collect();
            let trace: Vec<_> = notes.iter().map(|note| (*note).to_owned()).collect();
            counts.count(principal, server, &trace, at);
            let after = counts.rules.iter().zip(before).filter(|(rule, before)| rule.matched().0 > *before);
            after.map(|(rule, _)| rule.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(count("bob", Some("one"), &["allowed by `allow: get_*`"]), ["allow: get_*"]);
        assert_eq!(count("bob", Some("one"), &["denied by `deny: é\\'`"]), ["deny: é'"]);
        assert_eq!(counts.rules.iter().filter(|rule| rule.matched().0 > 0).count(), 2, "not that of the other server");
        assert_eq!(count("bob", Some("one"), &["denied: not in the allow list"]), ["allow (denies all others)"]);
        let missing = "denied: required capability \"office\" is missing";
        assert_eq!(count("bob", Some("one"), &["x", missing]), ["requires: office"]);
        let unselected = "denied: tool \"x\" is not selected";
        assert_eq!(count("bob", Some("one"), &[unselected, "allowed by capability \"server:one\""]), [""; 0]);
        let own = count("ann", Some("one"), &[unselected, "allowed by capability \"server:one\""]);
        assert_eq!(own, ["servers: {one: [get_it]} (denies other tools)", "capabilities: server:one"]);
        let notes = ["needs approval: the tool may delete or overwrite", "rule \"own\" fits: its condition is true"];
        assert_eq!(count("bob", Some("two"), &notes), ["destructive: ask", "rule \"own\": ask get when true"]);
        assert_eq!(count("bob", None, &["rule \"own\" does not fit: its condition is false"]), [""; 0]);
        assert_eq!(counts.rules[0].matched(), (1, Some(at)));
    }
}
