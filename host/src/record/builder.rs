//! Builds the record of a call without secrets.
//!
//! A record must replay to its own directives. If nothing had to be masked, these are the directives of the call
//! itself. Otherwise the component runs once more on the masked call, and the record holds what it decides then; only
//! such calls pay for a second run.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::digest::ContentDigest;
use super::directive::RecordedDirective;
use super::folder::SharedPart;
use super::keyed::{KeyedOffers, KeyedSettings};
use super::line::{MaskedPart, Record, VERSION};
use super::replay::{ReplayCall, ReplayError, Replayer};
use super::steps::{RecordedStep, steps};
use super::store::{PartStore, RecordError, ToolMasks};
use super::surroundings::CallSurroundings;
use super::writer::RecordWriter;
use crate::calendar::{Utc, millis};
use crate::config::secrets::Secrets;
use crate::finished_call::FinishedCall;
use crate::logic::types::execution::{Condensed, Directive, Event, Failed, Settings, ToolCall, ToolResult};
use crate::logic::types::{Failure, RpcFailure, ToolRef, masking};
use crate::logic::{CallHistory, Component};

/// Builds and writes records.
pub(super) struct RecordBuilder {
    component: Component,
    digest: Arc<str>,
    raw: bool,
    store: PartStore,
    /// Replays masked calls; created when it is first needed.
    replayer: Option<Replayer>,
    line: Vec<u8>,
}

impl RecordBuilder {
    pub(super) fn new(component: Component, secrets: Arc<Mutex<Secrets>>, raw: bool) -> Self {
        let digest = component.digest().into();
        RecordBuilder { component, digest, raw, store: PartStore::new(secrets), replayer: None, line: Vec::new() }
    }

    /// Records a finished call.
    pub(super) fn write(&mut self, finished: FinishedCall, writer: &mut RecordWriter) -> Result<(), RecordError> {
        let FinishedCall { history, at, latency, principal, approver, answer, limit } = finished;
        let CallHistory { settings, call, offers, events, directives } = history;
        let is_clean = matches!(directives.last(), Some(Directive::Done(ToolResult { clean: true, .. })));
        let ToolCall { id, name, arguments } = call;
        writer.store_part(SharedPart::Component, &self.digest, self.component.bytes())?;
        let settings = self.store.settings(&settings, writer)?;
        let masks = !self.raw && masks_anything(&settings.shared.value);
        let key = match masks {
            true => self.store.masks_key(&settings.shared.value),
            false => Arc::from(""),
        };
        let (component, replayer) = (&self.component, &mut self.replayer);
        let mut mask = |server: &str, json: &str| -> Result<String, RecordError> {
            Ok(start_replayer(replayer, component)?.mask_json(&settings.shared, server, json)?)
        };
        let mut tool_masks = ToolMasks { key, mask: &mut mask };
        let begun = self.store.offers(&offers, &mut tool_masks, writer)?;
        let mut hidden = settings.hidden || begun.hidden;
        let (mut steps, offered) = steps(&offers, directives, events, answer, self.raw);
        let mut changes = Vec::with_capacity(steps.len());
        for (step, now) in steps.iter_mut().zip(offered) {
            let mut change = None;
            if let Some(now) = now {
                let stored = self.store.offers(&now, &mut tool_masks, writer)?;
                hidden |= stored.hidden;
                change = Some(stored.shared).filter(|change| change.key != begun.shared.key);
            }
            step.catalog = change.as_ref().map(|offers| offers.key.to_string());
            changes.push(change);
        }
        let mut record = Record {
            v: VERSION,
            id,
            at: Utc::from(at).to_string(),
            ms: millis(latency),
            principal: principal.map(|principal| principal.to_string()),
            approver: approver.map(|approver| approver.to_string()),
            component: self.digest.to_string(),
            settings: settings.shared.key.to_string(),
            catalog: begun.shared.key.to_string(),
            name,
            arguments,
            steps,
            result: None,
            limit,
            masked: hidden.then_some(MaskedPart::Catalog).into_iter().collect(),
            unreplayable: None,
            run: None,
        };
        record.result = caller_digest(&record.steps);
        if masks {
            self.mask(&settings.shared, is_clean, &mut record)?;
        }
        if record.masked.is_empty() {
            let digest = writer.seal(&mut record, &mut self.line);
            if self.is_clean() {
                return self.append(writer, digest);
            }
            // The line holds a secret of the configuration.
        }
        self.redact(&mut record);
        record.masked.dedup();
        self.write_hidden(record, &settings.shared, &begun.shared, changes, writer)
    }

