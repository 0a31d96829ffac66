//! Where the params of a request are, and the members of them that tell what the request is about.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::scan;

/// The params of a message, as ranges of its text.
#[derive(Default)]
pub(super) struct Params {
    all: Option<Range<usize>>,
    members: Members,
    problem: Option<String>,
}

#[derive(Default)]
struct Members {
    name: Option<Range<usize>>,
    uri: Option<Range<usize>>,
    arguments: Option<Range<usize>>,
    meta: Option<Range<usize>>,
}

impl Params {
    /// Finds the members of params that stand here.
    pub(super) fn find(text: &str, all: Option<Range<usize>>) -> Self {
        let Some(place) = all.clone().filter(|place| text[place.clone()].starts_with('{')) else {
            return Params { all, ..Params::default() };
        };
        let start = place.start;
        let found = match Members::scan(&text[place.clone()]) {
            Some(members) => Ok(members),
            None => Members::parse(&text[place]),
        };
        match found {
            Ok(members) => Params { all, members: members.shifted(start), problem: None },
            Err(problem) => Params { all, members: Members::default(), problem: Some(problem) },
        }
    }

    pub(super) fn all<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.all.clone().map(|place| &text[place])
    }

    pub(super) fn meta<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.members.meta.clone().map(|place| &text[place])
    }

    pub(super) fn member<'a>(&self, text: &'a str, name: &str) -> Option<&'a str> {
        let place = match name {
            "name" => &self.members.name,
            "uri" => &self.members.uri,
            "arguments" => &self.members.arguments,
            _ => &None,
        };
        place.clone().map(|place| &text[place]).filter(|value| *value != "null")
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

impl Members {
    /// Finds them in an object that is written plainly.
    fn scan(object: &str) -> Option<Self> {
        let mut members = Members::default();
        scan::members(object, |name, place| {
            let member = match name {
                "name" => &mut members.name,
                "uri" => &mut members.uri,
                "arguments" => &mut members.arguments,
                "_meta" => &mut members.meta,
                _ => return true,
            };
            member.replace(place).is_none()
        })?;
        Some(members)
    }

    fn parse(object: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow, default)]
            name: Option<&'a RawValue>,
            #[serde(borrow, default)]
            uri: Option<&'a RawValue>,
            #[serde(borrow, default)]
            arguments: Option<&'a RawValue>,
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        let named: Named = serde_json::from_str(object).map_err(|error| error.to_string())?;
        let place = |value: Option<&RawValue>| value.map(|value| range_within(object, value.get()));
        let (name, uri, arguments) = (place(named.name), place(named.uri), place(named.arguments));
        Ok(Members { name, uri, arguments, meta: place(named.meta) })
    }

    /// Moves the ranges, so that they count from the start of the message.
    fn shifted(self, by: usize) -> Self {
        let shift = |place: Option<Range<usize>>| place.map(|place| place.start + by..place.end + by);
        Members {
            name: shift(self.name),
            uri: shift(self.uri),
            arguments: shift(self.arguments),
            meta: shift(self.meta),
        }
    }
}

/// Returns the range of a part of a text.
pub(super) fn range_within(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}
