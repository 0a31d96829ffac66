//! Conditions in the Common Expression Language (CEL), or rather in a part of it: without types of its own, unsigned
//! numbers, bytes and messages. A condition is compiled once, and evaluated with a bounded cost.
//!
//! `docs/src/rules.md` says what there is. Where both know an expression, this and CEL agree on its value.

mod evaluate;
mod functions;
mod lexer;
mod parser;
mod paths;
mod re2;
mod time;
mod tree;
mod value;

pub use evaluate::{Environment, NoValue};
pub(crate) use parser::did_you_mean;
pub use paths::ArgumentPath;
pub use time::{Duration, Timestamp};
pub use value::{List, Map, Value};

use tree::Expression;

/// The variables and functions that conditions have beyond those of CEL.
#[derive(Debug)]
pub struct Dialect {
    /// The names of the variables.
    pub variables: &'static [&'static str],
    /// The names of the functions, which may contain one point, and how many arguments each takes.
    pub functions: &'static [(&'static str, usize)],
}

/// The reason why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CelError {
    /// The byte at which it goes wrong.
    pub at: usize,
    /// What is wrong there, and how to mend it if that is known.
    pub message: String,
}

/// A compiled condition.
#[derive(Debug)]
pub struct CelCondition {
    root: Expression,
}

impl CelCondition {
    /// Compiles a condition.
    pub fn new(text: &str, dialect: &Dialect) -> Result<Self, CelError> {
        Ok(CelCondition { root: parser::parse(text, dialect)? })
    }

    /// Evaluates the condition.
    pub fn evaluate<'a>(&'a self, environment: &'a dyn Environment<'a>) -> Result<Value<'a>, NoValue> {
        evaluate::evaluate(&self.root, environment)
    }

    /// Reports whether the condition uses a foreign function, by its number.
    pub fn calls(&self, function: usize) -> bool {
        paths::uses(&self.root, &|kind| matches!(kind, tree::Kind::Foreign(used, _) if *used == function))
    }

    /// Reports whether the condition has the same value for every call.
    pub fn is_constant(&self) -> bool {
        !paths::uses(&self.root, &|kind| matches!(kind, tree::Kind::Variable(_) | tree::Kind::Foreign(..)))
    }

    /// Returns the members of a variable that the condition reads, such as `path` of `args.path`.
    pub fn paths_of(&self, variable: usize) -> Vec<ArgumentPath<'_>> {
        paths::of(&self.root, variable)
    }
}

#[cfg(test)]
mod tests;
