//! Plays a call once more, and says what differs: on the component that decided it, or on another one, under these settings
//! or others.

use std::collections::HashMap;
use std::sync::Arc;

use super::compare::{Difference, DifferenceKind, compare};
use super::directive::{ContentDigest, RecordedDirective, RecordedRequest, is_answer};
use super::event::{ForwardedAnswer, RecordedEvent};
use super::line::RecordedStep;
use super::text::JsonText;
use crate::decide::{Decide, GateId, LogicResult};
use crate::logic::types::execution::{Event, Failed, ResultForm, Settings, ToolCall};
use crate::logic::types::{Failure, Phase};
use crate::logic::{Component, LogicError, OfferedTools, Supervisor};
use crate::rpc;
use crate::words::ErrorText;

/// What many calls share, and what it is known by.
#[derive(Clone)]
pub struct Keyed<T> {
    /// Two of the same key are the same.
    pub key: Arc<str>,
    /// What it is.
    pub value: T,
}

/// The settings of a gate.
pub type KeyedSettings = Keyed<Arc<Settings>>;
/// What servers had offered.
pub type KeyedOffers = Keyed<OfferedTools>;

/// A call to be played.
#[derive(Clone)]
pub struct ReplayCall<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// The settings of its gate.
    pub settings: &'a KeyedSettings,
    /// What had been offered when it began.
    pub offers: &'a KeyedOffers,
    /// What happened, and what was said to it.
    pub steps: &'a [RecordedStep],
    /// By step, what had been offered by then, where that was not as before; none at all where nothing changed.
    pub changes: Vec<Option<KeyedOffers>>,
}

/// Why a call could not be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The component does not take the settings.
    #[error("the settings cannot be used: {0}")]
    Settings(String),
    /// The component gave no answer.
    #[error(transparent)]
    Logic(#[from] LogicError),
}

impl ReplayError {
    /// Why a component gave no answer, without a word of what it was given.
    pub(crate) fn summary(&self) -> &'static str {
        match self {
            ReplayError::Logic(LogicError::Fuel { .. }) => "it did not come to an end",
            ReplayError::Logic(LogicError::Memory { .. }) => "it wanted too much memory",
            ReplayError::Logic(LogicError::Trap { .. } | LogicError::Dead) => "it trapped",
            ReplayError::Logic(LogicError::Contract { .. }) => "it broke its contract",
            ReplayError::Logic(_) => "it cannot be run",
            ReplayError::Settings(_) => "it refuses its settings",
        }
    }

    /// Whether the component broke off, which the next call may not make it do.
    pub(crate) fn is_crash(&self) -> bool {
        use LogicError::{Contract, Dead, Fuel, Memory, Trap};
        matches!(self, ReplayError::Logic(Contract { .. } | Fuel { .. } | Memory { .. } | Trap { .. } | Dead))
    }
}

/// Plays calls on one component. It does nothing: there is no way from here to a server.
pub struct Replayer {
    logic: Supervisor,
    /// Gates that are open, by their settings and by what they were offered.
    gates: HashMap<Arc<str>, HashMap<Arc<str>, GateId>>,
    count: usize,
}

impl Replayer {
    /// Starts an instance of the component.
    pub fn new(component: Component) -> LogicResult<Self> {
        Ok(Replayer { logic: Supervisor::new_uncounted(component)?, gates: HashMap::new(), count: 0 })
    }

    /// What the component is asked with.
    pub fn logic(&mut self) -> &mut Supervisor {
        &mut self.logic
    }

