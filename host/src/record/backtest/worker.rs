//! Replays one record after the other on the component that decided it, or on a candidate.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;

use super::super::candidate::{Candidate, CandidateSettings, masks_less, unknown_principal};
use super::super::compare::compare;
use super::super::difference::{Difference, DifferenceKind};
use super::super::digest_cache::DigestCache;
use super::super::directive::{RecordedDirective, is_answer};
use super::super::latest_offers;
use super::super::line::{self, LineDamage, MaskedPart, Record};
use super::super::reader::{LinePosition, LineState};
use super::super::replay::{ReplayCall, ReplayError, Replayer};
use super::super::report::{BacktestReport, CallExample};
use super::super::surroundings::{CallSurroundings, ReplayedAgents, time_of};
use super::super::tool_resolver::ToolResolver;
use super::{BacktestContext, BacktestError, LineBatch, RecordFilter};
use crate::decide::Decide;
use crate::lock::lock;
use crate::logic::types::{ToolRef, filtering};
use crate::logic::{Component, EMBEDDED_DIGEST};

/// A worker that replays records on component instances of its own.
pub(super) struct BacktestWorker<'a> {
    shared: &'a BacktestContext<'a>,
    replayers: HashMap<String, Replayer>,
    candidate_settings: CandidateSettings,
    digests: DigestCache,
    resolver: ToolResolver,
    /// Whether each tool, under each name it was called by, passes the filter.
    tools: HashMap<(Option<(String, String)>, String), bool>,
    report: BacktestReport,
    /// What agents would have seen; with rules, there is only one worker.
    agents: ReplayedAgents,
}

impl<'a> BacktestWorker<'a> {
    pub(super) fn new(shared: &'a BacktestContext<'a>) -> Self {
        let (replayers, candidate_settings, digests, resolver, tools, report, agents) = Default::default();
        BacktestWorker { shared, replayers, candidate_settings, digests, resolver, tools, report, agents }
    }

    /// Returns what was found.
    pub(super) fn into_report(self) -> BacktestReport {
        self.report
    }

    pub(super) fn run(mut self, batches: &Mutex<Receiver<LineBatch>>) -> Result<BacktestReport, BacktestError> {
        loop {
            let batch = lock(batches).recv();
            let Ok(batch) = batch else { return Ok(self.report) };
            for (spot, found, line) in batch {
                if self.shared.is_aborted() {
                    break;
                }
                match found {
                    LineState::Complete => self.line(&spot, &line)?,
                    LineState::Unfinished => self.report.add_unfinished(spot),
                    LineState::Damaged(damage) => {
                        // A line is intact even if the line before it is missing.
                        let sound = damage == LineDamage::OutOfOrder && line::read(&line).is_ok();
                        self.report.add_damage(spot.clone(), damage);
                        if sound {
                            self.line(&spot, &line)?;
                        }
                    }
                }
            }
        }
    }

    fn line(&mut self, spot: &LinePosition, line: &[u8]) -> Result<(), BacktestError> {
        let record = match line::read(line) {
            Ok(record) => record,
            Err(damage) => {
                self.report.add_damage(spot.clone(), damage);
                return Ok(());
            }
        };
        self.take(spot, record)
    }

    /// Replays a record if the filter selects it.
    pub(super) fn take(&mut self, spot: &LinePosition, record: Record) -> Result<(), BacktestError> {
        if !self.is_wanted(spot.folder, &record)? {
            self.report.skipped += 1;
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
            Err(error) if error.is_crash() => {
                let why = error.summary();
                self.shared.count_crash();
                // A crashed instance cannot be used for the next call.
                self.replayers.clear();
                let example = CallExample { id, at, was: String::new(), now: why.to_owned() };
                self.report.crashed.entry(why).or_default().add(spot, example);
            }
            Err(ReplayError::Logic(error)) => return Err(error.into()),
            Err(missing) => *self.report.missing.entry(missing.to_string()).or_default() += 1,
        }
        Ok(())
    }

    fn replay(&mut self, spot: &LinePosition, record: Record) -> Result<(), ReplayError> {
        let Candidate { component, config } = &self.shared.candidate;
        let (shared, parts) = (self.shared, self.shared.parts.folder(spot.folder));
        let recorded = parts.settings(&record.settings)?;
        let offers = parts.offers(&record.catalog)?;
        let changes = record.steps.iter().map(|step| step.catalog.as_deref().map(|digest| parts.offers(digest)));
        let changes = changes.map(Option::transpose).collect::<Result<Vec<_>, _>>()?;
        let digest = component.as_ref().map_or(record.component.as_str(), Component::digest);
        let component = match component {
            Some(component) => component.clone(),
            None => shared.component(spot.folder, digest).map_err(ReplayError::Missing)?,
        };
        let replayer = start(&mut self.replayers, component)?;
        let settings = match config {
            Some(config) => {
                let principal = record.principal.as_deref();
                self.candidate_settings.settings(config, &recorded, principal, record.limit, replayer)?
            }
            None => Some(recorded.clone()),
        };
        let Some(settings) = settings else {
            self.count_differences(spot, &record, compare(record.directives(), &[unknown_principal()]));
            return Ok(());
        };
        let same = digest == record.component && *settings.key == *record.settings;
        let call = record.call();
        let seen = self.agents.call(config.as_deref(), record.principal.as_deref(), time_of(&record.at));
        let count = |rules: &[String]| seen.count(rules);
        let around = &match same {
            true => CallSurroundings::none(),
            false => seen.surroundings(&count),
        };
        let steps = &record.steps;
        let script = ReplayCall { call: &call, settings: &settings, offers: &offers, steps, changes, around };
        let now = match same {
            true => replayer.replay(script)?,
            false => latest_offers::replay_with_offers(replayer, script, &mut self.digests, |server| {
                shared.parts.latest_offer(server)
            })?,
        };
        seen.learn(&now);
        // A call that crashes the component still ends with a result, but the component did not produce it.
        if let Some(fault) = replayer.take_fault() {
            return Err(fault.into());
        }
        if record.unreplayable.is_some() {
            self.judge_rules(spot, &record, &now);
            return Ok(());
        }
        // The recorded answer is already masked, so nobody knows what fewer masks would leave of it.
        if record.masked.contains(&MaskedPart::Answer)
            && let Some(RecordedDirective::Done(ended)) = now.last()
            && is_answer(ended.code)
            && masks_less(&recorded.value, &settings.value, ended.server())
        {
            self.report.unjudged += 1;
        }
        if record.directives().eq(&now) {
            self.report.same += 1;
        } else if same {
            self.report.add_mismatch(spot, record, now);
        } else {
            let differences = replayer.differences((&recorded, &record.steps), (&settings, &now))?;
            self.count_differences(spot, &record, differences);
        }
        Ok(())
    }

