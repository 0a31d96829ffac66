//! What a call was, step by step, as it is recorded and played.

use std::sync::Arc;

use super::directive::RecordedDirective;
use super::event::RecordedEvent;
use super::line::RecordedStep;
use crate::logic::OfferedTools;
use crate::logic::types::execution::{Directive, Event};
use crate::session::Reply;

/// The steps of a call that began with these offers; and by step what had been offered by then, where that matters and was not as
/// before. An answer that passed unread is in them, `whole` or by what it is known by.
pub(crate) fn steps(
    begun: &OfferedTools,
    directives: Vec<Directive>,
    events: Vec<(OfferedTools, Event)>,
    answer: Option<Reply>,
    whole: bool,
) -> (Vec<RecordedStep>, Vec<Option<OfferedTools>>) {
    let (mut offered, mut recorded) = (vec![None], vec![None]);
    // An event to which nothing was said is one that nobody lived to hear of.
    for (before, (now, event)) in directives.iter().zip(events).take(directives.len().saturating_sub(1)) {
        // Once a call knows its tool, later offers do not touch it.
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
