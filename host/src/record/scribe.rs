//! Makes the record of a call: what was decided, on what, and without secrets.
//!
//! What is recorded must replay to what is recorded. Where nothing had to be hidden, the directives are those of the call
//! itself. Where something was, the component is asked once more, here and for nobody, what it says to the hidden form;
//! that costs a second run, and only such calls have it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::folder::Part;
use super::line::{Hidden, Record, Step, VERSION};
use super::play::{PlayError, Player, Script, SharedOffers, SharedSettings};
use super::said::{Digest, Said};
use super::shapes::SettingsShape;
use super::steps::steps;
use super::store::{Store, ToolMasks};
use super::text::{Text, sha256};
use super::told::Told;
use super::writer::Writer;
use crate::calendar::Utc;
use crate::config::secrets::Secrets;
use crate::gate::{Finished, millis};
use crate::logic::types::execution::{Settings, ToolCall};
use crate::logic::types::masking;
use crate::logic::{Component, Past};

/// Why a call was not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error(transparent)]
    Disk(#[from] std::io::Error),
    /// It could not be said without a secret.
    #[error("it holds a secret that cannot be taken out")]
    Withheld,
    /// It is longer than a file may be.
    #[error("its record would have {0} bytes")]
    TooLong(usize),
    #[error(transparent)]
    Play(#[from] PlayError),
}

/// Makes records.
pub(super) struct Scribe {
    component: Component,
    digest: Arc<str>,
    raw: bool,
    store: Store,
    /// Who is asked once more; there is none until that is needed.
    player: Option<Player>,
    line: Vec<u8>,
}

/// What a record has by digest alone.
struct Around {
    settings: SharedSettings,
    offers: SharedOffers,
    /// By step, what had been offered by then, where that was not as before.
    changes: Vec<Option<SharedOffers>>,
}

impl Scribe {
    pub(super) fn new(component: Component, secrets: Arc<Mutex<Secrets>>, raw: bool) -> Self {
        let digest = component.digest().into();
        Scribe { component, digest, raw, store: Store::new(secrets), player: None, line: Vec::new() }
    }

    /// Records a call.
    pub(super) fn write(&mut self, finished: Finished, writer: &mut Writer) -> Result<(), Lost> {
        let Finished { past, at, latency, principal, answer, limit } = finished;
        let Past { settings, call, offers, events, said } = past;
        let ToolCall { id, name, arguments } = call;
        writer.part(Part::Component, &self.digest, self.component.bytes())?;
        let settings = self.store.settings(&settings, writer)?;
        let masks = !self.raw && masks_anything(&settings.shared.value);
        let key = if masks { masks_key(&settings.shared.value) } else { Arc::from("") };
        let (component, player) = (&self.component, &mut self.player);
        let mut mask = |server: &str, json: &str| -> Result<String, Lost> {
            Ok(started(player, component)?.mask_json(&settings.shared, server, json)?)
        };
        let mut tool_masks = ToolMasks { key, mask: &mut mask };
        let begun = self.store.offers(&offers, &mut tool_masks, writer)?;
        let mut hidden = settings.hidden || begun.hidden;
        let (mut steps, offered) = steps(&offers, said, events, answer, self.raw);
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
            component: self.digest.to_string(),
            settings: settings.shared.key.to_string(),
            catalog: begun.shared.key.to_string(),
            name,
            arguments,
            steps,
            result: None,
            limit,
            masked: hidden.then_some(Hidden::Catalog).into_iter().collect(),
            unreplayable: None,
        };
        record.result = given(&record.steps);
        let around = Around { settings: settings.shared, offers: begun.shared, changes };
        if masks {
            self.mask(&around.settings, &mut record)?;
        }
        if record.masked.is_empty() {
            let digest = writer.seal(&record, &mut self.line);
            if self.is_clean() {
                return self.put(writer, digest);
            }
            // Something of the configuration's own is in it.
        }
        self.redact(&mut record);
        record.masked.dedup();
        self.write_hidden(record, around, writer)
    }

    /// Records a call in which something is hidden: with what the component says to the hidden form.
    fn write_hidden(&mut self, mut record: Record, around: Around, writer: &mut Writer) -> Result<(), Lost> {
        let Around { settings, offers, changes } = around;
        let (id, name, arguments) = (record.id.clone(), record.name.clone(), record.arguments.clone());
        let call = ToolCall { id, name, arguments };
        let script = Script { call: &call, settings: &settings, offers: &offers, steps: &record.steps, changes };
        let said = self.player()?.play(script)?;
        let live = record.steps.iter().map(|step| step.say.kind());
        if said.iter().map(Said::kind).eq(live) {
            for (step, say) in record.steps.iter_mut().zip(said) {
                step.say = say;
            }
        } else {
            // What was decided is worth more than that it can be decided again.
            record.unreplayable = Some("what is hidden in it decides how it goes on".to_owned());
            self.hide_said(&settings, &mut record)?;
        }
        let digest = writer.seal(&record, &mut self.line);
        if !self.is_clean() {
            return Err(Lost::Withheld);
        }
        self.put(writer, digest)
    }

    fn put(&mut self, writer: &mut Writer, digest: String) -> Result<(), Lost> {
        if writer.is_too_long(&self.line) {
            return Err(Lost::TooLong(self.line.len()));
        }
        Ok(writer.take(&self.line, digest)?)
    }

    /// Whether the line shows no secret of the configuration.
    fn is_clean(&self) -> bool {
        let Ok(line) = str::from_utf8(&self.line) else { return false };
        matches!(self.store.secrets().redact(line), Cow::Borrowed(_))
    }

    /// Takes what the masks of the call find out of what it was decided on.
    fn mask(&mut self, settings: &SharedSettings, record: &mut Record) -> Result<(), Lost> {
        let (server, read) = place(&record.steps);
        let servers = masking_servers(&settings.value, server.as_deref());
        let player = self.player()?;
        let arguments = match is_json(&record.arguments) {
            true => mask_json(player, settings, &servers, &record.arguments)?,
            false => mask_text(player, settings, &servers, &record.arguments)?,
        };
        let as_read = match &read {
            Some(read) if *read == record.arguments => arguments.clone(),
            Some(read) => mask_json(player, settings, &servers, read)?,
            None => String::new(),
        };
        if arguments != record.arguments || read.as_ref().is_some_and(|read| *read != as_read) {
            // How they were read tells more than a text in which half is missing.
            record.arguments = if as_read.starts_with('{') { as_read } else { arguments };
            record.masked.push(Hidden::Arguments);
        }
        for told in record.steps.iter_mut().filter_map(|step| step.event.as_mut()) {
            let mut changed = false;
            if let Told::Answered(Text(json)) = told {
                let mut masked = mask_json(player, settings, &servers, json)?;
                changed = masked != *json;
                if json.starts_with('{') && !masked.starts_with('{') {
                    masked = format!(r#"{{"content":[{{"type":"text","text":{masked}}}]}}"#);
                }
                *json = masked;
            }
            for text in told.texts() {
                let masked = mask_text(player, settings, &servers, text)?;
                changed |= masked != *text;
                *text = masked;
            }
            if changed {
                record.masked.push(Hidden::Answer);
            }
        }
        Ok(())
    }

    /// Takes the secrets of the configuration out of what a call was decided on.
    fn redact(&self, record: &mut Record) {
        let secrets = self.store.secrets();
        let hidden = &mut record.masked;
        let mut redact = |text: &mut String, what| {
            if let Cow::Owned(clean) = secrets.redact(text) {
                *text = clean;
                hidden.push(what);
            }
        };
        redact(&mut record.name, Hidden::Name);
        redact(&mut record.arguments, Hidden::Arguments);
        for told in record.steps.iter_mut().filter_map(|step| step.event.as_mut()) {
            match told {
                Told::Answered(Text(json)) => redact(json, Hidden::Answer),
                Told::Forwarded(forwarded) => {
                    if let Some(answer) = &mut forwarded.answer {
                        redact(answer, Hidden::Answer);
                    }
                }
                other => other.texts().into_iter().for_each(|text| redact(text, Hidden::Answer)),
            }
        }
    }

    /// Hides in what was said what is hidden in what it was said to.
    fn hide_said(&mut self, settings: &SharedSettings, record: &mut Record) -> Result<(), Lost> {
        let (server, _) = place(&record.steps);
        let servers = masking_servers(&settings.value, server.as_deref());
        let secrets = self.store.secrets().clone();
        let masks = !self.raw && masks_anything(&settings.value);
        for step in &mut record.steps {
            let text = match &mut step.say {
                Said::Request(sent) => &mut sent.params.0,
                Said::Ask(asked) => &mut asked.arguments.0,
                Said::Done(ended) => match &mut ended.text {
                    Some(text) => text,
                    None => continue,
                },
                _ => continue,
            };
            let masked = match masks && is_json(text) {
                true => mask_json(self.player()?, settings, &servers, text)?,
                false => text.clone(),
            };
            *text = secrets.redact(&masked).into_owned();
        }
        Ok(())
    }

    fn player(&mut self) -> Result<&mut Player, Lost> {
        started(&mut self.player, &self.component)
    }
}

/// The player, which is started when it is first needed.
fn started<'p>(player: &'p mut Option<Player>, component: &Component) -> Result<&'p mut Player, Lost> {
    if player.is_none() {
        *player = Some(Player::new(component.clone()).map_err(PlayError::from)?);
    }
    player.as_mut().ok_or(Lost::Withheld)
}