    /// Records a masked call with the directives that the component gives for it.
    fn write_hidden(
        &mut self,
        mut record: Record,
        settings: &KeyedSettings,
        offers: &KeyedOffers,
        changes: Vec<Option<KeyedOffers>>,
        writer: &mut RecordWriter,
    ) -> Result<(), RecordError> {
        let call = record.call();
        let around = &CallSurroundings::none();
        let script = ReplayCall { call: &call, settings, offers, steps: &record.steps, changes, around };
        let directives = self.replayer()?.replay(script)?;
        if directives.iter().map(RecordedDirective::kind).eq(record.directives().map(RecordedDirective::kind)) {
            for (step, directive) in record.steps.iter_mut().zip(directives) {
                step.directive = directive;
            }
        } else {
            // A record that cannot be replayed is better than none.
            record.unreplayable = Some("the outcome depends on a masked value".to_owned());
            self.mask_directives(settings, &mut record)?;
        }
        let digest = writer.seal(&mut record, &mut self.line);
        if !self.is_clean() {
            return Err(RecordError::Withheld);
        }
        self.append(writer, digest)
    }

    fn append(&mut self, writer: &mut RecordWriter, digest: String) -> Result<(), RecordError> {
        if writer.is_too_long(&self.line) {
            return Err(RecordError::TooLong(self.line.len()));
        }
        Ok(writer.append(&self.line, digest)?)
    }

    /// Reports whether the line holds no secret of the configuration.
    fn is_clean(&self) -> bool {
        let Ok(line) = str::from_utf8(&self.line) else { return false };
        matches!(self.store.secrets().redact(line), Cow::Borrowed(_))
    }

    /// Masks the arguments and answers of the call with its own masks, also what the caller got unmasked: the state that a
    /// server wants back, images and audio. If the result is clean, the last answer has none of this, and nothing that
    /// the masks would find.
    fn mask(&mut self, settings: &KeyedSettings, is_clean: bool, record: &mut Record) -> Result<(), RecordError> {
        let (server, read) = target_server(&record.steps);
        let masks = CallMasks::new(settings, server.as_deref());
        let replayer = self.replayer()?;
        let arguments = match is_json(&record.arguments) {
            true => masks.json(replayer, &record.arguments)?,
            false => masks.text(replayer, &record.arguments)?,
        };
        let as_read = match &read {
            Some(read) if *read == record.arguments => arguments.clone(),
            Some(read) => masks.json(replayer, read)?,
            None => String::new(),
        };
        if arguments != record.arguments || read.as_ref().is_some_and(|read| *read != as_read) {
            // Arguments as they were read say more than a text with gaps.
            record.arguments = if as_read.starts_with('{') { as_read } else { arguments };
            record.masked.push(MaskedPart::Arguments);
        }
        let last = record.steps.iter().rposition(|step| matches!(step.event, Some(Event::Answered(_))));
        let clean = last.filter(|_| is_clean);
        for (at, step) in record.steps.iter_mut().enumerate() {
            let Some(event) = &mut step.event else { continue };
            let mut changed = false;
            if let Event::Answered(json) = event
                && clean != Some(at)
            {
                let mut masked = masks.json(replayer, json)?;
                changed = masked != *json;
                if json.starts_with('{') && !masked.starts_with('{') {
                    masked = format!(r#"{{"content":[{{"type":"text","text":{masked}}}]}}"#);
                }
                *json = masked;
            }
            for text in texts(event) {
                let masked = masks.text(replayer, text)?;
                changed |= masked != *text;
                *text = masked;
            }
            if changed {
                record.masked.push(MaskedPart::Answer);
            }
        }
        Ok(())
    }

    /// Removes the secrets of the configuration from the name, arguments and answers of the call.
    fn redact(&self, record: &mut Record) {
        let secrets = self.store.secrets();
        let hidden = &mut record.masked;
        let mut redact = |text: &mut String, what| {
            if let Cow::Owned(clean) = secrets.redact(text) {
                *text = clean;
                hidden.push(what);
            }
        };
        redact(&mut record.name, MaskedPart::Name);
        redact(&mut record.arguments, MaskedPart::Arguments);
        for step in &mut record.steps {
            let answer = step.forwarded.iter_mut().filter_map(|forwarded| forwarded.answer.as_mut());
            let answered = step.event.iter_mut().flat_map(|event| match event {
                Event::Answered(json) => vec![json],
                other => texts(other),
            });
            answer.chain(answered).for_each(|text| redact(text, MaskedPart::Answer));
        }
    }

    /// Masks the directives in the same way as the call itself.
    fn mask_directives(&mut self, settings: &KeyedSettings, record: &mut Record) -> Result<(), RecordError> {
        let (server, _) = target_server(&record.steps);
        let masks = CallMasks::new(settings, server.as_deref());
        let secrets = self.store.secrets().clone();
        let masked = !self.raw && masks_anything(&settings.value);
        for step in &mut record.steps {
            let text = match &mut step.directive {
                RecordedDirective::Request(sent) => &mut sent.arguments,
                RecordedDirective::Ask(asked) => &mut asked.arguments,
                RecordedDirective::Done(ended) => match &mut ended.text {
                    Some(text) => text,
                    None => continue,
                },
                _ => continue,
            };
            let masked = match masked && is_json(text) {
                true => masks.json(self.replayer()?, text)?,
                false => text.clone(),
            };
            *text = secrets.redact(&masked).into_owned();
        }
        Ok(())
    }

    fn replayer(&mut self) -> Result<&mut Replayer, RecordError> {
        start_replayer(&mut self.replayer, &self.component)
    }
}

/// Returns the replayer, and creates it when it is first needed.
fn start_replayer<'p>(
    replayer: &'p mut Option<Replayer>,
    component: &Component,
) -> Result<&'p mut Replayer, RecordError> {
    match replayer {
        Some(known) => Ok(known),
        None => Ok(replayer.insert(Replayer::new(component.clone()).map_err(ReplayError::from)?)),
    }
}

