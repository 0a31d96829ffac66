//! Loads the shadow policy that the configuration names, and starts it beside the gateway.

use std::path::Path;
use std::sync::Arc;

use crate::config;
use crate::config::resolve::ResolvedShadow;
use crate::failure::format_chain;
use crate::gateway::Gateway;
use crate::shadow::{Shadow, ShadowOptions, ShadowState, limits};
use tracing::{info, warn};

use super::watch::{WatchedFile, digest};
use crate::cli::logic_args::LogicArgs;
use crate::cli::style;

/// The shadow policy of a gateway, as its files were when they were read.
#[derive(Default)]
pub(super) struct ShadowLoader {
    /// The configured shadow policy, and digests of its files.
    loaded: Option<(ResolvedShadow, Vec<Option<[u8; 32]>>)>,
}

impl ShadowLoader {
    /// Starts the wanted shadow policy; a running one continues if nothing has changed and `anew` is false. A failure
    /// is logged and affects nothing else.
    pub(super) async fn update(
        &mut self,
        gateway: &Gateway,
        logic: &LogicArgs,
        wanted: Option<ResolvedShadow>,
        anew: bool,
    ) {
        ShadowLoader::show_pending(gateway, wanted.as_ref());
        let logic = logic.clone();
        let read = move || {
            let wanted = wanted?;
            let read = |path: &Path| if is_special(path) { None } else { digest(path) };
            let digests = files(&wanted).map(read).collect::<Vec<_>>();
            Some((wanted, digests))
        };
        // A file system may be slow.
        let wanted = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        if wanted == self.loaded && !anew {
            return;
        }
        let before = std::mem::replace(&mut self.loaded, wanted);
        let Some((wanted, _)) = self.loaded.clone() else {
            gateway.set_shadow(None);
            if before.is_some() {
                info!("shadow policy off");
            }
            return;
        };
        let sample = wanted.sample;
        let start = move || start(&logic, &wanted).unwrap_or_else(|why| Shadow::off(&file_names(&wanted), &why));
        let failed = |_| Shadow::off("", "it could not be loaded: this is a bug in toolgate");
        let shadow = Arc::new(tokio::task::spawn_blocking(start).await.unwrap_or_else(failed));
        gateway.set_shadow(Some(Arc::clone(&shadow)));
        match shadow.report().state() {
            ShadowState::Running => {
                style::write_note(&format!("shadow policy on: {}, {} of calls", shadow.report().about, share(sample)));
            }
            ShadowState::Off(why) => warn!("the shadow policy is off, and the gateway runs without it: {why}"),
        }
    }

    /// Shows the wanted shadow policy as pending if none runs yet.
    pub(super) fn show_pending(gateway: &Gateway, wanted: Option<&ResolvedShadow>) {
        if let Some(wanted) = wanted
            && gateway.shadow().is_none()
        {
            gateway.set_shadow(Some(Arc::new(Shadow::off(&file_names(wanted), "it is being prepared"))));
        }
    }

    /// Returns the files to watch.
    pub(super) fn watched_files(wanted: Option<&ResolvedShadow>) -> impl Iterator<Item = WatchedFile> {
        wanted.into_iter().flat_map(files).map(|path| WatchedFile::new(path.to_owned()))
    }
}

fn files(wanted: &ResolvedShadow) -> impl Iterator<Item = &Path> {
    [&wanted.logic, &wanted.config].into_iter().flatten().map(|path| &**path)
}

/// Returns the paths of the shadow policy's files.
fn file_names(wanted: &ResolvedShadow) -> String {
    files(wanted).map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Starts the shadow policy, or says why it cannot be started.
fn start(logic: &LogicArgs, wanted: &ResolvedShadow) -> Result<Shadow, String> {
    if let Some(path) = files(wanted).find(|path| is_special(path)) {
        return Err(format!("{} is not a regular file", path.display()));
    }
    let config = match &wanted.config {
        Some(file) => Some(config::load(file).map_err(|error| error.to_string())?),
        None => None,
    };
    let component = logic.load_component(wanted.logic.as_deref(), limits()).map_err(|error| format_chain(&error))?;
    let options = ShadowOptions { sample: wanted.sample, ..ShadowOptions::default() };
    Shadow::start(component, config, options).map_err(|error| format_chain(&error))
}

/// Reports whether a path is a pipe or other special file, which can be read only once, and whose reading may block.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file())
}

fn share(sample: f64) -> String {
    format!("{} %", (sample * 10_000.0).round() / 100.0)
}
