//! Rules that see the arguments of a call, who makes it, and what happened before it.
//!
//! Nothing is remembered here: what an agent has seen comes with each call, and what it sees by the call goes back to
//! the host.

mod brought;
mod check;
mod hosts;
mod known;
mod lesson;
mod mails;
mod paths;
mod urls;
mod values;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cel::{CelCondition, CelError, NoValue, Value};
use crate::filtering::Globs;
use crate::json;
use crate::types::{Annotations, Trace, TraceNote};
pub(crate) use check::check_tools;
use known::KnownList;
pub use known::KnownValue;
pub(crate) use lesson::Lesson;
use world::World;

/// What a rule does with a call that it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call is refused.
    Deny,
    /// A person must approve the call.
    Ask,
    /// No rule after this one in its list is looked at.
    Allow,
    /// The agent gets these labels if the call is sent.
    Label(Vec<String>),
}

/// How many calls may fit a rule in a time before it has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimit {
    /// The number of calls.
    pub calls: u32,
    /// The time in milliseconds.
    pub per_ms: u64,
    /// Whose calls are counted together.
    pub by: LimitScope,
}

/// Whose calls are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// Those of each principal.
    Principal,
    /// Those of everybody.
    Everybody,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name, for traces and messages.
    pub name: String,
    /// The tools that it is for: names and globs of the form `server.tool`.
    pub tools: Vec<String>,
    /// The condition on a call, in CEL; without one, the rule fits every call.
    pub condition: Option<String>,
    /// What happens to a call that fits.
    pub effect: Effect,
    /// The number of calls that may fit before the rule has its effect; `None` means none.
    pub limit: Option<CallLimit>,
    /// The reason, for the model and the log.
    pub because: Option<String>,
}

/// What the results of some tools mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRule {
    /// The tools: a name or a glob of the form `server.tool`.
    pub tools: String,
    /// The labels that an agent gets by a result.
    pub labels: Vec<String>,
    /// Whether an agent may use all values of a result.
    pub trusted: bool,
    /// The members of a result whose values an agent may use, as paths such as `owner.mail`; lists are passed through.
    pub trusted_fields: Vec<String>,
}

/// All rules of a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// Lists of rules, each looked at in order, up to a rule that allows the call.
    pub lists: Vec<Vec<Rule>>,
    /// What results mean.
    pub results: Vec<ResultRule>,
    /// Values that every agent knows: whole ones, domains as `@example.com`, and URLs up to a slash.
    pub known: Vec<String>,
}

/// The reason why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The name of the rule; empty for an entry of `results`.
    pub rule: String,
    /// The byte of its condition at which it goes wrong; zero if its tools are wrong.
    pub at: u32,
    /// What is wrong there.
    pub message: String,
}

/// Who makes a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The principal, if there is one.
    pub principal: Option<String>,
    /// The groups of its token.
    pub groups: Vec<String>,
    /// Whether it is an administrator.
    pub admin: bool,
    /// The name of the client program.
    pub client: String,
}

/// What an agent has seen, and what it may send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentContext {
    /// The labels of what it has seen.
    pub labels: Vec<String>,
    /// The values that it knows, the least recently used first.
    pub known: Vec<KnownValue>,
}

impl AgentContext {
    /// Adds what a call taught: a value that was known moves to the end, and the least recently used ones go first.
    pub fn add(&mut self, learned: &AgentContext) {
        let new = learned.labels.iter().filter(|label| !self.labels.contains(label)).cloned().collect::<Vec<_>>();
        self.labels.extend(new);
        self.known.retain(|value| !learned.known.contains(value));
        self.known.extend(&learned.known);
        let surplus = self.known.len().saturating_sub(MAX_KNOWN);
        self.known.drain(..surplus);
    }
}

/// The maximum number of known values of an agent: 64 KiB of them, as they are recorded.
const MAX_KNOWN: usize = 2048;

/// What surrounds a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Who makes it.
    pub caller: Caller,
    /// The time, in milliseconds since 1970.
    pub now_ms: Option<u64>,
    /// What the agent has seen before.
    pub context: AgentContext,
}

/// How often calls fitted a rule with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// The number of calls in the time of the limit, with this one.
    pub calls: u32,
    /// When that time ends, in milliseconds from now.
    pub ends_in_ms: u64,
}

