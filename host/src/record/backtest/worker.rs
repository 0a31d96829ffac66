//! Puts one record after the other to the component that decided it, or to a candidate.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use super::super::candidate::{Candidate, Tried, Whose, masks_less, nobody};
use super::super::compare::{Difference, Kind, compare};
use super::super::keys::Keys;
use super::super::lend;
use super::super::line::{self, Damage, Hidden, Record};
use super::super::meant::Meant;
use super::super::play::{PlayError, Player, Script};
use super::super::reader::{Found, PartError, Spot};
use super::super::report::{Example, Report};
use super::super::said::{Said, is_answer};
use super::{BacktestError, Batch, Components, Wanted};
use crate::decide::Decide;
use crate::logic::types::{ToolRef, filtering};
use crate::logic::{Component, EMBEDDED_DIGEST, LogicError};

/// Who replays records, with instances of its own.
pub(super) struct Worker<'a> {
    shared: &'a Components<'a>,
    players: HashMap<String, Player>,
    tried: Tried,
    keys: Keys,
    meant: Meant,
    /// Which tools are wanted under which names, as far as is known.
    tools: HashMap<(Option<(String, String)>, String), bool>,
    report: Report,
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Components<'a>) -> Self {
        let (players, tried, keys, meant, tools, report) = Default::default();
        Worker { shared, players, tried, keys, meant, tools, report }
    }

    pub(super) fn run(mut self, batches: &Mutex<Receiver<Batch>>) -> Result<Report, BacktestError> {
        loop {
            let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = batch else { return Ok(self.report) };
            for (spot, found, line) in batch {
                if self.shared.is_over() {
                    break;
                }
                match found {
                    Found::Line => self.line(&spot, &line)?,
                    Found::Unfinished => self.report.unfinished += 1,
                    Found::Damaged(damage) => {
                        // What is missing before it does not make it less sound.
                        let sound = damage == Damage::OutOfOrder && line::read(&line).is_ok();
                        self.report.damaged(spot.clone(), damage);
                        if sound {
                            self.line(&spot, &line)?;
                        }
                    }
                }
            }
        }
    }

    fn line(&mut self, spot: &Spot, line: &[u8]) -> Result<(), BacktestError> {
        let record = match line::read(line) {
            Ok(record) => record,
            Err(damage) => {
                self.report.damaged(spot.clone(), damage);
                return Ok(());
            }
        };
        if !self.is_wanted(&record)? {
            self.report.left_out += 1;
            return Ok(());
        }
        self.report.count(&record);
        if record.unreplayable.is_some() && self.shared.candidate.is_same() {
            self.report.unreplayable += 1;
            return Ok(());
        }
        let (id, at) = (record.id.clone(), record.at.clone());
        match self.replay(spot, record) {
            Ok(()) => {}
            Err(Stopped::Missing(what)) => *self.report.missing.entry(what).or_default() += 1,
            Err(Stopped::Broken(why)) => {
                self.shared.breaks.fetch_add(1, Ordering::Relaxed);
                // What an instance that broke off was in the middle of is of no use to the next call.
                self.players.clear();
                let example = Example { id, at, was: String::new(), now: why.to_owned() };
                self.report.broke(spot, example, why);
            }
            Err(Stopped::Logic(error)) => return Err(error.into()),
        }
        Ok(())
    }

    fn replay(&mut self, spot: &Spot, record: Record) -> Result<(), Stopped> {
        let Candidate { component, config } = &self.shared.candidate;
        let parts = &self.shared.parts;
        let recorded = parts.settings(&record.settings)?;
        let offers = parts.offers(&record.catalog)?;
        let changes = record.steps.iter().map(|step| step.catalog.as_deref().map(|digest| parts.offers(digest)));
        let changes = changes.map(Option::transpose).collect::<Result<Vec<_>, _>>()?;
        let digest = component.as_ref().map_or(record.component.as_str(), Component::digest);
        if !self.players.contains_key(digest) {
            let loaded = match component {
                Some(component) => component.clone(),
                None => self.shared.get(digest).map_err(Stopped::Missing)?,
            };
            self.players.insert(digest.to_owned(), Player::new(loaded)?);
        }
        let player = self.players.get_mut(digest).ok_or(LogicError::Dead)?;
        let settings = match config {
            Some(config) => {
                let whose = Whose { settings: &recorded, principal: record.principal.as_deref(), limit: record.limit };
                self.tried.settings(config, whose, player)?
            }
            None => Some(recorded.clone()),
        };
        let Some(settings) = settings else {
            self.differ(spot, &record, compare(record.said(), &[nobody()]));
            return Ok(());
        };
        let same = digest == record.component && *settings.key == *record.settings;
        let (id, name, arguments) = (record.id.clone(), record.name.clone(), record.arguments.clone());
        let call = crate::logic::types::execution::ToolCall { id, name, arguments };
        let script = Script { call: &call, settings: &settings, offers: &offers, steps: &record.steps, changes };
        let now = match same {
            true => player.play(script)?,
            false => lend::play(player, script, &mut self.keys, |server| parts.offered(server))?,
        };
        // A call that breaks the component off ends with a result; but that is none that it has given.
        if let Some(fault) = player.take_fault() {
            return Err(PlayError::from(fault).into());
        }
        if record.unreplayable.is_some() {
            self.judge_rules(spot, &record, &now);
            return Ok(());
        }
        // What the masks of then took out of an answer is gone, whatever those of the candidate would leave.
        if record.masked.contains(&Hidden::Answer)
            && let Some(Said::Done(ended)) = now.last()
            && is_answer(&ended.code)
            && masks_less(&recorded.value, &settings.value, ended.server.as_deref().unwrap_or_default())
        {
            self.report.unjudged += 1;
        }
        let alike =
            now.len() == record.steps.len() && now.iter().zip(&record.steps).all(|(now, step)| *now == step.say);
        if alike {
            self.report.same += 1;
        } else if same {
            self.report.mismatch(spot, record, now);
        } else {
            let differences = player.differences((&recorded, &record.steps), (&settings, &now))?;
            self.differ(spot, &record, differences);
        }
        Ok(())
    }

    /// Judges a call of which what is hidden decided how it went on by what comes before that: whether the rules let it through,
    /// and to which tool.
    fn judge_rules(&mut self, spot: &Spot, record: &Record, now: &[Said]) {
        let hidden = record.masked.iter().any(|hidden| matches!(hidden, Hidden::Name | Hidden::Catalog));
        let mut differences = compare(record.said(), now);
        differences.retain(|difference| !hidden && matches!(difference.kind, Kind::Denied | Kind::Rerouted));
        if !differences.is_empty() {
            return self.differ(spot, record, differences);
        }
        self.report.unreplayable += 1;
        // One that was sent is not let through for the first time, whatever is hidden in it.
        let sent = record.steps.iter().any(|step| matches!(step.say, Said::Request(_)));
        self.report.rules_unjudged += u64::from(hidden || !sent);
    }

    fn differ(&mut self, spot: &Spot, record: &Record, differences: Vec<Difference>) {
        // Other reasons for the same end are nothing that anybody outside could see.
        if differences.iter().all(|difference| difference.kind == Kind::Trace) {
            self.report.same += 1;
        }
        // By the name it was called with, where no tool was found.
        let tool = self.tool(record).map_or_else(|| record.name.clone(), |(server, tool)| format!("{server}.{tool}"));
        self.report.differ(spot, record, &tool, differences);
    }

    /// The tool that a call was to, or that it would have been to had it not been kept out.
    fn tool(&mut self, record: &Record) -> Option<(String, String)> {
        if let Some(tool) = record.tool() {
            return Some(tool);
        }
        let Worker { shared, players, keys, meant, .. } = self;
        let parts = &shared.parts;
        let (settings, offers) = (parts.settings(&record.settings).ok()?, parts.offers(&record.catalog).ok()?);
        // What a name means is no question of the candidate.
        let player = embedded(shared, players).ok()?;
        meant.tool(player, keys, parts, (&settings, &offers), &record.name).ok()?
    }

    fn is_wanted(&mut self, record: &Record) -> Result<bool, BacktestError> {
        let Wanted { since, tool, principal } = &self.shared.test.wanted;
        if since.as_ref().is_some_and(|since| record.at < *since)
            || principal.as_ref().is_some_and(|principal| record.principal.as_ref() != Some(principal))
        {
            return Ok(false);
        }
        let Some(pattern) = tool else { return Ok(true) };
        let meant = self.tool(record);
        let key = (meant, record.name.clone());
        if let Some(known) = self.tools.get(&key) {
            return Ok(*known);
        }
        let Ok(player) = embedded(self.shared, &mut self.players) else { return Ok(true) };
        let mut names = vec![record.name.clone()];
        let place = match &key.0 {
            Some((server, tool)) => Some((server.clone(), tool.clone())),
            // A tool that there never was can still be asked for by any form of its name.
            None => {
                let name = player.logic().normalize(&record.name)?;
                player.logic().split(&name)?.ok().map(|ToolRef { server, tool }| (server, tool))
            }
        };
        if let Some((server, tool)) = place {
            names.extend([".", "__"].map(|between| format!("{server}{between}{tool}")));
            names.push(tool);
        }
        let rules = filtering::Rules { allow: Some(vec![pattern.clone()]), deny: Vec::new() };
        let wanted = !player.logic().filter(&rules, &names)?.is_empty();
        if self.tools.len() >= MOST_TOOLS {
            self.tools.clear();
        }
        self.tools.insert(key, wanted);
        Ok(wanted)
    }
}

/// An instance of the component that this toolgate has built in.
fn embedded<'p>(shared: &Components<'_>, players: &'p mut HashMap<String, Player>) -> Result<&'p mut Player, Stopped> {
    match players.entry(EMBEDDED_DIGEST.to_owned()) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(new) => Ok(new.insert(Player::new(shared.get(EMBEDDED_DIGEST).map_err(Stopped::Missing)?)?)),
    }
}

/// Why a call was not replayed.
enum Stopped {
    /// What it needs cannot be had.
    Missing(String),
    /// The component broke off, and why.
    Broken(&'static str),
    Logic(LogicError),
}

impl From<PartError> for Stopped {
    fn from(error: PartError) -> Self {
        Stopped::Missing(error.to_string())
    }
}

impl From<LogicError> for Stopped {
    fn from(error: LogicError) -> Self {
        PlayError::from(error).into()
    }
}

impl From<PlayError> for Stopped {
    fn from(error: PlayError) -> Self {
        match error {
            PlayError::Settings(_) => Stopped::Missing(error.to_string()),
            _ if error.is_broken_off() => Stopped::Broken(error.in_short()),
            PlayError::Logic(error) => Stopped::Logic(error),
        }
    }
}

const MOST_TOOLS: usize = 10_000;
