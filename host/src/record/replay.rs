//! Replays a call, on the component that decided it or on another one and with the same or other settings, and reports
//! what differs.

use std::collections::HashMap;
use std::sync::Arc;

use super::compare::compare;
use super::difference::{Difference, DifferenceKind};
use super::digest::ContentDigest;
use super::directive::{RecordedDirective, is_answer};
pub use super::keyed::{Keyed, KeyedOffers, KeyedSettings};
use super::reader::SharedPartError;
use super::steps::{ForwardedAnswer, RecordedStep};
use super::surroundings::CallSurroundings;
use crate::decide::{Decide, GateId, LogicResult};
use crate::logic::types::execution::{Event, Failed, ResultForm, Settings, ToolCall};
use crate::logic::types::{Failure, Phase};
use crate::logic::{Component, LogicError, OfferedTools, Supervisor};
use crate::rpc;
use crate::words::ErrorText;

/// A call to replay.
#[derive(Clone)]
pub struct ReplayCall<'a> {
    /// The call itself.
    pub call: &'a ToolCall,
    /// The settings of the call's gate.
    pub settings: &'a KeyedSettings,
    /// The tools that servers had offered when the call began.
    pub offers: &'a KeyedOffers,
    /// The recorded events and directives.
    pub steps: &'a [RecordedStep],
    /// The offered tools before each step, where they had changed since the step before; empty if they never changed.
    pub changes: Vec<Option<KeyedOffers>>,
    /// What rules see that saw nothing when the call was recorded.
    pub around: &'a CallSurroundings<'a>,
}

/// The reason why a call could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The component rejects the settings.
    #[error("the settings cannot be used: {0}")]
    Settings(String),
    /// Something that the replay needs is missing.
    #[error("{0}")]
    Missing(String),
    /// The component gave no answer.
    #[error(transparent)]
    Logic(#[from] LogicError),
}

impl From<SharedPartError> for ReplayError {
    fn from(error: SharedPartError) -> Self {
        ReplayError::Missing(error.to_string())
    }
}

impl ReplayError {
    /// Returns the reason why the component failed, without quoting anything that it was given.
    pub(crate) fn summary(&self) -> &'static str {
        match self {
            ReplayError::Logic(LogicError::Fuel { .. }) => "it did not finish",
            ReplayError::Logic(LogicError::Memory { .. }) => "it needed too much memory",
            ReplayError::Logic(LogicError::Trap { .. } | LogicError::Dead) => "it trapped",
            ReplayError::Logic(LogicError::Contract { .. }) => "it violated the contract",
            ReplayError::Logic(_) => "it cannot run",
            ReplayError::Settings(_) => "it rejects the settings",
            ReplayError::Missing(_) => "it cannot be loaded",
        }
    }

    /// Reports whether the component crashed; it may not crash on the next call.
    pub(crate) fn is_crash(&self) -> bool {
        use LogicError::{Contract, Dead, Fuel, Memory, Trap};
        matches!(self, ReplayError::Logic(Contract { .. } | Fuel { .. } | Memory { .. } | Trap { .. } | Dead))
    }
}

/// Replays calls on one component; it has no way to reach a server.
pub struct Replayer {
    logic: Supervisor,
    /// The open gates, by the keys of their settings and of their offered tools.
    gates: HashMap<Arc<str>, HashMap<Arc<str>, GateId>>,
    count: usize,
}

impl Replayer {
    /// Starts an instance of the component.
    pub fn new(component: Component) -> LogicResult<Self> {
        Ok(Replayer { logic: Supervisor::new_uncounted(component)?, gates: HashMap::new(), count: 0 })
    }

    /// Returns the supervisor of the component.
    pub fn logic(&mut self) -> &mut Supervisor {
        &mut self.logic
    }