/// What rules do with calls of a tool before there are arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The rule that refuses every call, if one does.
    pub denied: Option<String>,
    /// The rule by which a person must approve every call, if one asks for that.
    pub asked: Option<String>,
    /// The rules that restrict some calls.
    pub depends: Vec<String>,
    /// Which rules were looked at, and why each fits or does not.
    pub trace: Trace,
}

/// An argument that a condition reads and a tool does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingArgument {
    /// The tool, as `server.tool`.
    pub tool: String,
    /// The argument, as `args.name`.
    pub argument: String,
}

/// Something about a rule that is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleProblem {
    /// No tool has a name that this pattern of its matches.
    Unmatched(String),
    /// Its condition reads an argument that one of its tools does not have.
    MissingArgument(MissingArgument),
    /// Its condition has this value for every call.
    Constant(bool),
}

/// A probable mistake in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleNote {
    /// The name of the rule; empty for an entry of `results`.
    pub rule: String,
    /// The byte of its condition at which the mistake is.
    pub at: u32,
    /// What is wrong.
    pub problem: RuleProblem,
}

/// Returns what an agent knows that may send these texts.
pub fn known_values(texts: &[String]) -> Vec<KnownValue> {
    texts.iter().flat_map(|text| KnownValue::all_of(text)).collect()
}

/// A call that rules are asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The id of the server.
    pub server: &'a str,
    /// The name of the tool.
    pub tool: &'a str,
    /// What is known about the tool.
    pub annotations: Annotations,
    /// The arguments; `None` before there are any, for lists of tools.
    pub arguments: Option<&'a json::Value<'a>>,
    /// The schema of the arguments, if the tool has one.
    pub schema: Option<&'a json::Value<'a>>,
}

impl Subject<'_> {
    /// Reports whether these members are the arguments themselves, and not an object within them.
    fn is_arguments(&self, members: &json::Object<'_>) -> bool {
        let arguments = self.arguments.and_then(json::Value::as_object);
        arguments.is_some_and(|arguments| std::ptr::eq(arguments, members))
    }
}

/// What rules say about a call.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// What happens to the call, and by which rule; `None` if no rule denies it or asks.
    pub ruling: Option<Ruling>,
    /// The rules with a limit that fit, each to be counted.
    pub limits: Vec<usize>,
    /// The labels that the agent gets if the call is sent.
    pub labels: Vec<String>,
    /// The rules that may restrict the call, which depends on arguments that are not known yet.
    pub depends: Vec<usize>,
    /// The values that the agent had learned and that this call uses.
    pub used: Vec<KnownValue>,
}

/// What a rule says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ruling {
    /// Whether the call is refused; if not, a person must approve it.
    pub denies: bool,
    /// The number of the rule.
    pub rule: usize,
    /// Why its condition has no value, if it has none.
    pub failure: Option<String>,
}

/// Compiled rules.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    rules: Vec<CompiledRule>,
    results: Vec<(ResultRule, Globs)>,
    known: KnownList,
    /// Whether a condition asks for known values, so that all calls teach some.
    teaches: bool,
    /// What concerns each tool that was called.
    by_tool: RefCell<BTreeMap<String, Rc<ToolConcerns>>>,
}

#[derive(Debug)]
struct CompiledRule {
    rule: Rule,
    /// The number of its list.
    list: usize,
    tools: Globs,
    condition: Option<CelCondition>,
    /// Whether the condition asks for known values.
    asks_for_known: bool,
}

/// What concerns one tool.
#[derive(Debug)]
pub(crate) struct ToolConcerns {
    /// The rules that are for it.
    rules: Vec<usize>,
    /// Whether one of them asks for the values that the agent knows.
    pub known: bool,
    /// The entries that say what its results mean. Their labels add up.
    results: Vec<usize>,
    /// The entry that says what is trusted: the one with its name, or else the one with the longest glob.
    closest: Option<usize>,
}

/// What the condition of a rule says about a call.
enum Fit {
    Yes(Option<String>),
    No,
    /// It depends on arguments that are not known yet.
    Depends,
}

