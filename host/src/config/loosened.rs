//! Finds what a new configuration permits that the old one did not, so that every loosened rule is reported.

mod call_rules;
mod lists;

use std::collections::HashMap;

use super::bytes;
use super::duration;
use super::keys::server::INHERIT;
use super::keys::settings::{DESTRUCTIVE, RETRY};
use super::model::{
    Approvers, Config, DestructivePolicy, GatewayRules, InheritEnv, Masking, RetryPolicy, ServerConfig, Settings,
    StoreFailurePolicy, TokenRules, ToolConfig,
};
use super::section::name_of;
use lists::{added_patterns, is_same, removed_patterns};

/// Returns one line for every rule, filter, mask and limit that is looser than before. Servers and principals are
/// compared by name: one with another name is new.
pub fn find_loosened(before: &Config, after: &Config) -> Vec<String> {
    let mut rules = LoosenedRules { scope: String::new(), lines: Vec::new() };
    compare_settings(&before.settings, &after.settings, &mut rules);
    compare_gateway(&before.settings.gateway, &after.settings.gateway, &mut rules);
    let servers: HashMap<_, _> = before.servers.iter().map(|old| (&old.id, old)).collect();
    for new in &after.servers {
        if let Some(old) = servers.get(&new.id) {
            rules.scope = format!("server {:?}: ", new.id);
            compare_server(old, new, &after.settings.masking, &mut rules);
        }
    }
    // Without tokens, everybody had access already.
    if !before.settings.gateway.tokens.is_empty() {
        let known: HashMap<_, _> = before.settings.gateway.tokens.iter().map(|old| (&old.principal, old)).collect();
        for new in &after.settings.gateway.tokens {
            rules.scope = format!("principal {:?}: ", new.principal);
            match known.get(&new.principal) {
                Some(old) => compare_principal(old, new, &mut rules),
                None => rules.add("may use the gateway"),
            }
        }
    }
    rules.lines
}

/// The lines found so far.
struct LoosenedRules {
    /// The start of each line, which names whose rules are compared; empty for the settings of all servers.
    scope: String,
    lines: Vec<String>,
}

impl LoosenedRules {
    fn add(&mut self, what: impl AsRef<str>) {
        self.lines.push(format!("{}{}", self.scope, what.as_ref()));
    }

    fn add_if(&mut self, looser: bool, what: &str) {
        if looser {
            self.add(what);
        }
    }

    /// Compares a choice; `strict` has the values from the strictest to the loosest, and `names` their names.
    fn compare_choice<C: PartialEq + Copy>(
        &mut self,
        key: &str,
        before: C,
        after: C,
        strict: &[C],
        names: &[(&str, C)],
    ) {
        let rank = |value: C| strict.iter().position(|choice| *choice == value);
        if rank(after) > rank(before) {
            self.add(format!("{key} is {} instead of {}", name_of(names, after), name_of(names, before)));
        }
    }

    /// Compares a limit; `None` means no limit.
    fn compare_bound<T: Ord + Copy>(&mut self, key: &str, before: Option<T>, after: Option<T>, show: fn(T) -> String) {
        let shown = |bound: Option<T>| bound.map_or_else(|| "no limit".to_owned(), show);
        let looser = before.is_some_and(|before| after.is_none_or(|after| after > before));
        if looser {
            self.add(format!("{key} is {} instead of {}", shown(after), shown(before)));
        }
    }
}

fn compare_settings(before: &Settings, after: &Settings, rules: &mut LoosenedRules) {
    rules.add_if(before.read_only && !after.read_only, "read_only is off, so tools may change things");
    let strict = [DestructivePolicy::Deny, DestructivePolicy::Ask, DestructivePolicy::Allow];
    rules.compare_choice("destructive", before.destructive, after.destructive, &strict, DESTRUCTIVE);
    let strict = [RetryPolicy::Never, RetryPolicy::Safe, RetryPolicy::Always];
    rules.compare_choice("retry", before.retry, after.retry, &strict, RETRY);
    rules.add_if(before.check_arguments && !after.check_arguments, "check_arguments is off");
    rules.add_if(!before.allow_commands && after.allow_commands, "allow_commands is on");
    call_rules::compare_settings(before, after, rules);
    compare_masking(&before.masking, &[&after.masking], rules);
    let limit = |bytes: u64| Some(bytes).filter(|bytes| *bytes > 0);
    rules.compare_bound("ask_max_bytes", Some(before.ask_max_bytes), Some(after.ask_max_bytes), bytes::write);
    rules.compare_bound(
        "max_result_bytes",
        limit(before.max_result_bytes),
        limit(after.max_result_bytes),
        bytes::write,
    );
    let raw = |settings: &Settings| settings.record.as_ref().is_some_and(|record| record.raw);
    rules.add_if(!raw(before) && raw(after), "record.raw is on, so secrets are recorded unmasked");
    rules.add_if(before.record.is_some() && after.record.is_none(), "record is gone, so no call is recorded");
    for old in &before.queues {
        let Some(new) = after.queues.iter().find(|new| new.name == old.name) else { continue };
        rules.compare_bound(&format!("queues.{}.slots", old.name), old.slots, new.slots, number_text);
        rules.compare_bound(&format!("queues.{}.waiting", old.name), old.waiting, new.waiting, number_text);
    }
}

