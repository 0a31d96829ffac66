//! What the conditions of rules see: the variables and functions that there are beyond those of CEL.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use super::values::{each_sent, likely_accounts, likely_mails, likely_urls};
use super::{Circumstances, KnownList, KnownValue, Subject, paths};
use crate::cel::{CelCondition, CelError, Dialect, Environment, Timestamp, Value, did_you_mean};
use crate::json;
use crate::types::Annotations;

/// The variables and functions of conditions.
pub(super) const DIALECT: Dialect = Dialect {
    variables: &["args", "tool", "principal", "labels", "now", "client"],
    functions: &[("known", 1), ("emails", 1), ("urls", 1), ("accounts", 1), ("host", 1), ("path.within", 2)],
};
/// The number of the variable `args`.
pub(super) const ARGUMENTS: usize = 0;
/// The number of the function `known`.
pub(super) const KNOWN: usize = 0;

/// The members of variables that are maps, by the path of the map.
const MEMBERS: [(&[&str], &[&str]); 3] = [
    (&["tool"], &["server", "name", "annotations"]),
    (&["tool", "annotations"], &ANNOTATIONS),
    (&["principal"], &["name", "groups", "admin"]),
];
const ANNOTATIONS: [&str; 4] = ["readOnly", "destructive", "idempotent", "openWorld"];

/// Compiles a condition, which may read only members that there are.
pub(super) fn compile(text: &str) -> Result<CelCondition, CelError> {
    let condition = CelCondition::new(text, &DIALECT)?;
    for (number, variable) in DIALECT.variables.iter().enumerate() {
        for path in condition.paths_of(number) {
            let names: Vec<&str> = std::iter::once(*variable).chain(path.names).collect();
            for (map, members) in MEMBERS {
                if let Some((name, _)) = names.strip_prefix(map).and_then(<[&str]>::split_first)
                    && !members.contains(name)
                {
                    let (map, hint) = (map.join("."), did_you_mean(name, members.iter().copied()));
                    return Err(CelError { at: path.at, message: format!("{map} has no member {name:?}{hint}") });
                }
            }
        }
    }
    Ok(condition)
}

/// A world in which there is nothing, for conditions that use nothing.
pub(super) struct Nothing;

impl<'a> Environment<'a> for Nothing {
    fn variable(&'a self, _: usize) -> Option<Value<'a>> {
        None
    }

    fn call(&'a self, _: usize, _: &[Value<'a>]) -> Result<Value<'a>, String> {
        Err("there is nothing".to_owned())
    }
}

/// A call and what surrounds it.
pub(super) struct World<'a> {
    subject: Subject<'a>,
    seen: &'a Circumstances,
    listed: &'a KnownList,
    /// What is wrong with the names of the arguments.
    ambiguous: Option<String>,
    /// The learned values that a condition asked for.
    used: RefCell<BTreeSet<KnownValue>>,
}

impl<'a> World<'a> {
    pub(super) fn new(subject: Subject<'a>, seen: &'a Circumstances, listed: &'a KnownList) -> Self {
        let ambiguous = subject.arguments.and_then(ambiguous_argument);
        World { subject, seen, listed, ambiguous, used: RefCell::default() }
    }

    /// Returns what is wrong if two arguments have names that differ only in case.
    pub(super) fn ambiguous_argument(&self) -> Option<&str> {
        self.ambiguous.as_deref()
    }

    /// Reports whether there are no arguments yet.
    pub(super) fn has_no_arguments(&self) -> bool {
        self.subject.arguments.is_none()
    }

    /// Returns the learned values that conditions asked for.
    pub(super) fn used(self) -> Vec<KnownValue> {
        self.used.into_inner().into_iter().collect()
    }

    fn knows(&self, text: &str) -> bool {
        self.listed.has(text)
            || KnownValue::all_of(text).any(|value| {
                // There are at most 2,048, and to sort them would take longer than to look through them.
                let is_learned = self.seen.context.known.contains(&value);
                if is_learned {
                    self.used.borrow_mut().insert(value);
                }
                is_learned
            })
    }
}