impl CompiledRules {
    /// Compiles rules.
    pub(crate) fn new(set: &RuleSet) -> Result<Self, RuleError> {
        let compile = |(list, rule): (usize, &Rule)| {
            let condition = rule.condition.as_deref().map(world::compile).transpose();
            let condition = condition.map_err(|CelError { at, message }| RuleError {
                rule: rule.name.clone(),
                at: position(at),
                message,
            })?;
            let has = |test: fn(&CelCondition) -> bool| condition.as_ref().is_some_and(test);
            Ok(CompiledRule {
                rule: rule.clone(),
                list,
                tools: Globs::restricting(&rule.tools),
                asks_for_known: has(|condition| condition.calls(world::KNOWN)),
                condition,
            })
        };
        let numbered =
            set.lists.iter().enumerate().flat_map(|(list, rules)| rules.iter().map(move |rule| (list, rule)));
        let rules: Vec<CompiledRule> = numbered.map(compile).collect::<Result<_, _>>()?;
        let globs = |rule: &ResultRule| Globs::restricting(std::slice::from_ref(&rule.tools));
        Ok(CompiledRules {
            teaches: rules.iter().any(|rule| rule.asks_for_known),
            rules,
            results: set.results.iter().map(|rule| (rule.clone(), globs(rule))).collect(),
            known: KnownList::new(&set.known),
            by_tool: RefCell::default(),
        })
    }

    /// Returns what is needed to decide about calls of a tool and to learn by them; `None` if there is nothing to do.
    pub(crate) fn concern(&self, server: &str, tool: &str) -> Option<Rc<ToolConcerns>> {
        if self.rules.is_empty() && self.results.is_empty() {
            return None;
        }
        let concerns = self.concerns(server, tool);
        (self.teaches || !concerns.rules.is_empty() || !concerns.results.is_empty()).then_some(concerns)
    }

    /// Reports whether there are rules that may hide tools.
    pub(crate) fn restricts(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns a rule by its number.
    pub(crate) fn rule(&self, number: usize) -> &Rule {
        &self.rules[number].rule
    }

    /// Looks at the rules that concern a call: in each list up to one that allows it.
    pub(crate) fn judge(
        &self,
        concerns: &ToolConcerns,
        subject: Subject<'_>,
        seen: &Circumstances,
        notes: &mut Vec<TraceNote>,
    ) -> Judgement {
        let world = World::new(subject, seen, &self.known);
        let mut judgement = Judgement::default();
        // The list that was left by a rule that allows the call, and the one that may have been.
        let (mut left, mut perhaps_left) = (None, None);
        for &number in &concerns.rules {
            let compiled = &self.rules[number];
            let list = Some(compiled.list);
            if left == list {
                continue;
            }
            let Rule { effect, limit, .. } = &compiled.rule;
            match compiled.fits(&world, notes) {
                Fit::No => {}
                Fit::Depends if *effect == Effect::Allow => perhaps_left = list,
                Fit::Yes(_) if *effect == Effect::Allow && limit.is_none() => match perhaps_left == list {
                    true => {}
                    false => left = list,
                },
                Fit::Depends => judgement.depends.push(number),
                Fit::Yes(_) if perhaps_left == list => judgement.depends.push(number),
                Fit::Yes(_) if limit.is_some() => judgement.limits.push(number),
                Fit::Yes(failure) => judgement.take(number, effect, failure),
            }
        }
        judgement.used = world.used();
        judgement
    }

    /// Says what rules do with calls of a tool before there are arguments.
    pub(crate) fn foresee(&self, subject: Subject<'_>, seen: &Circumstances) -> Outlook {
        let mut notes = Vec::new();
        let concerns = self.concerns(subject.server, subject.tool);
        let Judgement { ruling, limits, depends, .. } = self.judge(&concerns, subject, seen, &mut notes);
        let name = |number: usize| self.rule(number).name.clone();
        let by =
            |denies: bool| ruling.as_ref().filter(|ruling| ruling.denies == denies).map(|ruling| name(ruling.rule));
        let restricts = |number: &usize| !matches!(self.rule(*number).effect, Effect::Label(_));
        Outlook {
            denied: by(true),
            asked: by(false),
            depends: depends.into_iter().chain(limits).filter(restricts).map(name).collect(),
            trace: notes.into_iter().map(TraceNote::into_owned).collect(),
        }
    }

    fn concerns(&self, server: &str, tool: &str) -> Rc<ToolConcerns> {
        let name = format!("{server}.{tool}");
        if let Some(concerns) = self.by_tool.borrow().get(&name) {
            return Rc::clone(concerns);
        }
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.tools.find(&name).is_some());
        let rules: Vec<usize> = rules.map(|(number, _)| number).collect();
        let known = rules.iter().any(|number| self.rules[*number].asks_for_known);
        let results = self.results.iter().enumerate().filter(|(_, (_, globs))| globs.find(&name).is_some());
        let results: Vec<usize> = results.map(|(number, _)| number).collect();
        let closest = results.iter().copied().max_by_key(|number| {
            let pattern = &self.results[*number].0.tools;
            (is_name(pattern), pattern.len())
        });
        let concerns = Rc::new(ToolConcerns { rules, known, results, closest });
        self.by_tool.borrow_mut().insert(name, Rc::clone(&concerns));
        concerns
    }
}

