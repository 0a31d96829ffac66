//! How a component is run: its limits, where its memory comes from, and where its compiled form is kept.

use std::env;
use std::path::PathBuf;

/// All that can be chosen when a component is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentOptions {
    /// What one call may use.
    pub limits: InstanceLimits,
    /// Where instances live.
    pub allocation: Allocation,
    /// Where the compiled component is kept.
    pub cache: Cache,
}

/// What one call may use before it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceLimits {
    /// The fuel of one call, about one unit an instruction; `None` counts nothing, which is faster.
    pub fuel: Option<u64>,
    /// The most memory that an instance may have.
    pub memory_bytes: usize,
}

impl Default for InstanceLimits {
    fn default() -> Self {
        Self { fuel: Some(20_000_000_000), memory_bytes: 256 << 20 }
    }
}

/// Where instances live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Each one gets memory of its own: the quickest start, for a process with few instances.
    #[default]
    OnDemand,
    /// They share a pool that is reserved at the start: the quickest instances, for a server.
    Pooled {
        /// The most instances at a time.
        instances: u32,
    },
}

/// Where the compiled component is kept between two starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nowhere; it is compiled at each start.
    #[default]
    None,
    /// In this folder, which nobody but its owner may write to.
    Dir(PathBuf),
}

impl Cache {
    /// The user's own cache folder, if one is known: `TOOLGATE_CACHE_DIR`, or `toolgate` in the system's place for caches.
    pub fn user() -> Self {
        // A relative path would mean another folder in each working directory.
        let path = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let system = || {
            if cfg!(target_os = "macos") {
                path("HOME").map(|home| home.join("Library/Caches"))
            } else if cfg!(windows) {
                path("LOCALAPPDATA")
            } else {
                path("HOME").map(|home| home.join(".cache"))
            }
        };
        path("TOOLGATE_CACHE_DIR")
            .or_else(|| path("XDG_CACHE_HOME").or_else(system).map(|caches| caches.join("toolgate")))
            .map_or(Self::None, Self::Dir)
    }
}