fn compare_gateway(before: &GatewayRules, after: &GatewayRules, rules: &mut LoosenedRules) {
    rules.compare_bound("gateway.rate", before.rate, after.rate, number_text);
    for (key, old, new) in [
        ("gateway.max_sessions", before.max_sessions, after.max_sessions),
        ("gateway.max_connections", before.max_connections, after.max_connections),
        ("gateway.max_in_flight", before.max_in_flight, after.max_in_flight),
    ] {
        rules.compare_bound(key, Some(old), Some(new), number_text);
    }
    for (key, old, new) in [
        ("gateway.max_body_bytes", before.max_body_bytes, after.max_body_bytes),
        ("gateway.max_inflight_bytes", before.max_inflight_bytes, after.max_inflight_bytes),
    ] {
        rules.compare_bound(key, Some(old), Some(new), bytes::write);
    }
    let strict = [StoreFailurePolicy::Closed, StoreFailurePolicy::Open];
    rules.compare_choice(
        "gateway.on_store_failure",
        before.on_store_failure,
        after.on_store_failure,
        &strict,
        &StoreFailurePolicy::ALL,
    );
    // A client may answer its own question, and two kinds of approvers are more than one.
    let strict = [Approvers::Admins, Approvers::Client, Approvers::Either];
    rules.compare_choice("gateway.approvers", before.approvers, after.approvers, &strict, &Approvers::ALL);
    rules.compare_bound("gateway.session_idle", Some(before.session_idle), Some(after.session_idle), duration::write);
}

fn compare_server(before: &ServerConfig, after: &ServerConfig, masks_of_all: &Masking, rules: &mut LoosenedRules) {
    rules.add_if(!before.enabled && after.enabled, "enabled is true, so it may be used");
    match (&before.allow, &after.allow) {
        (Some(_), None) => rules.add("allow is gone, so every tool is offered"),
        (Some(old), Some(new)) => {
            added_patterns(old, new).for_each(|tool| rules.add(format!("allow now includes {tool:?}")))
        }
        (None, _) => {}
    }
    for (key, old, new) in [("deny", &before.deny, &after.deny), ("ask", &before.ask, &after.ask)] {
        removed_patterns(old, new).for_each(|tool| rules.add(format!("{key} no longer has {tool:?}")));
    }
    compare_requires("requires", &before.requires, &after.requires, rules);
    call_rules::compare_rules(&before.rules, &after.rules, rules);
    compare_tools(&before.tools, &after.tools, rules);
    compare_masking(&before.masking, &[&after.masking, masks_of_all], rules);
    rules.compare_bound("max_concurrent", before.max_concurrent, after.max_concurrent, number_text);
    rules.compare_bound("max_list_bytes", Some(before.max_list_bytes), Some(after.max_list_bytes), bytes::write);
    rules.compare_bound(
        "max_message_bytes",
        Some(before.max_message_bytes),
        Some(after.max_message_bytes),
        bytes::write,
    );
    rules.add_if(before.tls.verify && !after.tls.verify, "tls.verify is off, so any certificate is accepted");
    let strict = [InheritEnv::None, InheritEnv::Minimal, InheritEnv::Scoped, InheritEnv::All];
    rules.compare_choice("inherit_env", before.inherit_env, after.inherit_env, &strict, INHERIT);
    for variable in after.pass_env.iter().filter(|name| !before.pass_env.contains(name)) {
        rules.add(format!("pass_env has {variable:?}"));
    }
}

