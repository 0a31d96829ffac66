//! What each agent has seen, for as long as it is not idle.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::Agent;
use crate::config::model::{ContextRules, ContextScope};
use crate::lock::lock;
use crate::logic::types::rules::{AgentContext, KnownValue};

/// What all agents have seen. It lives as long as the process.
#[derive(Default)]
pub struct AgentMemory(Mutex<HashMap<AgentKey, SeenByAgent>>);

/// Whose calls share a context.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AgentKey {
    principal: String,
    /// The session or the trace, if each has a context of its own.
    part: Option<String>,
}

struct SeenByAgent {
    context: AgentContext,
    /// In milliseconds of the clock that callers use; later than now if something of its waits until then.
    last_used: u64,
    /// The number of its last write to each server, by the label that says so.
    writes: HashMap<String, u64>,
}

/// An agent that has seen something, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedAgent {
    /// The principal.
    pub principal: String,
    /// The session or the trace, if each has a context of its own.
    pub part: Option<String>,
    /// The labels of what it has seen.
    pub labels: Vec<String>,
    /// The number of values that it knows.
    pub known: usize,
}

impl AgentKey {
    /// Returns whose context a call uses: the session or trace is that of the call, if it has one.
    pub(crate) fn new(rules: &ContextRules, agent: &Agent, session: Option<&str>, trace: Option<&str>) -> Self {
        let part = match rules.scope {
            ContextScope::Principal => None,
            ContextScope::Session => session,
            ContextScope::Trace => trace,
        };
        AgentKey { principal: String::from(&*agent.principal), part: part.map(str::to_owned) }
    }

    /// Returns the principal.
    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    /// Returns the session or the trace, if each has a context of its own.
    pub(crate) fn part(&self) -> Option<&str> {
        self.part.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn of_test(principal: &str, part: Option<&str>) -> Self {
        AgentKey { principal: principal.to_owned(), part: part.map(str::to_owned) }
    }
}

impl AgentMemory {
    /// Returns what an agent has seen, with the values that it knows or without.
    pub(crate) fn recall(&self, key: &AgentKey, with_known: bool, now: u64, idle: Duration) -> AgentContext {
        let mut agents = lock(&self.0);
        forget_idle(&mut agents, now, idle);
        let Some(seen) = agents.get_mut(key) else { return AgentContext::default() };
        seen.last_used = seen.last_used.max(now);
        seen.recalled(with_known)
    }

    /// Returns what an agent has seen without noting that it is not idle.
    pub(crate) fn peek(&self, key: &AgentKey, with_known: bool, now: u64, idle: Duration) -> AgentContext {
        let mut agents = lock(&self.0);
        forget_idle(&mut agents, now, idle);
        let Some(seen) = agents.get(key) else { return AgentContext::default() };
        seen.recalled(with_known)
    }

    /// Adds what an agent has learned; the values that it used least recently are forgotten first.
    pub(crate) fn learn(&self, key: &AgentKey, learned: AgentContext, now: u64) {
        add(&mut lock(&self.0), key, learned, now);
    }

    /// Adds what a result of a server taught, unless the agent wrote something there meanwhile: it may be its own words.
    pub(crate) fn learn_from(&self, key: &AgentKey, server: &str, learned: AgentContext, now: u64) {
        // Under one lock, so that no write comes between the look and the lesson.
        let mut agents = lock(&self.0);
        let label = written_label(server);
        let has_written = agents.get(key).is_some_and(|seen| seen.context.labels.contains(&label));
        let known = if has_written { Vec::new() } else { learned.known };
        add(&mut agents, key, AgentContext { known, ..learned }, now);
    }

    /// Reports whether an agent wrote something to a server, after this many writes of all agents.
    pub(crate) fn has_written_since(&self, key: &AgentKey, server: &str, writes: u64) -> bool {
        let agents = lock(&self.0);
        let last = agents.get(key).and_then(|seen| seen.writes.get(&written_label(server)));
        last.is_some_and(|last| *last > writes)
    }