/// Reports whether a pattern is the name of one tool.
fn is_name(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl Judgement {
    /// Notes what a rule does: the first one that denies counts, or else the first one that asks.
    fn take(&mut self, rule: usize, effect: &Effect, failure: Option<String>) {
        let denies = match effect {
            Effect::Allow => return,
            Effect::Label(labels) => return self.labels.extend(labels.iter().cloned()),
            Effect::Deny => true,
            Effect::Ask => false,
        };
        if self.ruling.as_ref().is_none_or(|earlier| denies && !earlier.denies) {
            self.ruling = Some(Ruling { denies, rule, failure });
        }
    }

    /// Returns the rule with a limit that is reached, if there is one, and when its time ends. The counts are in order;
    /// a rule that is not counted has reached its limit.
    pub(crate) fn over_limit(&self, rules: &CompiledRules, counts: &[CallCount]) -> Option<(Ruling, Option<u64>)> {
        let mut found: Option<(Ruling, Option<u64>)> = None;
        for (at, &number) in self.limits.iter().enumerate() {
            let Rule { effect, limit, .. } = rules.rule(number);
            let count = counts.get(at);
            let denies = *effect == Effect::Deny;
            let is_reached = limit.zip(count).is_none_or(|(limit, count)| count.calls > limit.calls);
            let restricts = denies || *effect == Effect::Ask;
            if is_reached && restricts && found.as_ref().is_none_or(|(earlier, _)| denies && !earlier.denies) {
                let ruling = Ruling { denies, rule: number, failure: None };
                found = Some((ruling, count.map(|count| count.ends_in_ms)));
            }
        }
        found
    }
}

impl CompiledRule {
    /// Reports whether a call fits, and notes why.
    fn fits(&self, world: &World<'_>, notes: &mut Vec<TraceNote>) -> Fit {
        let Rule { name, effect, .. } = &self.rule;
        let Some(condition) = &self.condition else {
            notes.push(format!("rule {name:?} fits: it has no condition").into());
            return Fit::Yes(None);
        };
        // A rule that restricts must not be got around by making its condition fail.
        let restricts = *effect != Effect::Allow;
        let (fits, why, failure) = match condition.evaluate(world) {
            Ok(Value::Bool(true)) => (true, "its condition is true".to_owned(), None),
            Ok(Value::Bool(false)) => (false, "its condition is false".to_owned(), None),
            Err(NoValue::Unknown) if world.has_no_arguments() => {
                notes.push(format!("rule {name:?} depends on the arguments").into());
                return Fit::Depends;
            }
            failed => {
                let failure = match failed {
                    Ok(other) => format!("its condition is a {} and no bool", other.kind()),
                    Err(NoValue::Unknown) => {
                        "its condition needs the time or the client, which is not known".to_owned()
                    }
                    Err(NoValue::Error(at, why)) => format!("its condition fails at byte {at}: {why}"),
                };
                (restricts, format!("{failure}; this counts as {restricts}"), Some(failure))
            }
        };
        let verb = if fits { "fits" } else { "does not fit" };
        notes.push(format!("rule {name:?} {verb}: {why}").into());
        if fits { Fit::Yes(failure) } else { Fit::No }
    }
}

#[cfg(test)]
mod tests;
