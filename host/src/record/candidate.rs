//! What calls are tried on when they are over: another component, another configuration, or both.

use std::collections::HashMap;
use std::sync::Arc;

use super::keys::digest;
use super::play::{PlayError, Player, Shared, SharedSettings};
use super::said::{Ended, Said};
use super::shapes::SettingsShape;
use crate::config::model::Config;
use crate::gate::{GateError, LOCAL, View, check, views};
use crate::logic::types::execution::{Code, ResultForm, Settings};
use crate::logic::types::filtering::SelectedServer;
use crate::logic::{Component, Options};
use crate::words::Named;

/// What calls are tried on; with neither, they are played as they were.
#[derive(Clone, Default)]
pub struct Candidate {
    /// Another component.
    pub component: Option<Component>,
    /// Another configuration.
    pub config: Option<Arc<Config>>,
}

impl Candidate {
    /// The same, once it is sure that gates can be opened with it; and which of its servers cannot be used, and why. Those are
    /// switched off, as they would be in a gateway.
    pub(crate) fn checked(&self, options: &Options) -> Result<(Self, Vec<Unusable>), GateError> {
        let Some(config) = &self.config else { return Ok((self.clone(), Vec::new())) };
        let component = match &self.component {
            Some(component) => component.clone(),
            None => Component::embedded(options)?,
        };
        let mut config = Config::clone(config);
        check(&component, &mut config, [&View::default()])?;
        let mut unusable = Vec::new();
        for server in config.servers.iter_mut().filter(|server| server.enabled) {
            if let Some(problem) = &server.problem {
                unusable.push(Unusable { server: server.id.clone(), reason: problem.to_string() });
                server.enabled = false;
            }
        }
        Ok((Candidate { component: self.component.clone(), config: Some(Arc::new(config)) }, unusable))
    }

    /// Whether calls are to come out as they were.
    pub fn is_same(&self) -> bool {
        self.component.is_none() && self.config.is_none()
    }
}

/// A server of a candidate that cannot be used, so that calls to it are calls to a server that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Its id.
    pub server: String,
    /// What is wrong with its entry, and where.
    pub reason: String,
}

/// Whose settings are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Whose<'a> {
    /// What the gate of the call had.
    pub settings: &'a SharedSettings,
    /// Who made the call, where that is known.
    pub principal: Option<&'a str>,
    /// The caller's own limit of the text.
    pub limit: Option<u64>,
}

/// The settings that calls would have had, by whose they are.
#[derive(Default)]
pub(crate) struct Tried(HashMap<Key, Option<SharedSettings>>);

type Key = (Arc<str>, Option<String>, Option<u64>);

impl Tried {
    /// The settings that a call would have had with this configuration; none where that does not let the caller in.
    pub(crate) fn settings(
        &mut self,
        config: &Config,
        whose: Whose<'_>,
        player: &mut Player,
    ) -> Result<Option<SharedSettings>, PlayError> {
        let Whose { settings, principal, limit } = whose;
        let key = (Arc::clone(&settings.key), principal.map(str::to_owned), limit);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let tried = match view(config, principal, &settings.value) {
            None => None,
            Some(mut view) => {
                view.pass_through = settings.value.form == ResultForm::PassThrough;
                view.max_result_bytes = limit;
                let settings = crate::gate::settings(player.logic(), config, &view)?;
                // Under its digest, so that what has not changed is known to be the same.
                Some(Shared { key: digest(&SettingsShape::from(&settings)), value: Arc::new(settings) })
            }
        };
        if self.0.len() >= MOST_TRIED {
            self.0.clear();
        }
        self.0.insert(key, tried.clone());
        Ok(tried)
    }
}

/// What is said to whoever is not let in.
pub(crate) fn nobody() -> Said {
    Said::Done(Box::new(Ended {
        code: Code::NotAllowed.name().to_owned(),
        server: None,
        tool: None,
        text: Some("no such principal".to_owned()),
        content: None,
        attempts: 0,
        truncated: false,
        trace: vec!["no such principal".to_owned()],
    }))
}

/// What a principal may use with this configuration; none where there are tokens, and none of them is its own.
///
/// Where there are no tokens, everybody keeps what it has, as far as there are such servers; and so does who needs none.
fn view(config: &Config, principal: Option<&str>, recorded: &Settings) -> Option<View> {
    let usable = |id: &str| config.servers.iter().any(|server| server.id == id && server.enabled);
    let tokens = views(config);
    let needs_one = !tokens.is_empty() && principal.is_some_and(|principal| principal != LOCAL);
    let named = tokens.into_iter().find(|(name, _)| Some(name.as_str()) == principal);
    let (selection, capabilities) = match named {
        Some((_, view)) => (view.selection, view.capabilities),
        None if needs_one => return None,
        None => {
            let kept = |servers: Vec<SelectedServer>| servers.into_iter().filter(|server| usable(&server.id)).collect();
            (recorded.policy.selection.clone().map(kept), recorded.policy.capabilities.clone())
        }
    };
    Some(match selection {
        // A gate that could use no server at all is not opened.
        Some(none) if none.is_empty() => View { capabilities: Some(Vec::new()), ..View::default() },
        selection => View { selection, capabilities, ..View::default() },
    })
}

const MOST_TRIED: usize = 1024;
