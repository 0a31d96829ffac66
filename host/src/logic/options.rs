//! How a component runs: its limits, its memory, and the cache of its compiled form.

use std::env;
use std::path::PathBuf;

/// The options for loading a component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComponentOptions {
    /// The limits of one call.
    pub limits: InstanceLimits,
    /// How instances get their memory.
    pub allocation: Allocation,
    /// Where the compiled component is cached.
    pub cache: Cache,
}

/// The limits of an instance, at which a call is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceLimits {
    /// The fuel of one call, about one unit per instruction; `None` means unlimited, which is faster.
    pub fuel: Option<u64>,
    /// The maximum memory of an instance.
    pub memory_bytes: usize,
}

impl Default for InstanceLimits {
    fn default() -> Self {
        Self { fuel: Some(20_000_000_000), memory_bytes: 256 << 20 }
    }
}

/// How instances get their memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Each instance allocates its own: the fastest start, for a process with few instances.
    #[default]
    OnDemand,
    /// Instances share a pool that is reserved at the start: the fastest instances, for a server.
    Pooled {
        /// The maximum number of instances at a time.
        instances: u32,
    },
}

/// Where the compiled component is cached between starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nowhere; it is compiled at each start.
    #[default]
    None,
    /// In this folder, which only its owner may write to.
    Dir(PathBuf),
}

impl Cache {
    /// Returns the user's cache folder, if known: `TOOLGATE_CACHE_DIR`, or `toolgate` in the system's folder for
    /// caches.
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
