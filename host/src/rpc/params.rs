//! Where the params of a request are, and the members of them that tell what the request is about.

use std::ops::Range;

use crate::json::find_members;

/// The params of a message, as ranges of its text.
#[derive(Default)]
pub(super) struct Params {
    all: Option<Range<usize>>,
    /// The members, in the order of [`NAMES`].
    members: [Option<Range<usize>>; NAMES.len()],
    problem: Option<String>,
}

impl Params {
    /// Finds the members of params that stand here.
    pub(super) fn find(text: &str, all: Option<Range<usize>>) -> Self {
        let Some(place) = all.clone().filter(|place| text[place.clone()].starts_with('{')) else {
            return Params { all, ..Params::default() };
        };
        // The ranges count from the start of the message.
        let shift = |member: Range<usize>| member.start + place.start..member.end + place.start;
        match find_members(&text[place.clone()], NAMES) {
            Ok(members) => Params { all, members: members.map(|member| member.map(shift)), problem: None },
            Err(problem) => Params { all, problem: Some(problem.to_string()), ..Params::default() },
        }
    }

    pub(super) fn all<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.all.clone().map(|place| &text[place])
    }

    pub(super) fn member<'a>(&self, text: &'a str, name: &str) -> Option<&'a str> {
        let place = self.members[NAMES.iter().position(|known| *known == name)?].clone()?;
        Some(&text[place]).filter(|value| *value != "null")
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

const NAMES: [&str; 4] = ["name", "uri", "arguments", "_meta"];