    /// Plays a call to its end, or for as long as what happened answers to what is said now.
    pub fn replay(&mut self, script: ReplayCall<'_>) -> Result<Vec<RecordedDirective>, ReplayError> {
        // A gate that is offered something else in the middle is for this call alone.
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
        let ReplayCall { call, offers, steps, changes, .. } = script;
        let mut known = Arc::clone(&offers.value);
        let (execution, mut directive) = self.logic.begin(gate, call.clone())?;
        let mut directives = Vec::with_capacity(steps.len());
        let mut at = 0;
        loop {
            let now = RecordedDirective::from(directive);
            let event = next_event(&now, steps, &mut at);
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

    /// How what is said now differs from what was said then, each under its settings.
    pub fn differences(
        &mut self,
        (recorded, then): (&KeyedSettings, &[RecordedStep]),
        (settings, now): (&KeyedSettings, &[RecordedDirective]),
    ) -> Result<Vec<Difference>, ReplayError> {
        let mut found = compare(then.iter().map(|step| &step.say), now);
        if let Some(masked) = found.iter_mut().find(|found| found.kind == DifferenceKind::Masking)
            && self.is_cut_otherwise((recorded, then), (settings, now))?
        {
            (masked.kind, masked.rule) = (DifferenceKind::Result, "its result is cut elsewhere".to_owned());
        }
        found.extend(self.read_otherwise(settings, then, now)?);
        found.extend(long_text_difference(&settings.value, then, now));
        Ok(found)
    }

    /// Whether an answer that is cut then and now is another for that alone: the masks leave the same of it.
    fn is_cut_otherwise(
        &mut self,
        (recorded, then): (&KeyedSettings, &[RecordedStep]),
        (settings, now): (&KeyedSettings, &[RecordedDirective]),
    ) -> Result<bool, ReplayError> {
        let answer = then.iter().rev().find_map(|step| match &step.event {
            Some(RecordedEvent::Answered(JsonText(answer))) => Some(answer),
            _ => None,
        });
        let ends = (then.last().map(|step| &step.say), now.last());
        let (Some(answer), (Some(RecordedDirective::Done(was)), Some(RecordedDirective::Done(ended)))) = (answer, ends)
        else {
            return Ok(false);
        };
        if recorded.value.max_result_bytes == settings.value.max_result_bytes || !(was.truncated && ended.truncated) {
            return Ok(false);
        }
        let server = ended.server.as_deref().unwrap_or_default();
        let before = match self.mask_json(recorded, server, answer) {
            Ok(before) => before,
            // What masks another component had cannot be asked of this one.
            Err(ReplayError::Settings(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(before == self.mask_json(settings, server, answer)?)
    }

    /// What is another now in an answer that passed unread then, where the answer is kept.
    fn read_otherwise(
        &mut self,
        settings: &KeyedSettings,
        then: &[RecordedStep],
        now: &[RecordedDirective],
    ) -> Result<Option<Difference>, ReplayError> {
        let kept = then.iter().find_map(|step| match &step.event {
            Some(RecordedEvent::Forwarded(ForwardedAnswer { answer: Some(answer), .. })) => Some(answer),
            _ => None,
        });
        let (Some(answer), Some(RecordedDirective::Done(ended))) = (kept, now.last()) else { return Ok(None) };
        let Some(content) = &ended.content else { return Ok(None) };
        if ended.truncated || *content == ContentDigest::of(answer) {
            return Ok(None);
        }
        let masked = self.mask_json(settings, ended.server.as_deref().unwrap_or_default(), answer)?;
        let (kind, rule) = match masked == *answer {
            false => (DifferenceKind::Masking, "its answer is masked otherwise"),
            true if settings.value.form == ResultForm::PassThrough => (DifferenceKind::Result, "its answer is another"),
            // Taken apart, it has no digest to compare with.
            true => return Ok(None),
        };
        Ok(Some(Difference { kind, rule: rule.to_owned(), was: answer.clone(), now: masked }))
    }

    /// Why the component broke off since this was asked last, where it did.
    pub fn take_fault(&mut self) -> Option<LogicError> {
        self.logic.take_fault()
    }

    /// JSON of a server as the masks of these settings leave it; it stays JSON.
    pub fn mask_json(&mut self, settings: &KeyedSettings, server: &str, json: &str) -> Result<String, ReplayError> {
        let nothing = Keyed { key: Arc::from(""), value: OfferedTools::default() };
        let gate = self.gate(settings, &nothing)?;
        Ok(self.logic.mask_json(gate, server, json)?)
    }

    /// The same for a text that is no JSON.
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

/// What happened after what was said now, as far as it was recorded; `at` is the step whose directive stands beside it.
///
/// Where both say the same kind of thing, what happened then happens again. What only one of them wanted before it went on
/// is passed over: a server that was not asked then does not come up, and a person who was not asked then agrees.
fn next_event(now: &RecordedDirective, steps: &[RecordedStep], at: &mut usize) -> Option<Event> {
    loop {
        let then = &steps.get(*at)?.say;
        match (now, then) {
            (RecordedDirective::Done(_), _) => return None,
            // Another tool would have answered something else.
            (RecordedDirective::Request(now), RecordedDirective::Request(then)) if !is_same_tool(now, then) => {
                return None;
            }
            _ if now.kind() == then.kind() => {
                *at += 1;
                let event = steps.get(*at)?.event.as_ref()?;
                return Some(read_now(now, then, event).unwrap_or_else(|| Event::from(event)));
            }
            (RecordedDirective::Connect(_), _) => {
                let failure = Failure::Connect("it was not connected when the call was recorded".to_owned());
                return Some(Event::Failed(Failed { failure, phase: Phase::NotSent }));
            }
            (RecordedDirective::Ask(_), RecordedDirective::Request(_)) => return Some(Event::Approved(true)),
            (_, RecordedDirective::Connect(_) | RecordedDirective::Ask(_)) => *at += 1,
            _ => return None,
        }
    }
}

/// An answer that passed unread then and is to be read now, where it is kept.
fn read_now(now: &RecordedDirective, then: &RecordedDirective, event: &RecordedEvent) -> Option<Event> {
    let (RecordedDirective::Request(now), RecordedDirective::Request(then)) = (now, then) else { return None };
    let RecordedEvent::Forwarded(ForwardedAnswer { answer: Some(answer), .. }) = event else { return None };
    let unread = |most: u64| answer.len() as u64 <= most;
    let read = now.forward_up_to != then.forward_up_to && !now.forward_up_to.is_some_and(unread);
    read.then(|| Event::Answered(answer.clone()))
}

/// What becomes now of an answer that passed unread then and is not kept, where its text may be too long for that.
fn long_text_difference(settings: &Settings, then: &[RecordedStep], now: &[RecordedDirective]) -> Option<Difference> {
    let bytes = then.iter().find_map(|step| match &step.event {
        Some(RecordedEvent::Forwarded(ForwardedAnswer { answer: None, bytes, .. })) => Some(*bytes),
        _ => None,
    })?;
    let last = |directive: &RecordedDirective| match directive {
        RecordedDirective::Request(sent) => Some(sent.forward_up_to),
        _ => None,
    };
    let before = then.iter().rev().find_map(|step| last(&step.say))?.unwrap_or(bytes);
    let most = now.iter().rev().find_map(last)?.unwrap_or_else(|| most_untouched(settings));
    let answers = matches!(now.last(), Some(RecordedDirective::Done(ended)) if is_answer(&ended.code));
    // As JSON a text is never shorter; how much shorter it was, nobody knows.
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
        // By a rule of the component's own.
        (false, false) => "read",
    };
    Some(Difference {
        kind: DifferenceKind::Result,
        rule: "its text may be too long".to_owned(),
        was: format!("an answer of {bytes} bytes passed unread"),
        now: format!("a text above {most} bytes is {becomes}"),
    })
}

/// The longest text to which nothing happens, masks aside.
fn most_untouched(settings: &Settings) -> u64 {
    let uncut = if settings.max_result_bytes == 0 { u64::MAX } else { settings.max_result_bytes };
    uncut.min(settings.summarize_above_tokens.map_or(u64::MAX, bytes_of))
}

/// The bytes of so many tokens, about as the component counts them.
fn bytes_of(tokens: u64) -> u64 {
    tokens.saturating_mul(4)
}

fn is_same_tool(now: &RecordedRequest, then: &RecordedRequest) -> bool {
    let tool = |sent: &RecordedRequest| sent.call().map(|(tool, _)| tool);
    now.server == then.server && (now.params == then.params || tool(now) == tool(then))
}

/// How many gates are kept open.
const MOST_GATES: usize = 32;
/// No call has as many steps; a component that never ends one is stopped here.
const MOST_STEPS: usize = 64;