    /// Returns the agents that have seen something, also those that have been idle for too long since.
    pub(crate) fn keys(&self) -> Vec<AgentKey> {
        lock(&self.0).keys().cloned().collect()
    }

    /// Reports whether an agent has seen something and was not idle for too long.
    pub(crate) fn remembers(&self, key: &AgentKey, now: u64, idle: Duration) -> bool {
        let mut agents = lock(&self.0);
        forget_idle(&mut agents, now, idle);
        agents.contains_key(key)
    }

    /// Notes that an agent is not idle, unless it has been for so long that it is forgotten.
    pub(crate) fn touch(&self, key: &AgentKey, now: u64, idle: Duration) {
        self.hold(key, now, idle, Duration::ZERO);
    }

    /// Notes that an agent is not idle until something of its has waited for this long, unless it is forgotten already.
    pub(crate) fn hold(&self, key: &AgentKey, now: u64, idle: Duration, wait: Duration) {
        let mut agents = lock(&self.0);
        forget_idle(&mut agents, now, idle);
        if let Some(seen) = agents.get_mut(key) {
            let until = now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            seen.last_used = seen.last_used.max(until);
        }
    }

    /// Forgets what the agents of a principal have seen, or those of all; returns how many there were.
    pub fn reset(&self, principal: Option<&str>) -> usize {
        let mut agents = lock(&self.0);
        let before = agents.len();
        agents.retain(|key, _| principal.is_some_and(|principal| key.principal != principal));
        before - agents.len()
    }