    /// Replays a call to its end, or as far as the recorded events answer the new directives.
    pub fn replay(&mut self, script: ReplayCall<'_>) -> Result<Vec<RecordedDirective>, ReplayError> {
        // If offers change during the call, the gate serves this call alone.
        if script.changes.iter().all(Option::is_none) {
            let gate = self.gate(script.settings, script.offers)?;
            return Ok(self.run(gate, script)?);
        }
        let gate = self.open(script.settings, script.offers)?;
        let directives = self.run(gate, script);
        self.logic.close_gate(gate)?;
        Ok(directives?)
    }

    fn run(&mut self, gate: GateId, script: ReplayCall<'_>) -> LogicResult<Vec<RecordedDirective>> {
        let ReplayCall { call, offers, steps, changes, around, .. } = script;
        let mut known = Arc::clone(&offers.value);
        let (execution, mut directive) = self.logic.begin(gate, call.clone())?;
        let mut directives = Vec::with_capacity(steps.len());
        let mut at = 0;
        loop {
            let now = RecordedDirective::from(directive);
            let event = next_event(&now, steps, &mut at, around);
            directives.push(now);
            let Some(event) = event.filter(|_| directives.len() < MOST_STEPS) else { break };
            if let Some(Some(change)) = changes.get(at) {
                self.change(gate, &known, &change.value)?;
                known = Arc::clone(&change.value);
            }
            directive = self.logic.next(execution, event)?;
        }
        self.logic.end(execution)?;
        Ok(directives)
    }

    /// Compares the recorded directives with the new ones, each under its own settings.
    pub fn differences(
        &mut self,
        (recorded, then): (&KeyedSettings, &[RecordedStep]),
        (settings, now): (&KeyedSettings, &[RecordedDirective]),
    ) -> Result<Vec<Difference>, ReplayError> {
        let mut found = compare(then.iter().map(|step| &step.directive), now);
        if let Some(masked) = found.iter_mut().find(|found| found.kind == DifferenceKind::Masking)
            && self.is_cut_otherwise((recorded, then), (settings, now))?
        {
            (masked.kind, masked.rule) = (DifferenceKind::Result, "the result is cut elsewhere".to_owned());
        }
        found.extend(self.read_otherwise(settings, then, now)?);
        found.extend(long_text_difference(&settings.value, then, now));
        Ok(found)
    }

