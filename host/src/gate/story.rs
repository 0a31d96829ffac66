//! What a call was, from its beginning to its end, for whoever looks at calls when they are over.

use std::sync::Arc;

use super::{Called, Gate, View};
use crate::logic::Offers;
use crate::logic::types::execution::{Directive, Event, Settings, ToolCall};

/// All that a call was decided on, and all that was decided. It may hold secrets, so it has no `Debug`.
pub struct Story {
    /// What the gate was to see of the configuration.
    pub view: Arc<View>,
    /// What the gate was opened with.
    pub settings: Arc<Settings>,
    /// What servers had offered when the call began.
    pub offers: Offers,
    /// The call.
    pub call: ToolCall,
    /// What was to be done first.
    pub first: Directive,
    /// What happened then, and what was to be done next.
    pub steps: Vec<Step>,
    /// An answer that the component has not seen.
    pub answer: Option<String>,
}

/// Something that happened to a call.
pub struct Step {
    /// What servers had offered by then.
    pub offers: Offers,
    /// What happened.
    pub event: Event,
    /// What was to be done next.
    pub directive: Directive,
}

/// Looks at calls when they are over.
pub trait Observe: Send + Sync {
    /// Whether the call that begins now is wanted.
    fn wants(&self) -> bool;

    /// Takes a call that is over; it must not block.
    fn take(&self, story: Story);
}

/// The story of a call that is under way, where somebody wants it.
pub(super) struct Telling(Option<Box<Draft>>);

struct Draft {
    observer: Arc<dyn Observe>,
    view: Arc<View>,
    call: ToolCall,
    begun: Option<(Arc<Settings>, Offers, Directive)>,
    happened: Option<(Offers, Event)>,
    steps: Vec<Step>,
}

impl Telling {
    /// Nobody is told.
    pub(super) fn nobody() -> Self {
        Telling(None)
    }

    /// The story of a call that begins.
    pub(super) fn of(gate: &Gate, call: &ToolCall) -> Self {
        let Some(observer) = gate.registry().observer().filter(|observer| observer.wants()) else {
            return Telling::nobody();
        };
        let (view, call) = (gate.view(), call.clone());
        Telling(Some(Box::new(Draft { observer, view, call, begun: None, happened: None, steps: Vec::new() })))
    }

    /// It has begun, with this first directive; `known` says what the gate knew.
    pub(super) fn begun(&mut self, known: impl FnOnce() -> Option<(Arc<Settings>, Offers)>, first: &Directive) {
        let Some(draft) = &mut self.0 else { return };
        draft.begun = known().map(|(settings, offers)| (settings, offers, first.clone()));
    }

    /// Something has happened; `offers` says what servers have offered by now.
    pub(super) fn happened(&mut self, offers: impl FnOnce() -> Option<Offers>, event: &Event) {
        let Some(draft) = &mut self.0 else { return };
        draft.happened = Some((offers().unwrap_or_default(), event.clone()));
    }

    /// This follows from what happened.
    pub(super) fn follows(&mut self, directive: &Directive) {
        let Some(draft) = &mut self.0 else { return };
        if let Some((offers, event)) = draft.happened.take() {
            draft.steps.push(Step { offers, event, directive: directive.clone() });
        }
    }

    /// The call is over.
    pub(super) fn ended(self, called: &Called) {
        let Some(draft) = self.0 else { return };
        let Draft { observer, view, call, begun, steps, .. } = *draft;
        let Some((settings, offers, first)) = begun else { return };
        let answer = called.answer.as_ref().map(|reply| reply.json().to_owned());
        observer.take(Story { view, settings, offers, call, first, steps, answer });
    }
}

impl Story {
    /// Who made the call, by the name that the gateway knows.
    pub fn principal(&self) -> Option<&str> {
        self.view.principal.as_deref()
    }

    /// What was to be done, in order.
    pub fn directives(&self) -> impl Iterator<Item = &Directive> {
        std::iter::once(&self.first).chain(self.steps.iter().map(|step| &step.directive))
    }

    /// About how much memory it takes, beside what it shares with others.
    pub fn bytes(&self) -> usize {
        let result = |directive: &Directive| match directive {
            Directive::Done(result) => {
                let parts = [&result.structured, &result.more, &result.answer].into_iter().flatten();
                result.text.len() + parts.chain(&result.content).map(String::len).sum::<usize>()
            }
            Directive::Request(request) => request.params.len(),
            Directive::Ask(question) => question.arguments.len(),
            Directive::Condense(oversize) => oversize.text.len(),
            _ => 0,
        };
        let event = |step: &Step| match &step.event {
            Event::Answered(json) => json.len(),
            Event::Condensed(condensed) => condensed.summary.as_ref().map_or(0, String::len),
            _ => 0,
        };
        let answer = self.answer.as_ref().map_or(0, String::len);
        SMALL
            + self.call.arguments.len()
            + answer
            + self.directives().map(result).sum::<usize>()
            + self.steps.iter().map(event).sum::<usize>()
    }
}

/// What a story takes whatever is told in it.
const SMALL: usize = 1024;