/// Compares the rules of single tools; a tool that is not mentioned has none.
fn compare_tools(before: &[ToolConfig], after: &[ToolConfig], loosened: &mut LoosenedRules) {
    let nothing = |tool: &str| ToolConfig { tool: tool.to_owned(), ..ToolConfig::default() };
    let of = |rules: &[ToolConfig], tool: &str| rules.iter().find(|rules| is_same(&rules.tool, tool)).cloned();
    let gone = before.iter().filter(|old| of(after, &old.tool).is_none()).map(|old| nothing(&old.tool));
    for new in after.iter().cloned().chain(gone) {
        let old = of(before, &new.tool).unwrap_or_else(|| nothing(&new.tool));
        compare_requires(&format!("tools.{}.requires", new.tool), &old.requires, &new.requires, loosened);
        for (key, old, hint, harmless) in [
            ("read_only", old.annotations.read_only, new.annotations.read_only, true),
            ("destructive", old.annotations.destructive, new.annotations.destructive, false),
            ("idempotent", old.annotations.idempotent, new.annotations.idempotent, true),
        ] {
            // Without an override, the server's own annotation counts.
            let looser = old != hint && old != Some(harmless) && (hint == Some(harmless) || hint.is_none());
            let says = hint.map_or_else(|| "as its server says".to_owned(), |hint| hint.to_string());
            loosened.add_if(looser, &format!("tools.{}.annotations.{key} is {says}", new.tool));
        }
    }
}

fn compare_requires(key: &str, before: &[String], after: &[String], rules: &mut LoosenedRules) {
    for capability in before.iter().filter(|capability| !after.contains(capability)) {
        rules.add(format!("{key} no longer has {capability:?}"));
    }
}

/// Compares masks; a value that any of the new masks covers is still masked.
fn compare_masking(before: &Masking, after: &[&Masking], rules: &mut LoosenedRules) {
    let all = after.iter().any(|masking| masking.groups.iter().any(|group| group == "all"));
    for group in &before.groups {
        let kept = all || after.iter().any(|masking| masking.groups.contains(group));
        rules.add_if(!kept, &format!("masking.groups no longer has {group:?}"));
    }
    for pattern in &before.patterns {
        let kept = all || after.iter().any(|masking| masking.patterns.contains(pattern));
        rules.add_if(!kept, &format!("masking.patterns no longer has {pattern:?}"));
    }
    for (at, mask) in before.custom.iter().enumerate() {
        let same = after.iter().flat_map(|masking| &masking.custom).find(|new| new.pattern == mask.pattern);
        // A pattern may be the secret itself.
        let name = mask.name.as_ref().map_or_else(|| format!("number {}", at + 1), |name| format!("{name:?}"));
        match same {
            None => rules.add(format!("masking.custom no longer has {name}")),
            // A replacement may quote the secret.
            Some(new) => {
                rules.add_if(
                    new.replacement != mask.replacement,
                    &format!("masking.custom has another replacement for {name}"),
                );
            }
        }
    }
}

fn compare_principal(before: &TokenRules, after: &TokenRules, rules: &mut LoosenedRules) {
    rules.add_if(!before.admin && after.admin, "is an admin now");
    call_rules::compare_rules(&before.rules, &after.rules, rules);
    for group in after.groups.iter().filter(|group| !before.groups.contains(group)) {
        rules.add(format!("is in the group {group:?}"));
    }
    match (&before.selection, &after.selection) {
        (Some(_), None) => rules.add("may use every server"),
        (Some(old), Some(new)) => {
            for (id, tools) in new {
                match old.iter().find(|(known, _)| known == id) {
                    None => rules.add(format!("may use the server {id:?}")),
                    Some((_, known)) if known.is_empty() => {}
                    Some(_) if tools.is_empty() => rules.add(format!("may use every tool of {id:?}")),
                    Some((_, known)) => {
                        added_patterns(known, tools).for_each(|tool| rules.add(format!("may use {tool:?} of {id:?}")));
                    }
                }
            }
        }
        (None, _) => {}
    }
    match (&before.capabilities, &after.capabilities) {
        (Some(_), None) => rules.add("no longer needs capabilities"),
        (Some(old), Some(new)) => {
            for capability in new.iter().filter(|capability| !old.contains(capability)) {
                rules.add(format!("has the capability {capability:?}"));
            }
        }
        (None, _) => {}
    }
}

fn number_text<T: ToString>(number: T) -> String {
    number.to_string()
}

#[cfg(test)]
mod tests;