impl<'a> Environment<'a> for World<'a> {
    fn variable(&'a self, variable: usize) -> Option<Value<'a>> {
        let text = |text: &'a str| Value::String(Cow::Borrowed(text));
        let list = |texts: &'a [String]| Value::list(texts.iter().map(|item| text(item)));
        let caller = &self.seen.caller;
        match DIALECT.variables[variable] {
            "args" => self.subject.arguments.map(Value::from_json),
            "tool" => Some(Value::map([
                ("server", text(self.subject.server)),
                ("name", text(self.subject.tool)),
                ("annotations", annotations(self.subject.annotations)),
            ])),
            "principal" => Some(Value::map([
                ("name", text(caller.principal.as_deref().unwrap_or_default())),
                ("groups", list(&caller.groups)),
                ("admin", Value::Bool(caller.admin)),
            ])),
            "labels" => Some(list(&self.seen.context.labels)),
            // A client that does not say its name is not known.
            "client" => (!caller.client.is_empty()).then(|| text(&caller.client)),
            _ => {
                let now = self.seen.now_ms.and_then(|now| i64::try_from(now).ok());
                now.and_then(Timestamp::from_millis).map(Value::Timestamp)
            }
        }
    }

    fn call(&'a self, function: usize, arguments: &[Value<'a>]) -> Result<Value<'a>, String> {
        let value = &arguments[0];
        let found = |find: fn(&str) -> Vec<String>| {
            let mut all = Vec::new();
            each_sent(value, &mut |text| all.extend(find(text)));
            Ok(Value::list(all.into_iter().map(|text| Value::String(Cow::Owned(text)))))
        };
        match DIALECT.functions[function].0 {
            "known" => {
                let mut are_known = true;
                each_sent(value, &mut |text| are_known &= self.knows(text));
                Ok(Value::Bool(are_known))
            }
            "emails" => found(likely_mails),
            "urls" => found(likely_urls),
            "accounts" => found(likely_accounts),
            "host" => host(value),
            _ => within(value, &arguments[1]),
        }
    }
}

/// Says what is wrong if two arguments have names that differ only in case: some servers take one, some the other.
fn ambiguous_argument(arguments: &json::Value<'_>) -> Option<String> {
    // Most names are small letters, and no name is there twice.
    let is_small = |name: &str| name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if arguments.as_object()?.iter().all(|(name, _)| is_small(name)) {
        return None;
    }
    let mut names = BTreeSet::new();
    let twice = arguments.as_object()?.iter().map(|(name, _)| name).find(|name| !names.insert(name.to_lowercase()))?;
    Some(format!("there are two arguments that differ from {twice:?} only in case"))
}

/// Returns what a tool says about itself; what it does not say is not there.
fn annotations<'a>(said: Annotations) -> Value<'a> {
    let all = [said.read_only, said.destructive, said.idempotent, said.open_world];
    Value::map(ANNOTATIONS.into_iter().zip(all).filter_map(|(name, truth)| Some((name, Value::Bool(truth?)))))
}

/// Returns the host of a URL, in lower case; fails if programs could disagree on it.
fn host<'a>(url: &Value<'a>) -> Result<Value<'a>, String> {
    let text = url.as_str().ok_or_else(|| format!("host takes a text, found a {}", url.kind()))?;
    let odd = || "host takes a URL with a scheme and a plain host".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(odd)?;
    let is_scheme = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && scheme.chars().all(|sign| sign.is_ascii_alphanumeric() || "+.-".contains(sign));
    let is_odd = text.contains('\\') || text.chars().any(|sign| sign.is_control() || sign.is_whitespace());
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (name, port) = match authority.rfind(':') {
        Some(colon) if !authority.ends_with(']') => (&authority[..colon], &authority[colon + 1..]),
        _ => (authority, ""),
    };
    let is_address = |name: &str| {
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        inner.is_some_and(|inner| inner.chars().all(|sign| sign.is_ascii_hexdigit() || ":.".contains(sign)))
    };
    let is_name = |name: &str| {
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || ".-_".contains(sign);
        !name.is_empty() && !name.ends_with('.') && name.chars().all(is_sign)
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    match is_scheme && !is_odd && is_port && (is_name(name) || is_address(name)) {
        true => Ok(Value::String(Cow::Owned(name.to_lowercase()))),
        false => Err(odd()),
    }
}

/// Reports whether a path, or each of a list of paths, is inside a folder.
fn within<'a>(value: &Value<'a>, folder: &Value<'a>) -> Result<Value<'a>, String> {
    let folder = folder.as_str().ok_or("path.within takes a folder as text")?;
    let uncertain = |path: &str| format!("{path:?} means different paths to different programs");
    let is_within = |path: &Value<'_>| match path.as_str() {
        Some(path) => paths::is_within(path, folder).ok_or_else(|| uncertain(path)),
        None => Err(format!("path.within takes a path as text, found a {}", path.kind())),
    };
    let are_within = match value {
        Value::List(items) => {
            let each: Result<Vec<bool>, String> = items.iter().map(|item| is_within(&item)).collect();
            each?.into_iter().all(|is_within| is_within)
        }
        path => is_within(path)?,
    };
    Ok(Value::Bool(are_within))
}
