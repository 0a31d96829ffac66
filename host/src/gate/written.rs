//! What an agent sends to servers beside the arguments of calls: answers to their questions, and requests other than
//! calls. As with arguments, what an untrusted agent brings itself is a write.

use std::collections::HashSet;

use tracing::warn;

use super::Gate;
use crate::agent::written_label;
use crate::decide::{Decide, LogicResult};
use crate::failure::RequestError;
use crate::gate_settings::all_rules;
use crate::logic::types::rules::{AgentContext, KnownValue};

impl Gate {
    /// Remembers that the agent brings text of its own to a server, if it is untrusted. Call this before the text is
    /// sent; it must not be sent after an error.
    pub(crate) async fn note_written(&self, trace: Option<&str>, server: &str) -> Result<(), RequestError> {
        if !self.asks_for_known() {
            return Ok(());
        }
        let seen = self.circumstances_of_call("", trace, false).await?.context;
        if !is_untrusted(&seen) {
            return Ok(());
        }
        self.learn_written(trace, server).await
    }

    /// Remembers that the agent brings these texts to a server, if it is untrusted and does not know all of them. Call
    /// this before they are sent; they must not be sent after an error.
    pub(crate) async fn note_texts(
        &self,
        trace: Option<&str>,
        server: &str,
        texts: &[String],
    ) -> Result<(), RequestError> {
        if texts.is_empty() || !self.asks_for_known() {
            return Ok(());
        }
        let seen = self.circumstances_of_call("", trace, true).await?.context;
        if !is_untrusted(&seen) || self.knows_all(&seen, texts) {
            return Ok(());
        }
        self.learn_written(trace, server).await
    }

    async fn learn_written(&self, trace: Option<&str>, server: &str) -> Result<(), RequestError> {
        let written = AgentContext { labels: vec![written_label(server)], known: Vec::new() };
        self.learn(trace, written).await
    }

    /// Reports whether an agent knows whole texts. A domain or the beginning of a URL that is listed says nothing about
    /// the rest of a text.
    fn knows_all(&self, seen: &AgentContext, texts: &[String]) -> bool {
        if texts.len() > MAX_TEXTS {
            return false;
        }
        let bytes = texts.iter().map(String::len).sum();
        let config = self.registry().config();
        let known = self.backend().pool.ask(bytes, |logic| {
            let mut known: HashSet<KnownValue> = seen.known.iter().copied().collect();
            known.extend(logic.known_values(&config.settings.known)?);
            are_known(logic, &known, texts)
        });
        known.unwrap_or_else(|error| {
            warn!("the texts of an answer cannot be compared, so they count as unknown: {error}");
            false
        })
    }

    /// Reports whether a rule asks for the values that an agent knows, so that it matters what it writes.
    fn asks_for_known(&self) -> bool {
        let (config, view) = (self.registry().config(), self.view());
        let mut rules = all_rules(&config).map(|configured| &configured.rule).chain(&view.rules);
        rules.any(|rule| rule.condition.as_ref().is_some_and(|condition| condition.contains("known")))
    }
}

fn is_untrusted(seen: &AgentContext) -> bool {
    seen.labels.iter().any(|label| label == UNTRUSTED)
}

/// Reports whether each text has a form that is known.
fn are_known(logic: &mut impl Decide, known: &HashSet<KnownValue>, texts: &[String]) -> LogicResult<bool> {
    for text in texts {
        let forms = logic.known_values(std::slice::from_ref(text))?;
        if !forms.iter().any(|form| known.contains(form)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The label of an agent that has seen what a stranger may have written.
const UNTRUSTED: &str = "untrusted";
/// The most texts that are compared with what an agent knows; more count as unknown.
const MAX_TEXTS: usize = 32;
