//! What is tried: a component, and the configuration that it decides by.

use std::collections::HashMap;

use crate::config::model::Config;
use crate::gate::{self, GateError, View};
use crate::gateway;
use crate::gateway::client::Principal;
use crate::logic::types::execution::Settings;
use crate::logic::{Component, Instance, Limits, LogicError};

/// What is tried in the shade.
pub struct Candidate {
    /// What decides.
    pub(super) component: Component,
    policy: Option<Policy>,
}

/// A configuration of its own.
struct Policy {
    config: Config,
    /// What its tokens let their principals use; none where it has no tokens, and then each keeps what it has.
    views: Option<HashMap<String, View>>,
}

/// The limits that the component of a candidate is to be loaded with: enough for any honest call, and little enough that one
/// that loops or hoards is soon found out.
pub fn limits() -> Limits {
    Limits { fuel: Some(1_000_000_000), memory_bytes: 256 << 20 }
}

impl Candidate {
    /// A component, and a configuration that it decides by in place of the one in use.
    pub fn new(component: Component, config: Option<Config>) -> Result<Self, GateError> {
        let policy = match config {
            Some(mut config) => {
                let views = gateway::views(&config);
                let all: Vec<_> = views.iter().map(|(_, view)| view.clone()).chain([View::default()]).collect();
                gate::check(&component, &mut config, &all)?;
                let views = (!views.is_empty()).then(|| views.into_iter().collect());
                Some(Policy { config, views })
            }
            None => None,
        };
        Ok(Candidate { component, policy })
    }

    /// What it is, in short.
    pub fn about(&self) -> String {
        let digest = self.component.digest();
        let digest = digest.get(..12).unwrap_or(digest);
        let file = self.policy.as_ref().and_then(|policy| policy.config.file.as_ref());
        match file.and_then(|file| file.file_name()) {
            Some(file) => format!("component {digest} with {}", file.to_string_lossy()),
            None => format!("component {digest}"),
        }
    }

    /// The settings of a gate of its own for whoever has this view, where it has a configuration. Whoever it would not let
    /// in has none, and is told why.
    pub(super) fn settings(&self, instance: &mut Instance, live: &View) -> Result<Option<Wanted>, LogicError> {
        let Some(Policy { config, views }) = &self.policy else { return Ok(None) };
        let name = live.principal.clone().unwrap_or_else(|| Principal::local().name);
        let view = match views {
            None => Some(live.clone()),
            Some(views) => views.get(&name).cloned().or_else(|| (name == Principal::local().name).then(View::default)),
        };
        let Some(view) = view else { return Ok(Some(Wanted::Nobody)) };
        let View { session, pass_through, max_result_bytes, principal, .. } = live.clone();
        let view = View { session, pass_through, max_result_bytes, principal, ..view };
        let settings = gate::fill_settings(instance.default_settings(&[])?, config, &view);
        Ok(Some(Wanted::Gate(Box::new(settings))))
    }
}

/// What a candidate has for a principal.
pub(super) enum Wanted {
    /// A gate with these settings.
    Gate(Box<Settings>),
    /// Nothing: it does not know it.
    Nobody,
}
