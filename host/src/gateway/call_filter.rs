//! Which finished calls somebody wants to see.

use std::time::{Duration, SystemTime};

use super::recent::RecentCall;
use crate::calendar::{self, Utc};
use crate::logic::types::ToolRef;
use crate::logic::types::execution::Code;
use crate::words::NamedCase;

/// Selects finished calls; without any condition, all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Only calls that ended at this time or later.
    pub since: Option<SystemTime>,
    /// Only calls that ended at this time or earlier, in whole milliseconds, as the API writes times.
    pub until: Option<SystemTime>,
    /// Only calls of tools of this server.
    pub server: Option<String>,
    /// Only calls of this tool: any form of its name, in which `*` stands for any text.
    pub tool: Option<String>,
    /// Only calls of this principal.
    pub principal: Option<String>,
    /// Only calls that ended with this code.
    pub code: Option<Code>,
}

impl CallFilter {
    /// The names of the parameters that select calls in the API.
    pub const PARAMETERS: [&str; 6] = ["since", "until", "server", "tool", "principal", "code"];

    /// Sets the condition of a parameter of the API, and reports whether it was set before.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let text = value.to_owned();
        let time = || {
            let wrong = || format!("{name} must be a date or time such as 2026-11-15T17:30:00Z, not {value:?}");
            calendar::parse(value).ok_or_else(wrong)
        };
        Ok(match name {
            "since" => self.since.replace(time()?).is_some(),
            "until" => self.until.replace(time()?).is_some(),
            "server" => self.server.replace(text).is_some(),
            "tool" => self.tool.replace(text).is_some(),
            "principal" => self.principal.replace(text).is_some(),
            _ => self.code.replace(Code::parse(value)?).is_some(),
        })
    }

    /// Returns the parameters of the API that select the same calls.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let values = [
            self.since.map(|since| Utc::from(since).to_string()),
            self.until.map(|until| Utc::from(until).to_string()),
            self.server.clone(),
            self.tool.clone(),
            self.principal.clone(),
            self.code.map(|code| code.name().to_owned()),
        ];
        Self::PARAMETERS.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
    }

    /// Reports whether a call is wanted.
    pub fn matches(&self, call: &RecentCall) -> bool {
        let server = call.tool.as_ref().map(|tool| &tool.server);
        self.since.is_none_or(|since| call.at >= since)
            && self.until.is_none_or(|until| call.at < until + MILLISECOND)
            && self.server.as_ref().is_none_or(|wanted| server == Some(wanted))
            && self.tool.as_ref().is_none_or(|wanted| is_called(call, wanted))
            && self.principal.as_ref().is_none_or(|wanted| call.principal == *wanted)
            && self.code.is_none_or(|wanted| call.code == wanted)
    }
}

/// Reports whether a call is of the tool with this name, in any form, or of a tool whose name the client wrote so.
fn is_called(call: &RecentCall, wanted: &str) -> bool {
    let wanted = wanted.to_lowercase();
    let forms = call.tool.iter().flat_map(|ToolRef { server, tool }| {
        [tool.clone(), format!("{server}.{tool}"), format!("{server}__{tool}"), format!("mcp__{server}__{tool}")]
    });
    forms.chain([call.name.clone()]).any(|form| is_like(&wanted, &form.to_lowercase()))
}

/// Reports whether a text is like a pattern in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place of each part leaves the most text for the others.
    for part in middle.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

/// How exact the times of the API are.
const MILLISECOND: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn filter(conditions: &[(&str, &str)]) -> CallFilter {
        let mut filter = CallFilter::default();
        conditions.iter().for_each(|(name, value)| assert!(!filter.set(name, value).unwrap()));
        filter
    }

    #[test]
    fn a_filter_lets_calls_through_that_meet_all_conditions() {
        let call = RecentCall {
            id: "1".to_owned(),
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(100_000_900),
            principal: "ann".to_owned(),
            name: "mcp__files__read".to_owned(),
            tool: Some(ToolRef { server: "files".to_owned(), tool: "read_file".to_owned() }),
            code: Code::Timeout,
            attempts: 1,
            latency: Duration::ZERO,
            trace: Vec::new(),
        };
        for (conditions, expected) in [
            (&[][..], true),
            (&[("server", "files"), ("principal", "ann"), ("code", "timeout")], true),
            (&[("server", "file")], false),
            (&[("principal", "Ann")], false),
            (&[("code", "ok")], false),
            (&[("since", "1970-01-01T00:01:40Z")], true),
            (&[("since", "1970-01-01T00:01:41Z")], false),
            (&[("until", "1970-01-01T00:01:40Z")], true),
            (&[("until", "1970-01-01T00:01:39.999Z")], false),
            (&[("tool", "read_file")], true),
            (&[("tool", "Files.Read_File")], true),
            (&[("tool", "files__read_file")], true),
            (&[("tool", "mcp__files__read")], true),
            (&[("tool", "read")], false),
            (&[("tool", "read*")], true),
            (&[("tool", "*.read*e")], true),
            (&[("tool", "read*x")], false),
            (&[("tool", "read_*_file")], false),
            (&[("tool", "*read*_*file*")], true),
            (&[("tool", "read_file"), ("code", "ok")], false),
        ] {
            let filter = filter(conditions);
            assert_eq!(filter.matches(&call), expected, "{conditions:?}");
            let again: Vec<_> = filter.parameters().collect();
            let again: Vec<_> = again.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(self::filter(&again), filter);
        }
    }

    #[test]
    fn a_pattern_that_fits_in_many_ways_takes_no_longer() {
        let (pattern, text) = ("*a".repeat(1000) + "*b", "a".repeat(100_000));
        assert!(!is_like(&pattern, &text));
        assert!(is_like(&pattern, &(text + "b")));
    }

    #[test]
    fn a_condition_that_means_nothing_is_refused() {
        for (name, value) in [("since", "yesterday"), ("until", "now"), ("code", "bad")] {
            assert!(CallFilter::default().set(name, value).unwrap_err().contains(value));
        }
    }
}