/// Returns the texts of an event that others wrote and that may hold secrets; JSON is not among them.
fn texts(event: &mut Event) -> Vec<&mut String> {
    match event {
        Event::Failed(Failed {
            failure:
                Failure::Connect(text)
                | Failure::Protocol(text)
                | Failure::QueueFull(text)
                | Failure::NeedsAuth(text)
                | Failure::RestartFailed(text)
                | Failure::RulesUnavailable(text)
                | Failure::Rpc(RpcFailure { message: text, .. }),
            ..
        }) => vec![text],
        Event::Condensed(Condensed { kept, summary }) => kept.iter_mut().chain(summary).collect(),
        _ => Vec::new(),
    }
}

/// Returns the length and digest of what the caller got.
fn caller_digest(steps: &[RecordedStep]) -> Option<ContentDigest> {
    let RecordedStep { forwarded, directive: RecordedDirective::Done(ended), .. } = steps.last()? else { return None };
    if let Some(forwarded) = forwarded {
        return Some(forwarded.digest.clone());
    }
    ended.text.as_deref().map(ContentDigest::of).or_else(|| ended.content.clone())
}

/// Returns the server of a call that was planned, and the arguments as they were read. A call that was refused before
/// may have meant any server.
fn target_server(steps: &[RecordedStep]) -> (Option<String>, Option<String>) {
    let first = steps.iter().map(|step| &step.directive).find(|directive| directive.arguments().is_some());
    let server = first.and_then(RecordedDirective::tool).map(|ToolRef { server, .. }| server.clone());
    (server, first.and_then(RecordedDirective::arguments).cloned())
}

/// The masks that apply to a call.
struct CallMasks<'a> {
    settings: &'a KeyedSettings,
    servers: Vec<&'a str>,
}

impl<'a> CallMasks<'a> {
    /// Returns the masks of the call's own server, or those of every server with masks if its own is unknown.
    fn new(settings: &'a KeyedSettings, own: Option<&'a str>) -> Self {
        let servers = match own {
            Some(own) => vec![own],
            // The masks of each server include those for all servers.
            None if settings.value.server_settings.is_empty() => vec![""],
            None => settings.value.server_settings.iter().map(|masks| masks.server.as_str()).collect(),
        };
        CallMasks { settings, servers }
    }

    fn json(&self, replayer: &mut Replayer, json: &str) -> Result<String, ReplayError> {
        self.servers.iter().try_fold(json.to_owned(), |json, server| replayer.mask_json(self.settings, server, &json))
    }

    /// Masks a text that is not JSON.
    fn text(&self, replayer: &mut Replayer, text: &str) -> Result<String, ReplayError> {
        self.servers.iter().try_fold(text.to_owned(), |text, server| replayer.mask_text(self.settings, server, &text))
    }
}

fn is_json(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn masks_anything(settings: &Settings) -> bool {
    let any =
        |masks: &masking::Masks| !(masks.groups.is_empty() && masks.patterns.is_empty() && masks.custom.is_empty());
    any(&settings.masks) || settings.server_settings.iter().any(|server| any(&server.masks))
}
