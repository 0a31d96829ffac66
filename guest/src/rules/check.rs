//! Finds probable mistakes in rules, given the tools that there are.

use super::world::{ARGUMENTS, Nothing};
use super::{
    CompiledRule, CompiledRules, MissingArgument, ResultRule, RuleError, RuleNote, RuleProblem, RuleSet, position,
};
use crate::cel::{ArgumentPath, Value};
use crate::filtering::{Globs, pattern_problem};
use crate::schema::{Document, Walk};

/// A tool that is offered: its name as `server.tool`, and its schema.
pub(crate) type OfferedTool<'a> = (String, Option<&'a Document<'static>>);

impl CompiledRules {
    /// Finds rules that match no tool, read an argument that a tool does not have, or have a constant condition. The
    /// servers whose tools are not known yet may still match.
    pub(crate) fn check(&self, tools: &[OfferedTool<'_>], unknown: &[String]) -> Vec<RuleNote> {
        let mut notes = Vec::new();
        for CompiledRule { rule, tools: globs, condition, .. } in &self.rules {
            let mut note =
                |at: usize, problem| notes.push(RuleNote { rule: rule.name.clone(), at: position(at), problem });
            for pattern in rule.tools.iter().filter(|pattern| is_unmatched(pattern, tools, unknown)) {
                note(0, RuleProblem::Unmatched(pattern.clone()));
            }
            let Some(condition) = condition else { continue };
            if condition.is_constant() {
                let value = matches!(condition.evaluate(&Nothing), Ok(Value::Bool(true)));
                note(0, RuleProblem::Constant(value));
            }
            let paths = condition.paths_of(ARGUMENTS);
            for (name, schema) in tools.iter().filter(|(name, _)| globs.find(name).is_some()) {
                for path in paths.iter().filter(|path| !path.is_tested) {
                    if let Some(argument) = schema.and_then(|schema| missing(schema, path)) {
                        let missing = MissingArgument { tool: name.clone(), argument };
                        note(path.at, RuleProblem::MissingArgument(missing));
                    }
                }
            }
        }
        let results = self.results.iter().map(|(rule, _)| rule);
        let unmatched = results.filter(|ResultRule { tools: pattern, .. }| is_unmatched(pattern, tools, unknown));
        let of_results = |ResultRule { tools: pattern, .. }: &ResultRule| RuleNote {
            rule: String::new(),
            at: 0,
            problem: RuleProblem::Unmatched(pattern.clone()),
        };
        notes.extend(unmatched.map(of_results));
        notes
    }
}

/// Refuses a rule or an entry of results whose tools are written so that it can never apply: it would leave open what it is
/// meant to restrict.
pub(crate) fn check_tools(set: &RuleSet) -> Result<(), RuleError> {
    for rule in set.lists.iter().flatten() {
        let none = rule.tools.is_empty().then(|| "names no tools; write [\"*\"] to mean all".to_owned());
        if let Some(message) = none.or_else(|| rule.tools.iter().find_map(|pattern| tools_problem(pattern))) {
            return Err(RuleError { rule: rule.name.clone(), at: 0, message });
        }
    }
    match set.results.iter().find_map(|result| tools_problem(&result.tools)) {
        Some(message) => Err(RuleError { rule: String::new(), at: 0, message }),
        None => Ok(()),
    }
}

/// Says what is wrong with a name or glob that can match no name of the form `server.tool`.
fn tools_problem(pattern: &str) -> Option<String> {
    let trimmed = pattern.trim();
    let is_full = trimmed.contains('.') || trimmed.starts_with('*') || trimmed.eq_ignore_ascii_case("any");
    pattern_problem(pattern)
        .or_else(|| (!is_full).then(|| format!("{trimmed:?} is not of the form server.tool, such as files.read_*")))
}

/// Reports whether a pattern matches no tool, and cannot match one of a server whose tools are not known.
fn is_unmatched(pattern: &String, tools: &[OfferedTool<'_>], unknown: &[String]) -> bool {
    let matches = |pattern: &String, name: &str| Globs::restricting(std::slice::from_ref(pattern)).find(name).is_some();
    let of_server = pattern.split('.').next().unwrap_or_default().to_owned();
    !tools.iter().any(|(name, _)| matches(pattern, name)) && !unknown.iter().any(|server| matches(&of_server, server))
}

/// Returns the argument that a condition reads and a schema does not have, if it is certain.
fn missing(schema: &Document<'_>, path: &ArgumentPath<'_>) -> Option<String> {
    let walk = Walk::new(schema.root());
    let mut at = walk.top();
    for (depth, name) in path.names.iter().enumerate() {
        match at.property(name) {
            Some(property) => at = property,
            None if at.lists_properties() => return Some(format!("args.{}", path.names[..=depth].join("."))),
            None => return None,
        }
    }
    None
}