    /// Judges a call whose outcome depends on a masked value, as far as possible: whether the rules let it through, and
    /// to which tool.
    fn judge_rules(&mut self, spot: &LinePosition, record: &Record, now: &[RecordedDirective]) {
        let hidden = record.masked.iter().any(|hidden| matches!(hidden, MaskedPart::Name | MaskedPart::Catalog));
        let mut differences = compare(record.directives(), now);
        differences.retain(|difference| {
            !hidden && matches!(difference.kind, DifferenceKind::Denied | DifferenceKind::Rerouted)
        });
        if !differences.is_empty() {
            return self.count_differences(spot, record, differences);
        }
        self.report.unreplayable += 1;
        // A call that was sent cannot become newly allowed.
        let sent = record.steps.iter().any(|step| matches!(step.directive, RecordedDirective::Request(_)));
        self.report.rules_unjudged += u64::from(hidden || !sent);
    }

    fn count_differences(&mut self, spot: &LinePosition, record: &Record, differences: Vec<Difference>) {
        // Callers cannot see that the reasons differ if the end is the same.
        if differences.iter().all(|difference| difference.kind == DifferenceKind::Trace) {
            self.report.same += 1;
        }
        // If no tool was found, group by the name that was called.
        let tool = self
            .tool(spot.folder, record)
            .map_or_else(|| record.name.clone(), |tool| format!("{}.{}", tool.server, tool.tool));
        self.report.add_differences(spot, record, &tool, differences);
    }

    /// Returns the tool that a call went to, or would have gone to if it had not been denied.
    fn tool(&mut self, folder: usize, record: &Record) -> Option<ToolRef> {
        if let Some(tool) = record.tool() {
            return Some(tool.clone());
        }
        let BacktestWorker { shared, replayers, digests, resolver, .. } = self;
        let parts = shared.parts.folder(folder);
        let (settings, offers) = (parts.settings(&record.settings).ok()?, parts.offers(&record.catalog).ok()?);
        // The meaning of a name does not depend on the candidate, so ask the built-in component.
        let replayer = embedded(shared, replayers).ok()?;
        resolver.resolve(replayer, digests, &shared.parts, (&settings, &offers), &record.name).ok()?
    }

    fn is_wanted(&mut self, folder: usize, record: &Record) -> Result<bool, BacktestError> {
        let RecordFilter { since, tool, principal } = self.shared.filter;
        if since.as_ref().is_some_and(|since| record.at < *since)
            || principal.as_ref().is_some_and(|principal| record.principal.as_ref() != Some(principal))
        {
            return Ok(false);
        }
        let Some(pattern) = tool else { return Ok(true) };
        let meant = self.tool(folder, record);
        let key = (meant.as_ref().map(|tool| (tool.server.clone(), tool.tool.clone())), record.name.clone());
        if let Some(known) = self.tools.get(&key) {
            return Ok(*known);
        }
        let Ok(replayer) = embedded(self.shared, &mut self.replayers) else { return Ok(true) };
        let mut names = vec![record.name.clone()];
        let place = match meant {
            Some(tool) => Some(tool),
            // The filter may also name a tool that never existed, in any form.
            None => replayer.logic().split(&record.name)?.ok(),
        };
        if let Some(ToolRef { server, tool }) = place {
            names.extend([".", "__"].map(|between| format!("{server}{between}{tool}")));
            names.push(tool);
        }
        let rules = filtering::Rules { allow: Some(vec![pattern.clone()]), deny: Vec::new() };
        let wanted = !replayer.logic().filter(&rules, &names)?.is_empty();
        if self.tools.len() >= MOST_TOOLS {
            self.tools.clear();
        }
        self.tools.insert(key, wanted);
        Ok(wanted)
    }
}

/// Returns an instance of the built-in component.
fn embedded<'r>(
    shared: &BacktestContext<'_>,
    replayers: &'r mut HashMap<String, Replayer>,
) -> Result<&'r mut Replayer, ReplayError> {
    start(replayers, shared.component(0, EMBEDDED_DIGEST).map_err(ReplayError::Missing)?)
}

/// Returns an instance of this component, and starts it when it is first needed.
fn start(replayers: &mut HashMap<String, Replayer>, component: Component) -> Result<&mut Replayer, ReplayError> {
    Ok(match replayers.entry(component.digest().to_owned()) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(Replayer::new(component)?),
    })
}

const MOST_TOOLS: usize = 10_000;
