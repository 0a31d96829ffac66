//! The steps of a call, as they are recorded and replayed.

use std::sync::Arc;

use super::directive::RecordedDirective;
use super::event::RecordedEvent;
use super::line::RecordedStep;
use crate::logic::OfferedTools;
use crate::logic::types::execution::{Directive, Event};
use crate::session::Reply;

/// Returns the recorded steps of a call that began with these offered tools, and for each step the offers that had
/// changed before it, where the call depends on them. A result that was passed through is included if `whole` is set,
/// else only its digest.
pub(crate) fn steps(
    begun: &OfferedTools,
    directives: Vec<Directive>,
    events: Vec<(OfferedTools, Event)>,
    answer: Option<Reply>,
    whole: bool,
) -> (Vec<RecordedStep>, Vec<Option<OfferedTools>>) {
    let (mut offered, mut recorded) = (vec![None], vec![None]);
    // The last event has no directive if the call was dropped, so leave it out.
    for (before, (now, event)) in directives.iter().zip(events).take(directives.len().saturating_sub(1)) {
        // Once a call has found its tool, later offers do not affect it.
        let matters = matches!(before, Directive::Connect(_)) && !Arc::ptr_eq(&now, begun);
        offered.push(matters.then_some(now));
        recorded.push(Some(RecordedEvent::from(event)));
    }
    if let (Some(answer), Some(Some(RecordedEvent::Forwarded(forwarded)))) = (answer, recorded.last_mut()) {
        forwarded.set_answer(answer.into_json(), whole);
    }
    let step = |(say, event)| RecordedStep { event, catalog: None, say: RecordedDirective::from(say) };
    (directives.into_iter().zip(recorded).map(step).collect(), offered)
}
