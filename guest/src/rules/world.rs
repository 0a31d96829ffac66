//! What the conditions of rules see: the variables and functions that there are beyond those of CEL.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use super::hosts::host_of;
use super::mails::likely_mails;
use super::urls::likely_urls;
use super::values::{each_sent, each_written, leaf_text, likely_accounts};
use super::{Circumstances, KnownList, KnownValue, Subject, paths};
use crate::cel::{CelCondition, CelError, Dialect, Environment, Map, Timestamp, Value, did_you_mean};
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
    /// The names of members that the tool's schema has.
    names: OnceCell<BTreeSet<String>>,
    /// The learned values that a condition asked for.
    used: RefCell<BTreeSet<KnownValue>>,
}

impl<'a> World<'a> {
    pub(super) fn new(subject: Subject<'a>, seen: &'a Circumstances, listed: &'a KnownList) -> Self {
        World { subject, seen, listed, names: OnceCell::new(), used: RefCell::default() }
    }

    /// Reports whether there are no arguments yet.
    pub(super) fn has_no_arguments(&self) -> bool {
        self.subject.arguments.is_none()
    }

    /// Returns the learned values that conditions asked for.
    pub(super) fn used(self) -> Vec<KnownValue> {
        self.used.into_inner().into_iter().collect()
    }

    /// Reports whether the agent may send all of a value. A null, a truth and an empty object are no values that anybody
    /// learns, and to some servers they mean everybody.
    fn knows_all(&self, value: &Value<'a>) -> bool {
        match value {
            Value::List(items) => items.iter().all(|item| self.knows_all(&item)),
            Value::Map(members) => {
                !members.is_empty()
                    && members.iter().all(|(key, value)| self.knows_name(members, &key) && self.knows_all(&value))
            }
            leaf => leaf_text(leaf).is_some_and(|text| self.knows(&text)),
        }
    }

    /// Reports whether the agent may send the name of a member: it is one of the tool's own, or a known value.
    fn knows_name(&self, members: &Map<'a>, name: &Value<'a>) -> bool {
        let Some(name) = name.as_str() else { return leaf_text(name).is_some_and(|text| self.knows(&text)) };
        if self.names().contains(name) || self.knows(name) {
            return true;
        }
        // If the schema has no names, the arguments themselves have those of the tool, unless they could be addresses.
        let is_argument = matches!(members, Map::Json(members) if self.subject.is_arguments(members));
        is_argument && self.names().is_empty() && !could_be_address(name)
    }

    /// Returns the names of members that the tool's schema has, wherever in it.
    fn names(&self) -> &BTreeSet<String> {
        self.names.get_or_init(|| {
            let mut names = BTreeSet::new();
            if let Some(schema) = self.subject.schema {
                collect_names(schema, &mut names);
            }
            names
        })
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
        let found = |visit_each: EachText, find: fn(&str) -> Vec<String>| {
            let mut all = Vec::new();
            visit_each(value, &mut |text| all.extend(find(text)));
            Ok(Value::list(all.into_iter().map(|text| Value::String(Cow::Owned(text)))))
        };
        match DIALECT.functions[function].0 {
            "known" => Ok(Value::Bool(self.knows_all(value))),
            "emails" => found(each_sent, likely_mails),
            "urls" => found(each_written, likely_urls),
            "accounts" => found(each_sent, likely_accounts),
            "host" => match value.as_str() {
                Some(url) => host_of(url).map(|host| Value::String(Cow::Owned(host))),
                None => Err(format!("host takes a text, found a {}", value.kind())),
            },
            _ => within(value, &arguments[1]),
        }
    }
}

/// Reports whether something in a text could be an address or an account number.
fn could_be_address(text: &str) -> bool {
    !(likely_mails(text).is_empty() && likely_urls(text).is_empty() && likely_accounts(text).is_empty())
}

/// Calls a function with each text in a value.
type EachText = fn(&Value<'_>, &mut dyn FnMut(&str));

/// Adds the names of all properties in a schema.
fn collect_names(schema: &json::Value<'_>, names: &mut BTreeSet<String>) {
    match schema {
        json::Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        json::Value::Object(members) => {
            for (keyword, value) in members.iter() {
                if keyword == "properties"
                    && let Some(properties) = value.as_object()
                {
                    names.extend(properties.iter().map(|(name, _)| name.to_owned()));
                }
                collect_names(value, names);
            }
        }
        _ => {}
    }
}

/// Returns what a tool says about itself; what it does not say is not there.
fn annotations<'a>(said: Annotations) -> Value<'a> {
    let all = [said.read_only, said.destructive, said.idempotent, said.open_world];
    Value::map(ANNOTATIONS.into_iter().zip(all).filter_map(|(name, truth)| Some((name, Value::Bool(truth?)))))
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