/// What the caller got.
fn given(steps: &[Step]) -> Option<Digest> {
    let Step { event, say: Said::Done(ended), .. } = steps.last()? else { return None };
    if let Some(Told::Forwarded(forwarded)) = event
        && !forwarded.sha256.is_empty()
    {
        return Some(Digest { bytes: forwarded.bytes, sha256: forwarded.sha256.clone() });
    }
    ended.text.as_deref().map(Digest::of).or_else(|| ended.content.clone())
}

/// The server that a call went to or would have, where that is known, and its arguments as they were read.
fn place(steps: &[Step]) -> (Option<String>, Option<String>) {
    let found = steps.iter().find_map(|step| match &step.say {
        Said::Request(sent) => Some((Some(sent.server.clone()), sent.call().map(|(_, arguments)| arguments))),
        Said::Ask(asked) => Some((Some(asked.server.clone()), Some(asked.arguments.0.clone()))),
        Said::Done(ended) => Some((ended.server.clone(), None)),
        _ => None,
    });
    found.unwrap_or_default()
}

/// The servers whose masks are for a call: its own; where that is not known it may have been meant for any that has some.
fn masking_servers<'a>(settings: &'a Settings, own: Option<&'a str>) -> Vec<&'a str> {
    match own {
        Some(own) => vec![own],
        // The masks of all servers are among those of each.
        None if settings.server_masks.is_empty() => vec![""],
        None => settings.server_masks.iter().map(|masks| masks.server.as_str()).collect(),
    }
}

/// JSON as the masks of all of these servers leave it.
fn mask_json(
    player: &mut Player,
    settings: &SharedSettings,
    servers: &[&str],
    json: &str,
) -> Result<String, PlayError> {
    servers.iter().try_fold(json.to_owned(), |json, server| player.mask_json(settings, server, &json))
}

/// The same for a text that is no JSON.
fn mask_text(
    player: &mut Player,
    settings: &SharedSettings,
    servers: &[&str],
    text: &str,
) -> Result<String, PlayError> {
    servers.iter().try_fold(text.to_owned(), |text, server| player.mask_text(settings, server, &text))
}

fn is_json(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// What the masks of a gate are known by.
fn masks_key(settings: &Settings) -> Arc<str> {
    sha256(SettingsShape::masks_of(settings).as_bytes()).into()
}

fn masks_anything(settings: &Settings) -> bool {
    let any =
        |masks: &masking::Masks| !(masks.groups.is_empty() && masks.patterns.is_empty() && masks.custom.is_empty());
    any(&settings.masks) || settings.server_masks.iter().any(|server| any(&server.masks))
}
