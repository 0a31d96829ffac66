//! What to mask, as the settings say it, and why that may not be valid.

/// What to mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// The names of built-in groups.
    pub groups: Vec<String>,
    /// The names of built-in patterns.
    pub patterns: Vec<String>,
    /// Custom patterns.
    pub custom: Vec<CustomMask>,
}

/// A custom pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomMask {
    /// A regular expression; if it has a group named `value`, only that group is replaced.
    pub pattern: String,
    /// The replacement, taken literally.
    pub replacement: String,
}

/// The reason why masks are not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskError {
    /// There is no such group.
    UnknownGroup(UnknownName),
    /// There is no such pattern.
    UnknownPattern(UnknownName),
    /// A custom pattern does not compile, or matches the empty text.
    BadPattern(BadPattern),
}

/// A group or pattern name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The name as given.
    pub name: String,
    /// The names that exist.
    pub known: Vec<String>,
}

impl UnknownName {
    pub(super) fn new(name: &str, known: Vec<&str>) -> Self {
        UnknownName { name: name.to_owned(), known: known.into_iter().map(str::to_owned).collect() }
    }
}

/// A pattern that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with the pattern.
    pub reason: String,
}
