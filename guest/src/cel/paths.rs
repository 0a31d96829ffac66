//! What a condition reads: variables, functions, and the members of variables.

use super::tree::{Comprehension, Expression, Kind};

/// A member of a variable that a condition reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentPath<'a> {
    /// The byte of the condition at which the last name stands.
    pub at: usize,
    /// The names of the members, outermost first.
    pub names: Vec<&'a str>,
    /// Whether the condition only asks if the member is there.
    pub is_tested: bool,
}

/// Reports whether some part of a condition passes a test.
pub(super) fn uses(node: &Expression, test: &dyn Fn(&Kind) -> bool) -> bool {
    let mut found = test(&node.kind);
    each_child(node, &mut |child| found = found || uses(child, test));
    found
}

/// Returns the members of a variable that a condition reads, each as far as names go.
pub(super) fn of(node: &Expression, variable: usize) -> Vec<ArgumentPath<'_>> {
    let mut paths = Vec::new();
    collect(node, variable, &mut paths);
    paths
}

fn collect<'a>(node: &'a Expression, variable: usize, paths: &mut Vec<ArgumentPath<'a>>) {
    if let Some(names) = names(node, variable) {
        if !names.is_empty() {
            paths.push(ArgumentPath { at: node.at, names, is_tested: matches!(node.kind, Kind::Has(..)) });
        }
        return;
    }
    each_child(node, &mut |child| collect(child, variable, paths));
}

/// Returns the names behind a variable, if a part of a condition is the variable or a member of it.
fn names(node: &Expression, variable: usize) -> Option<Vec<&str>> {
    match &node.kind {
        Kind::Variable(used) => (*used == variable).then(Vec::new),
        Kind::Select(value, name) | Kind::Has(value, name) => {
            let mut names = names(value, variable)?;
            names.push(name);
            Some(names)
        }
        Kind::Index(value, index) => match &index.kind {
            Kind::String(name) => {
                let mut names = names(value, variable)?;
                names.push(name);
                Some(names)
            }
            _ => None,
        },
        _ => None,
    }
}

fn each_child<'a>(node: &'a Expression, visit: &mut dyn FnMut(&'a Expression)) {
    match &node.kind {
        Kind::Null
        | Kind::Bool(_)
        | Kind::Int(_)
        | Kind::Double(_)
        | Kind::String(_)
        | Kind::Type(_)
        | Kind::Variable(_)
        | Kind::Local(_) => {}
        Kind::List(items) | Kind::And(items) | Kind::Or(items) | Kind::Call(_, items) | Kind::Foreign(_, items) => {
            items.iter().for_each(visit)
        }
        Kind::Map(members) => members.iter().for_each(|(key, value)| {
            visit(key);
            visit(value);
        }),
        Kind::Select(value, _)
        | Kind::Has(value, _)
        | Kind::Not(value)
        | Kind::Negate(value)
        | Kind::Matches(value, _) => {
            visit(value);
        }
        Kind::Index(value, index) => {
            visit(value);
            visit(index);
        }
        Kind::Choose(parts) => parts.iter().for_each(visit),
        Kind::Binary(_, sides) => sides.iter().for_each(visit),
        Kind::Macro(_, parts) => {
            let Comprehension { range, condition, value } = &**parts;
            visit(range);
            condition.iter().for_each(&mut *visit);
            value.iter().for_each(visit);
        }
    }
}
