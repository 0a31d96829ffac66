//! One way in which a decision differs from a recorded one.

/// The ways in which a decision can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// The call was let through, and is refused now.
    Denied,
    /// The call was refused, and is let through now.
    Allowed,
    /// A person must approve the call now, or no longer needs to.
    Approval,
    /// The call goes to a different tool.
    Rerouted,
    /// The arguments are read differently.
    Arguments,
    /// Other parts of the result are masked.
    Masking,
    /// After a failure, the call continues differently.
    Retry,
    /// The result was passed through unread and is read now; it was not kept, so what would be masked is unknown.
    Unread,
    /// The call ends differently.
    Result,
    /// The call ends the same, for other reasons.
    Trace,
}

impl DifferenceKind {
    /// All kinds, most serious first, each with its name and its title.
    pub const ALL: [(DifferenceKind, &'static str, &'static str); 10] = [
        (DifferenceKind::Denied, "denied", "newly denied"),
        (DifferenceKind::Allowed, "allowed", "newly allowed"),
        (DifferenceKind::Approval, "asked", "approval differs"),
        (DifferenceKind::Rerouted, "rerouted", "re-routed"),
        (DifferenceKind::Arguments, "arguments", "arguments read differently"),
        (DifferenceKind::Masking, "masking", "masked differently"),
        (DifferenceKind::Retry, "retry", "retried differently"),
        (DifferenceKind::Unread, "unread", "result now read"),
        (DifferenceKind::Result, "result", "ends differently"),
        (DifferenceKind::Trace, "trace", "other reasons"),
    ];

    /// Returns the name of the kind on the command line and in JSON.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the name of the kind for people.
    pub fn title(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// Returns the kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }
}

/// One way in which a decision differs, with both sides in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of the difference.
    pub kind: DifferenceKind,
    /// The rule that decided, or what differs, without any quote from arguments or answers; the two sides may quote
    /// them.
    pub rule: String,
    /// The recorded decision.
    pub was: String,
    /// The decision now.
    pub now: String,
}

impl Difference {
    pub(super) fn new(kind: DifferenceKind, rule: &str, was: impl Into<String>, now: impl Into<String>) -> Self {
        Difference { kind, rule: rule.to_owned(), was: was.into(), now: now.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_their_names() {
        for (at, (kind, name, title)) in DifferenceKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.name(), kind.title()), (at, name, title));
            assert_eq!(DifferenceKind::parse(name), Some(kind));
        }
        assert_eq!(DifferenceKind::parse("other"), None);
    }
}
