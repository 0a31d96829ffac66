//! Rules that see arguments, people and what happened before, as written in the file.

use std::time::Duration;

use super::FilePosition;
use crate::logic::types::rules::{ResultRule, Rule, RuleError};

/// A rule, and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleConfig {
    /// The rule; the tools of a server's own rules lack the server.
    pub rule: Rule,
    /// The position of the rule.
    pub place: FilePosition,
    /// The position of its condition.
    pub condition: Option<ConditionPlace>,
}

/// The position of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionPlace {
    /// The position where its value begins.
    pub place: FilePosition,
    /// The number of characters before its text, if that is written on one line without escapes.
    pub quotes: Option<u32>,
}

impl RuleConfig {
    /// Returns the position of a byte of the condition, as closely as the file says.
    pub fn position_of(&self, at: u32) -> FilePosition {
        let (Some(condition), Some(text)) = (&self.condition, &self.rule.condition) else { return self.place.clone() };
        let Some(quotes) = condition.quotes else { return condition.place.clone() };
        let at = text.floor_char_boundary(at as usize);
        let before = u32::try_from(text[..at].chars().count()).unwrap_or(u32::MAX);
        let column = condition.place.column.saturating_add(quotes).saturating_add(before);
        FilePosition { column, ..condition.place.clone() }
    }

    /// Reports whether an error is about this rule.
    pub fn is_meant_by(&self, error: &RuleError) -> bool {
        self.rule.name == error.rule
    }
}

/// What the results of some tools mean, and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultConfig {
    /// What they mean.
    pub rule: ResultRule,
    /// The position of the entry.
    pub place: FilePosition,
}

/// Whose calls share what has been seen, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextRules {
    /// Whose calls share what has been seen.
    pub scope: ContextScope,
    /// How long it is remembered after the last call.
    pub idle: Duration,
}

impl Default for ContextRules {
    fn default() -> Self {
        ContextRules { scope: ContextScope::default(), idle: Duration::from_secs(30 * 60) }
    }
}

/// Whose calls share what has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextScope {
    /// All calls of a principal; on standard input and output, all calls of the process.
    #[default]
    Principal,
    /// The calls of a client session.
    Session,
    /// The calls with one trace id, of clients that keep one for each conversation.
    Trace,
}
