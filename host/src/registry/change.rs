//! What a new configuration changes, and how it is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;

use super::{Link, Registry, positions_by_id};
use crate::config::model::{Config, ServerConfig};
use crate::decide::LogicResult;
use crate::gate::find_problems;
use crate::stats::CallStats;

/// What became of the servers when the configuration changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigChanges {
    /// Servers that were not there before.
    pub added: Vec<String>,
    /// Servers that are no longer there; calls under way come to their end.
    pub removed: Vec<String>,
    /// Servers that are configured otherwise now, and begin anew.
    pub updated: Vec<String>,
    /// Servers of which nothing has changed; no call of theirs was touched.
    pub unchanged: Vec<String>,
    /// Servers that cannot be used, and why.
    pub errors: BTreeMap<String, String>,
    /// What holds for all servers is not as before; all of it is applied.
    pub settings: bool,
}

impl Registry {
    /// Takes a new configuration: what has not changed goes on untouched, what has begins anew. What holds for all
    /// servers is applied too: queues keep who runs and who waits in them, and gates begin their next call with it.
    pub fn set_servers(&self, config: Config) -> LogicResult<ConfigChanges> {
        self.set_servers_anew(config, &BTreeSet::new())
    }

    /// The same, where these servers begin anew though nothing has changed in their configuration.
    pub fn set_servers_anew(&self, mut config: Config, anew: &BTreeSet<String>) -> LogicResult<ConfigChanges> {
        find_problems(&mut *self.context.logic(), &mut config)?;
        let config = Arc::new(config);
        let mut changes = ConfigChanges::default();
        let mut book = self.state();
        changes.settings = book.config.settings.without_positions() != config.settings.without_positions();
        // Before the new servers look for their queues.
        self.context.apply_config(&config);
        let before = Arc::clone(&book.links);
        let mut links = Vec::with_capacity(config.servers.len());
        for (place, server) in config.servers.iter().enumerate() {
            if let Some(problem) = &server.problem {
                changes.errors.insert(server.id.clone(), problem.to_string());
            }
            let old = before.iter().find(|link| link.id() == server.id);
            let same =
                old.filter(|old| !anew.contains(old.id()) && same((&book.config, old.server()), (&config, server)));
            if let Some(link) = same {
                changes.unchanged.push(server.id.clone());
                link.retry_if_failed();
                book.scoped_links_of(&server.id).iter().for_each(|link| link.retry_if_failed());
                links.push(Arc::clone(link));
                continue;
            }
            let list = if old.is_some() { &mut changes.updated } else { &mut changes.added };
            list.push(server.id.clone());
            // It is the same server to whoever counts its calls.
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
        book.scoped_links.retain(|(id, _), link| {
            let keep = changes.unchanged.contains(id);
            if !keep {
                retired.extend(link.upgrade());
            }
            keep
        });
        book.retired.retain(|link| link.strong_count() > 0);
        book.retired.extend(retired.iter().map(Arc::downgrade));
        retired.into_iter().for_each(|link| self.context.spawn_cleanup(link.retire()));
        book.condenser = self.context.condenser(&config);
        book.recorder = self.context.recorder(&self.component, &config, book.recorder.as_ref());
        book.positions = positions_by_id(&links);
        book.links = links.into();
        book.config = config;
        book.config_version += 1;
        let others = changes.servers_changed();
        if others {
            book.servers_version = book.config_version;
        }
        // Others than those whose tools are known are looked at when they list them.
        self.context.forget_rules(|server| changes.unchanged.iter().any(|known| known == server));
        let known = book.links.iter().filter_map(|link| Some((link.id().to_owned(), link.known_tools()?)));
        let known: Vec<_> = known.collect();
        drop(book);
        known.iter().for_each(|(server, tools)| self.context.match_rules(server, tools));
        self.context.tools_changed();
        if others {
            self.context.announce_list_changes();
            self.context.state_changed();
        }
        Ok(changes)
    }

    /// The servers that would be reached or run otherwise now than when they were connected: a file, a variable or a
    /// command that their configuration names has something else to say.
    pub async fn stale(&self) -> BTreeSet<String> {
        let mut links = self.links().to_vec();
        links.extend(links.clone().iter().flat_map(|link| self.state().scoped_links_of(link.id())));
        let looks = links.iter().map(|link| async { link.is_stale().await.then(|| link.id().to_owned()) });
        join_all(looks).await.into_iter().flatten().collect()
    }
}

impl ConfigChanges {
    /// Whether there are other servers than before, or the same ones in another way.
    pub fn servers_changed(&self) -> bool {
        [&self.added, &self.removed, &self.updated].into_iter().any(|list| !list.is_empty())
    }
}

/// Whether a server is reached and run as before, wherever in the file it now stands.
fn same(before: (&Config, &ServerConfig), after: (&Config, &ServerConfig)) -> bool {
    let of_all = |config: &Config| {
        let settings = &config.settings;
        (settings.allow_commands, settings.inputs.clone(), settings.bare_dollar, config.file.clone())
    };
    before.1.without_positions() == after.1.without_positions() && of_all(before.0) == of_all(after.0)
}
