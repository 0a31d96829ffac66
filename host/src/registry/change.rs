//! Applies a new configuration to a running registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;

use super::{Link, Registry, positions_by_id};
use crate::config::model::{Config, ServerConfig};
use crate::decide::LogicResult;
use crate::gate_settings::find_problems;
use crate::stats::CallStats;

/// The effect of a new configuration on each server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigChanges {
    /// Servers that are new.
    pub added: Vec<String>,
    /// Servers that are gone; their running calls may finish.
    pub removed: Vec<String>,
    /// Servers with a new configuration, which start again.
    pub updated: Vec<String>,
    /// Servers without changes; their calls were not touched.
    pub unchanged: Vec<String>,
    /// Servers that cannot be used, and why.
    pub errors: BTreeMap<String, String>,
    /// Whether settings that apply to all servers changed.
    pub settings: bool,
}

impl Registry {
    /// Applies a new configuration: unchanged servers keep running, changed ones start again. Global settings apply
    /// too: queues keep their running and waiting calls, and gates use the new settings from their next call on.
    pub fn set_servers(&self, config: Config) -> LogicResult<ConfigChanges> {
        self.set_servers_anew(config, &BTreeSet::new())
    }

    /// Applies a new configuration and also restarts the given servers, even if their configuration is unchanged.
    pub fn set_servers_anew(&self, mut config: Config, anew: &BTreeSet<String>) -> LogicResult<ConfigChanges> {
        find_problems(&mut *self.context.logic(), &mut config)?;
        let config = Arc::new(config);
        let mut changes = ConfigChanges::default();
        let mut state = self.state();
        changes.settings = state.config.settings.without_positions() != config.settings.without_positions();
        // The new servers look up their queues when they are built.
        self.context.apply_config(&config);
        let before = Arc::clone(&state.links);
        let mut links = Vec::with_capacity(config.servers.len());
        for (place, server) in config.servers.iter().enumerate() {
            if let Some(problem) = &server.problem {
                changes.errors.insert(server.id.clone(), problem.to_string());
            }
            let old = before.iter().find(|link| link.id() == server.id);
            let same =
                old.filter(|old| !anew.contains(old.id()) && same((&state.config, old.server()), (&config, server)));
            if let Some(link) = same {
                changes.unchanged.push(server.id.clone());
                link.retry_if_failed();
                link.check_start();
                state.scoped_links_of(&server.id).iter().for_each(|link| link.retry_if_failed());
                links.push(Arc::clone(link));
                continue;
            }
            let list = if old.is_some() { &mut changes.updated } else { &mut changes.added };
            list.push(server.id.clone());
            // Callers see the same server, so its statistics go on.
            let stats = old.map_or_else(CallStats::default, |old| old.stats().clone());
            let link = Link::new(Arc::clone(&self.context), Arc::clone(&config), place, None, stats)?;
            link.start_if_eager();
            links.push(link);
        }
        for link in before.iter() {
            if !config.servers.iter().any(|server| server.id == link.id()) {
                changes.removed.push(link.id().to_owned());
            }
        }
        let kept = |link: &Arc<Link>| links.iter().any(|kept| Arc::ptr_eq(kept, link));
        let mut retired: Vec<_> = before.iter().filter(|link| !kept(link)).cloned().collect();
        state.scoped_links.retain(|(id, _), link| {
            let keep = changes.unchanged.contains(id);
            if !keep {
                retired.extend(link.upgrade());
            }
            keep
        });
        state.retired.retain(|link| link.strong_count() > 0);
        state.retired.extend(retired.iter().map(Arc::downgrade));
        retired.into_iter().for_each(|link| self.context.cleanup.spawn(link.retire()));
        state.condenser = self.context.condenser(&config);
        state.recorder = self.context.recorder(&self.component, &config, state.recorder.as_ref());
        state.positions = positions_by_id(&links);
        state.links = links.into();
        state.config = config;
        state.config_version += 1;
        let others = changes.servers_changed();
        if others {
            state.servers_version = state.config_version;
        }
        // The rules of the other servers are matched when those list their tools.
        self.context.unmatched.retain(|server| changes.unchanged.iter().any(|known| known == server));
        let known = state.links.iter().filter_map(|link| Some((link.id().to_owned(), link.known_tools()?)));
        let known: Vec<_> = known.collect();
        drop(state);
        known.iter().for_each(|(server, tools)| self.context.match_rules(server, tools));
        self.context.notices.tools_changed();
        if others {
            self.context.notices.announce_list_changes();
            self.context.notices.state_changed();
        }
        Ok(changes)
    }

    /// Returns the servers whose connection is out of date, because a file, a variable or a command in their
    /// configuration now has another value.
    pub async fn stale(&self) -> BTreeSet<String> {
        let mut links = self.links().to_vec();
        links.extend(links.clone().iter().flat_map(|link| self.state().scoped_links_of(link.id())));
        let looks = links.iter().map(|link| async { link.is_stale().await.then(|| link.id().to_owned()) });
        join_all(looks).await.into_iter().flatten().collect()
    }
}

impl ConfigChanges {
    /// Reports whether servers were added, removed or reconfigured.
    pub fn servers_changed(&self) -> bool {
        [&self.added, &self.removed, &self.updated].into_iter().any(|list| !list.is_empty())
    }
}

/// Reports whether a server is reached and run as before, regardless of its position in the file.
fn same(before: (&Config, &ServerConfig), after: (&Config, &ServerConfig)) -> bool {
    let of_all = |config: &Config| {
        let settings = &config.settings;
        (settings.allow_commands, settings.inputs.clone(), settings.bare_dollar, config.file.clone())
    };
    before.1.without_positions() == after.1.without_positions() && of_all(before.0) == of_all(after.0)
}