    /// Lists the agents that have seen something, in the order of their names.
    pub fn agents(&self, now: u64, idle: Duration) -> Vec<RememberedAgent> {
        let mut agents = lock(&self.0);
        forget_idle(&mut agents, now, idle);
        let mut listed: Vec<_> = agents
            .iter()
            .map(|(AgentKey { principal, part }, SeenByAgent { context, .. })| RememberedAgent {
                principal: principal.clone(),
                part: part.clone(),
                labels: context.labels.clone(),
                known: context.known.len(),
            })
            .collect();
        listed.sort_by(|one, other| (&one.principal, &one.part).cmp(&(&other.principal, &other.part)));
        listed
    }
}

impl SeenByAgent {
    fn recalled(&self, with_known: bool) -> AgentContext {
        let known = if with_known { self.context.known.clone() } else { Vec::new() };
        AgentContext { labels: self.context.labels.clone(), known }
    }
}

/// Returns the label of an agent that wrote something to a server after it saw what a stranger may have written.
pub(crate) fn written_label(server: &str) -> String {
    format!("{WRITTEN}{server}")
}

/// Returns how many writes of all agents there were so far.
pub(crate) fn count_of_writes() -> u64 {
    LAST_WRITE.load(SeqCst)
}

/// Adds what an agent has learned; the values that it used least recently are forgotten first.
fn add(agents: &mut HashMap<AgentKey, SeenByAgent>, key: &AgentKey, learned: AgentContext, now: u64) {
    if !agents.contains_key(key) && agents.len() >= MOST_AGENTS {
        make_room(agents);
    }
    let new = || SeenByAgent { context: AgentContext::default(), last_used: now, writes: HashMap::new() };
    let seen = agents.entry(key.clone()).or_insert_with(new);
    seen.last_used = seen.last_used.max(now);
    for label in learned.labels.iter().filter(|label| label.starts_with(WRITTEN)) {
        seen.writes.insert(label.clone(), LAST_WRITE.fetch_add(1, SeqCst) + 1);
    }
    let AgentContext { labels, known } = &mut seen.context;
    for label in learned.labels {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let newest: std::collections::HashSet<&KnownValue> = learned.known.iter().collect();
    known.retain(|value| !newest.contains(value));
    known.extend(&learned.known);
    let surplus = known.len().saturating_sub(MOST_KNOWN);
    known.drain(..surplus);
}

fn forget_idle(agents: &mut HashMap<AgentKey, SeenByAgent>, now: u64, idle: Duration) {
    agents.retain(|_, seen| u128::from(now.saturating_sub(seen.last_used)) < idle.as_millis());
}

/// Makes room by forgetting an eighth of the sessions or traces of the principal that has most of them: those without
/// labels first, and of these the oldest. Several at once, since finding them takes a while. What a whole principal has
/// seen is never forgotten for room.
fn make_room(agents: &mut HashMap<AgentKey, SeenByAgent>) {
    let mut parts: HashMap<&str, Vec<(bool, u64, &AgentKey)>> = HashMap::new();
    for (key, seen) in agents.iter().filter(|(key, _)| key.part.is_some()) {
        let is_labelled = !seen.context.labels.is_empty();
        parts.entry(&key.principal).or_default().push((is_labelled, seen.last_used, key));
    }
    let Some(mut largest) = parts.into_values().max_by_key(Vec::len) else { return };
    largest.sort_by_key(|(is_labelled, last_used, _)| (*is_labelled, *last_used));
    largest.truncate(largest.len().div_ceil(8));
    let forgotten: Vec<AgentKey> = largest.into_iter().map(|(_, _, key)| key.clone()).collect();
    for key in &forgotten {
        agents.remove(key);
    }
}

/// What the label of an agent that wrote something begins with; the server follows.
pub(crate) const WRITTEN: &str = "written:";
/// How many writes of all agents there were so far.
static LAST_WRITE: AtomicU64 = AtomicU64::new(0);
/// How many agents are remembered.
pub(crate) const MOST_AGENTS: usize = 10_000;
/// How many values are known to each: 64 KiB of them, as they are recorded.
pub(crate) const MOST_KNOWN: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(600);

    fn key(principal: &str) -> AgentKey {
        AgentKey { principal: principal.to_owned(), part: None }
    }

    fn lesson(label: &str, known: std::ops::Range<u64>) -> AgentContext {
        AgentContext { labels: vec![label.to_owned()], known: known.map(|value| (value, 0)).collect() }
    }

    #[test]
    fn each_principal_has_its_own_memory_until_it_is_reset() {
        let memory = AgentMemory::default();
        memory.learn(&key("ann"), lesson("untrusted", 0..1), 0);
        memory.learn(&key("ann"), lesson("untrusted", 0..2), 0);
        memory.learn(&key("bob"), lesson("private", 0..0), 0);
        assert_eq!(memory.recall(&key("ann"), true, 1, IDLE), lesson("untrusted", 0..2));
        assert_eq!(memory.recall(&key("ann"), false, 1, IDLE), lesson("untrusted", 0..0));
        assert_eq!(memory.agents(1, IDLE).len(), 2);
        assert_eq!(memory.reset(Some("ann")), 1);
        assert_eq!(memory.recall(&key("ann"), true, 1, IDLE), AgentContext::default());
        assert_eq!(memory.recall(&key("bob"), true, 1, IDLE).labels, ["private"]);
        assert_eq!(memory.reset(None), 1);
    }

    #[test]
    fn a_result_teaches_nothing_if_the_agent_wrote_to_its_server_meanwhile() {
        let memory = AgentMemory::default();
        memory.learn(&key("ann"), lesson("written:crm", 0..0), 0);
        memory.learn_from(&key("ann"), "crm", lesson("private", 0..5), 0);
        memory.learn_from(&key("ann"), "web", lesson("private", 7..8), 0);
        let seen = memory.recall(&key("ann"), true, 1, IDLE);
        assert_eq!((seen.labels.len(), seen.known), (2, vec![(7, 0)]));
    }

    #[test]
    fn an_agent_that_is_idle_is_forgotten() {
        let memory = AgentMemory::default();
        memory.learn(&key("ann"), lesson("untrusted", 0..1), 0);
        assert_eq!(memory.recall(&key("ann"), true, 599_999, IDLE), lesson("untrusted", 0..1));
        memory.touch(&key("ann"), 1_199_998, IDLE);
        assert_eq!(memory.recall(&key("ann"), true, 1_799_997, IDLE), lesson("untrusted", 0..1), "it was active");
        // A call after too long a time does not bring it back.
        memory.touch(&key("ann"), 2_399_997, IDLE);
        assert_eq!(memory.recall(&key("ann"), true, 2_399_997, IDLE), AgentContext::default());
    }

    #[test]
    fn an_agent_of_which_something_waits_is_not_idle() {
        let memory = AgentMemory::default();
        memory.learn(&key("ann"), lesson("untrusted", 0..0), 0);
        memory.hold(&key("ann"), 10, IDLE, Duration::from_secs(6000));
        // What it does meanwhile makes the time no shorter.
        memory.touch(&key("ann"), 20, IDLE);
        memory.learn(&key("ann"), lesson("untrusted", 0..0), 30);
        assert_eq!(memory.recall(&key("ann"), false, 40, IDLE).labels, ["untrusted"]);
        assert_eq!(memory.peek(&key("ann"), false, 6_600_009, IDLE).labels, ["untrusted"]);
        assert_eq!(memory.peek(&key("ann"), false, 6_600_010, IDLE), AgentContext::default());
    }

    #[test]
    fn one_principals_sessions_push_out_those_of_no_other_and_labelled_ones_last() {
        let memory = AgentMemory::default();
        let part = |principal: &str, number: usize| AgentKey::of_test(principal, Some(&number.to_string()));
        memory.learn(&part("bob", 0), lesson("untrusted", 0..0), 0);
        memory.learn(&part("eve", 0), lesson("untrusted", 0..0), 0);
        memory.learn(&key("cid"), lesson("untrusted", 0..0), 0);
        for number in 1..=MOST_AGENTS + 100 {
            let unlabelled = AgentContext { labels: Vec::new(), known: vec![(1, 1)] };
            memory.learn(&part("eve", number), unlabelled, number as u64);
        }
        let labels = |key: AgentKey| memory.peek(&key, false, 1, Duration::MAX).labels;
        for key in [part("bob", 0), part("eve", 0), key("cid")] {
            assert_eq!(labels(key.clone()), ["untrusted"], "{key:?}");
        }
        let knows = |key: AgentKey| !memory.peek(&key, true, 1, Duration::MAX).known.is_empty();
        assert_eq!([1, MOST_AGENTS + 100].map(|number| knows(part("eve", number))), [false, true], "the oldest went");
        // If all are labelled, those of the one who has most of them go.
        for number in 0..2 * MOST_AGENTS {
            memory.learn(&part("dan", number), lesson("untrusted", 0..0), 20_000);
        }
        assert_eq!(labels(part("bob", 0)), ["untrusted"]);
        let agents = memory.agents(1, Duration::MAX);
        let count = |name: &str| agents.iter().filter(|agent| agent.principal == name).count();
        assert!(agents.len() <= MOST_AGENTS && count("eve") > MOST_AGENTS / 4, "{} of {}", count("eve"), agents.len());
    }

    #[test]
    fn a_write_is_noticed_also_if_the_agent_has_written_before() {
        let memory = AgentMemory::default();
        memory.learn(&key("ann"), lesson("written:crm", 0..0), 0);
        let before = count_of_writes();
        assert!(!memory.has_written_since(&key("ann"), "crm", before));
        memory.learn(&key("ann"), lesson("written:web", 0..0), 0);
        assert!(!memory.has_written_since(&key("ann"), "crm", before));
        memory.learn(&key("ann"), lesson("written:crm", 0..0), 0);
        assert!(memory.has_written_since(&key("ann"), "crm", before));
        assert!(!memory.has_written_since(&key("bob"), "crm", before));
    }

    #[test]
    fn the_values_that_were_used_least_recently_are_forgotten_first() {
        let memory = AgentMemory::default();
        memory.learn(&key("ann"), lesson("l", 0..2000), 0);
        memory.learn(&key("ann"), lesson("l", 0..1), 0);
        memory.learn(&key("ann"), lesson("l", 5000..5100), 0);
        let known = memory.recall(&key("ann"), true, 1, IDLE).known;
        assert_eq!(known.len(), MOST_KNOWN);
        assert!(known.contains(&(0, 0)) && !known.contains(&(1, 0)), "the one that was used again is kept");
    }
}
