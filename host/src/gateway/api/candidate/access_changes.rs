//! Compares everybody's access now with that under a candidate, with the tools that servers have listed.

use std::time::Instant;

use serde_json::{Value, json};

use super::CandidateTrial;
use crate::access::{
    AccessChange, AccessMatrix, AccessRight, AccessSurvey, ChangeDirection, SharedRights, admin_changes,
    anonymous_principal, changes, principals,
};
use crate::config::model::Config;
use crate::gate::{GateError, GateView};
use crate::logic::Supervisor;

/// A comparison of the access now with that under a candidate.
pub(super) struct AccessComparison<'a> {
    pub trial: &'a CandidateTrial,
    pub after: &'a Config,
    pub labels: &'a [String],
}

/// The view of a principal before and after; `None` if the configuration does not know it.
type ViewPair = (Option<GateView>, Option<GateView>);

/// Changes: all are counted, and the first are kept.
#[derive(Default)]
struct FoundChanges {
    granted: usize,
    taken: usize,
    first: Vec<AccessChange>,
}

impl FoundChanges {
    /// Counts these changes, and keeps as many as there is room for beside `listed` others.
    fn of(changes: Vec<AccessChange>, listed: usize) -> Self {
        let granted = changes.iter().filter(|change| change.direction() == ChangeDirection::Granted).count();
        let taken = changes.len() - granted;
        let first = changes.into_iter().take(MOST_CHANGES.saturating_sub(listed)).collect();
        FoundChanges { granted, taken, first }
    }

    /// Adds the changes of a principal.
    fn add(&mut self, principal: &str, own: &Self) {
        self.granted += own.granted;
        self.taken += own.taken;
        let listed = own.first.iter().take(MOST_CHANGES.saturating_sub(self.first.len()));
        self.first.extend(listed.map(|change| AccessChange { principal: principal.to_owned(), ..change.clone() }));
    }
}

impl AccessComparison<'_> {
    /// Describes what the candidate grants and takes, as far as it is found until this time.
    pub(super) fn answer(&self, until: Instant) -> Result<Value, GateError> {
        let (found, left) = self.find(until)?;
        Ok(json!({
            "granted": found.granted,
            "taken": found.taken,
            "changes": found.first.iter().map(|change| self.describe(change)).collect::<Vec<_>>(),
            // Those for whom there was no time.
            "not_compared": left,
        }))
    }

    fn find(&self, until: Instant) -> Result<(FoundChanges, Vec<String>), GateError> {
        let (before, after) = (&*self.trial.current, self.after);
        let mut logic = Supervisor::new(self.trial.component.clone()).map_err(GateError::Logic)?;
        let old = AccessSurvey::new(&mut logic, before, &self.trial.offers, self.labels)?;
        let new = AccessSurvey::new(&mut logic, after, &self.trial.offers, self.labels)?;
        let mut found = FoundChanges::of(admin_changes(before, after), 0);
        let digest = self.trial.component.digest();
        let (mut then, mut now) = (SharedRights::new(&old, digest), SharedRights::new(&new, digest));
        let sees_callers = !(then.ignores_callers() && now.ignores_callers());
        let mut known: Vec<(ViewPair, FoundChanges)> = Vec::new();
        let mut left = Vec::new();
        for (name, pair) in self.views() {
            if Instant::now() >= until {
                left.push(name);
                continue;
            }
            let anonymous = (pair.0.as_ref().map(GateView::anonymous), pair.1.as_ref().map(GateView::anonymous));
            if let Some((_, alike)) = known.iter().find(|(known, _)| *known == anonymous) {
                found.add(&name, alike);
                continue;
            }
            let mut side = |survey: &AccessSurvey<'_>, shared: &mut SharedRights<'_>, view: &Option<GateView>| {
                let rights = view.as_ref().map(|view| shared.rights(&mut logic, view)).transpose()?;
                Ok::<_, GateError>(AccessMatrix::of_one(survey.tools(), rights.map(|rights| (&*name, rights))))
            };
            let own = changes(&side(&old, &mut then, &pair.0)?, &side(&new, &mut now, &pair.1)?);
            let own = FoundChanges::of(own, found.first.len());
            found.add(&name, &own);
            if !sees_callers {
                known.push((anonymous, own));
            }
        }
        Ok((found, left))
    }

    /// Returns everybody with a view in one of the configurations.
    fn views(&self) -> Vec<(String, ViewPair)> {
        let (before, after) = (&*self.trial.current, self.after);
        let needs_token = |config: &Config| !config.settings.gateway.tokens.is_empty();
        // Who has no token matters only if the need for one changes.
        let opens = needs_token(before) != needs_token(after);
        let all = |config: &Config| {
            let anonymous = anonymous_principal(config).filter(|_| opens);
            let all = principals(config).into_iter().chain(anonymous);
            all.map(|(name, view)| (name, self.trial.state.restrict_to_exposed(view))).collect::<Vec<_>>()
        };
        let mut after = all(after);
        let mut pairs = Vec::new();
        for (name, view) in all(before) {
            let place = after.iter().position(|(other, _)| *other == name);
            let then = place.map(|place| after.remove(place).1);
            pairs.push((name, (Some(view), then)));
        }
        pairs.extend(after.into_iter().map(|(name, view)| (name, (None, Some(view)))));
        pairs
    }

    fn describe(&self, change: &AccessChange) -> Value {
        let AccessChange { principal, tool: item, before, after } = change;
        let right = |right: &AccessRight| json!({"verdict": right.verdict.name(), "rule": right.rule});
        let call = (principal.clone(), item.tool.server.clone(), item.tool.tool.clone());
        // A right that belongs to no server has a name alone.
        let tool = if item.tool.server.is_empty() { &item.name } else { &item.tool.tool };
        json!({
            "principal": principal, "server": item.tool.server, "tool": tool, "change": change.direction().name(),
            "before": right(before), "after": right(after),
            "recent_calls": self.trial.recent.get(&call).unwrap_or(&0),
        })
    }
}

/// The number of changes that are listed; the others are counted.
const MOST_CHANGES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AccessTool, AccessVerdict};
    use crate::logic::types::ToolRef;

    fn change(number: usize) -> AccessChange {
        let tool = ToolRef { server: "x".to_owned(), tool: number.to_string() };
        let tool = AccessTool { tool, name: String::new(), destructive: false, read_only: false, needs: Vec::new() };
        let right = |verdict| AccessRight {
            name: None,
            verdict,
            conditions: Vec::new(),
            rule: String::new(),
            trace: Vec::new(),
        };
        let (before, after) = match number % 3 {
            0 => (AccessVerdict::Allow, AccessVerdict::Deny),
            _ => (AccessVerdict::Deny, AccessVerdict::Allow),
        };
        AccessChange { principal: "ann".to_owned(), tool, before: right(before), after: right(after) }
    }

    #[test]
    fn all_changes_are_counted_and_the_first_are_kept() {
        let mut found = FoundChanges::default();
        for (principal, kept) in [("ann", 600), ("bob", 400), ("cat", 0)] {
            let own = FoundChanges::of((0..600).map(change).collect(), found.first.len());
            assert_eq!((own.granted, own.taken, own.first.len()), (400, 200, kept));
            found.add(principal, &own);
        }
        assert_eq!((found.granted, found.taken, found.first.len()), (1200, 600, MOST_CHANGES));
        assert!(found.first[..600].iter().all(|change| change.principal == "ann"));
        assert_eq!((&*found.first[999].principal, &*found.first[999].tool.tool.tool), ("bob", "399"));
    }
}