    /// Reports whether two cut results differ only in where they are cut, because the masks leave the same text.
    fn is_cut_otherwise(
        &mut self,
        (recorded, then): (&KeyedSettings, &[RecordedStep]),
        (settings, now): (&KeyedSettings, &[RecordedDirective]),
    ) -> Result<bool, ReplayError> {
        let answer = then.iter().rev().find_map(|step| match &step.event {
            Some(Event::Answered(answer)) => Some(answer),
            _ => None,
        });
        let ends = (then.last().map(|step| &step.directive), now.last());
        let (Some(answer), (Some(RecordedDirective::Done(was)), Some(RecordedDirective::Done(ended)))) = (answer, ends)
        else {
            return Ok(false);
        };
        if recorded.value.max_result_bytes == settings.value.max_result_bytes || !(was.truncated && ended.truncated) {
            return Ok(false);
        }
        let server = ended.server();
        let before = match self.mask_json(recorded, server, answer) {
            Ok(before) => before,
            // This component may not know the masks of another component's settings.
            Err(ReplayError::Settings(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(before == self.mask_json(settings, server, answer)?)
    }

    /// Compares a result that was passed through, if it was recorded, with the result that is read now.
    fn read_otherwise(
        &mut self,
        settings: &KeyedSettings,
        then: &[RecordedStep],
        now: &[RecordedDirective],
    ) -> Result<Option<Difference>, ReplayError> {
        let kept = then.iter().find_map(|step| step.forwarded.as_ref()?.answer.as_ref());
        let (Some(answer), Some(RecordedDirective::Done(ended))) = (kept, now.last()) else { return Ok(None) };
        let Some(content) = &ended.content else { return Ok(None) };
        if ended.truncated || *content == ContentDigest::of(answer) {
            return Ok(None);
        }
        let masked = self.mask_json(settings, ended.server(), answer)?;
        let (kind, rule) = match masked == *answer {
            false => (DifferenceKind::Masking, "the result is masked differently"),
            true if settings.value.form == ResultForm::PassThrough => (DifferenceKind::Result, "the result differs"),
            // The parts of the result have no recorded digest to compare with.
            true => return Ok(None),
        };
        Ok(Some(Difference::new(kind, rule, answer, masked)))
    }

    /// Returns and clears the component's last crash.
    pub fn take_fault(&mut self) -> Option<LogicError> {
        self.logic.take_fault()
    }

    /// Masks a server's JSON with the masks of these settings; the result is JSON again.
    pub fn mask_json(&mut self, settings: &KeyedSettings, server: &str, json: &str) -> Result<String, ReplayError> {
        let nothing = Keyed { key: Arc::from(""), value: OfferedTools::default() };
        let gate = self.gate(settings, &nothing)?;
        Ok(self.logic.mask_json(gate, server, json)?)
    }

    /// Masks a text that is not JSON with the masks of these settings.
    pub fn mask_text(&mut self, settings: &KeyedSettings, server: &str, text: &str) -> Result<String, ReplayError> {
        let masked = self.mask_json(settings, server, &rpc::quote(text))?;
        Ok(serde_json::from_str(&masked).unwrap_or(masked))
    }

    fn gate(&mut self, settings: &KeyedSettings, offers: &KeyedOffers) -> Result<GateId, ReplayError> {
        if let Some(gate) = self.gates.get(&settings.key).and_then(|gates| gates.get(&offers.key)) {
            return Ok(*gate);
        }
        if self.count >= MOST_GATES {
            let gates = std::mem::take(&mut self.gates).into_values().flat_map(HashMap::into_values);
            for gate in gates {
                self.logic.close_gate(gate)?;
            }
            self.count = 0;
        }
        let gate = self.open(settings, offers)?;
        self.gates.entry(Arc::clone(&settings.key)).or_default().insert(Arc::clone(&offers.key), gate);
        self.count += 1;
        Ok(gate)
    }

    fn open(&mut self, settings: &KeyedSettings, offers: &KeyedOffers) -> Result<GateId, ReplayError> {
        let gate = self.logic.open_gate(&settings.value)?.map_err(|error| ReplayError::Settings(error.error_text()))?;
        let offered =
            offers.value.iter().try_for_each(|(server, tools)| self.logic.offer(gate, server, tools).map(drop));
        if let Err(error) = offered {
            self.logic.close_gate(gate)?;
            return Err(error.into());
        }
        Ok(gate)
    }

    fn change(&mut self, gate: GateId, known: &OfferedTools, now: &OfferedTools) -> LogicResult<()> {
        for (server, _) in known.iter().filter(|(server, _)| !now.iter().any(|(other, _)| other == server)) {
            self.logic.withdraw(gate, server)?;
        }
        now.iter().try_for_each(|(server, tools)| self.logic.offer(gate, server, tools).map(drop))
    }
}

/// Returns the recorded event that follows the directive `now`, if there is one; `at` is the index of the step with the
/// matching recorded directive.
///
/// If both directives are of the same kind, the recorded event happens again. Steps that only one side needed are
/// skipped: a server that was not asked for then cannot be connected, and a person who was not asked then approves.
fn next_event(
    now: &RecordedDirective,
    steps: &[RecordedStep],
    at: &mut usize,
    around: &CallSurroundings<'_>,
) -> Option<Event> {
    loop {
        let then = &steps.get(*at)?.directive;
        match (now, then) {
            (RecordedDirective::Done(_), _) => return None,
            // A different tool would have answered differently.
            (RecordedDirective::Request(now), RecordedDirective::Request(then)) if now.tool != then.tool => {
                return None;
            }
            _ if now.kind() == then.kind() => {
                *at += 1;
                let RecordedStep { event, forwarded, .. } = steps.get(*at)?;
                let event = read_now(now, then, forwarded.as_ref()).or_else(|| event.clone());
                return event.map(|event| around.add_to(event, now));
            }
            (RecordedDirective::Circumstances(_), _) => {
                return Some(Event::Circumstances(around.circumstances.clone()));
            }
            (RecordedDirective::Count(rules), _) => return Some(Event::Counted(around.counted(rules))),
            (RecordedDirective::Connect(_), _) => {
                let failure = Failure::Connect("it was not connected when the call was recorded".to_owned());
                return Some(Event::Failed(Failed { failure, phase: Phase::NotSent }));
            }
            (RecordedDirective::Ask(_), RecordedDirective::Request(_)) => return Some(Event::Approved(true)),
            (
                _,
                RecordedDirective::Connect(_)
                | RecordedDirective::Circumstances(_)
                | RecordedDirective::Count(_)
                | RecordedDirective::Ask(_),
            ) => *at += 1,
            _ => return None,
        }
    }
}

/// Returns the recorded result as an answer, if it was passed through then and must be read now.
fn read_now(now: &RecordedDirective, then: &RecordedDirective, answer: Option<&ForwardedAnswer>) -> Option<Event> {
    let (RecordedDirective::Request(now), RecordedDirective::Request(then)) = (now, then) else { return None };
    let answer = answer?.answer.as_ref()?;
    let unread = |most: u64| answer.len() as u64 <= most;
    let read = now.forward_up_to != then.forward_up_to && !now.forward_up_to.is_some_and(unread);
    read.then(|| Event::Answered(answer.clone()))
}

/// Describes what happens now to a result that was passed through and not recorded, if its text may be too long.
fn long_text_difference(settings: &Settings, then: &[RecordedStep], now: &[RecordedDirective]) -> Option<Difference> {
    let forwarded =
        then.iter().find_map(|step| step.forwarded.as_ref().filter(|forwarded| forwarded.answer.is_none()))?;
    let bytes = forwarded.digest.bytes;
    let last = |directive: &RecordedDirective| match directive {
        RecordedDirective::Request(sent) => Some(sent.forward_up_to),
        _ => None,
    };
    let before = then.iter().rev().find_map(|step| last(&step.directive))?.unwrap_or(bytes);
    let most = now.iter().rev().find_map(last)?.unwrap_or_else(|| most_untouched(settings));
    let answers = matches!(now.last(), Some(RecordedDirective::Done(ended)) if is_answer(ended.code));
    // A text in JSON is never shorter than the text itself; the exact length is unknown.
    if !answers || bytes.min(before) <= most {
        return None;
    }
    let over = |most: Option<u64>| most.is_some_and(|most| bytes > most);
    let is_cut = over(Some(settings.max_result_bytes).filter(|most| *most > 0));
    let is_summarized = over(settings.summarize_above_tokens.map(bytes_of));
    let becomes = match (is_cut && settings.spill, is_summarized) {
        (true, true) => "kept and summarized",
        (true, false) => "kept and cut",
        (false, true) => "summarized",
        (false, false) if is_cut => "cut",
        // A rule of the component's own applies.
        (false, false) => "read",
    };
    let was = format!("a result of {bytes} bytes was passed through");
    let now = format!("a text of more than {most} bytes is {becomes}");
    Some(Difference::new(DifferenceKind::Result, "the text may be too long", was, now))
}

/// Returns the length of the longest text that these settings neither cut nor summarize.
fn most_untouched(settings: &Settings) -> u64 {
    let uncut = if settings.max_result_bytes == 0 { u64::MAX } else { settings.max_result_bytes };
    uncut.min(settings.summarize_above_tokens.map_or(u64::MAX, bytes_of))
}

/// Estimates the bytes of this many tokens, about as the component does.
fn bytes_of(tokens: u64) -> u64 {
    tokens.saturating_mul(4)
}

/// The number of gates that stay open.
const MOST_GATES: usize = 32;
/// The number of directives after which a replay stops, because the component never ends the call.
const MOST_STEPS: usize = 64;
