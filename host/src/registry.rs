//! The configured servers, and a connection to each that is wanted.

mod link;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

pub use link::{Link, Unavailable};

use crate::config::model::Config;
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::session::Handler;

/// The configured servers. Dropping it ends every connection at once; `close` ends them in good manners.
pub struct Registry {
    links: Vec<Arc<Link>>,
    surroundings: Arc<Surroundings>,
}

/// What all connections share.
pub struct Surroundings {
    config: Config,
    variables: Variables,
    handler: Arc<dyn Handler>,
    /// How many may start at a time.
    starts: Semaphore,
    /// All secrets that were ever filled in: what is printed is searched for them.
    secrets: Arc<Mutex<Secrets>>,
}

impl Registry {
    /// The servers of a configuration; none is connected yet. Secrets are added to `secrets` before they are used.
    pub fn new(config: Config, variables: Variables, handler: Arc<dyn Handler>, secrets: Arc<Mutex<Secrets>>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let starts = Semaphore::new(config.settings.start_concurrency(cores));
        let surroundings = Arc::new(Surroundings { config, variables, handler, starts, secrets });
        let count = surroundings.config.servers.len();
        let links = (0..count).map(|place| Arc::new(Link::new(Arc::clone(&surroundings), place))).collect();
        Registry { links, surroundings }
    }

    /// The configuration that this was built from.
    pub fn config(&self) -> &Config {
        &self.surroundings.config
    }

    /// All servers, in the order of the configuration.
    pub fn links(&self) -> &[Arc<Link>] {
        &self.links
    }

    /// The server of this id.
    pub fn link(&self, id: &str) -> Option<&Arc<Link>> {
        self.links.iter().find(|link| link.id() == id)
    }

    /// The secrets that were filled in so far; nothing that is printed may show them.
    pub fn secrets(&self) -> Secrets {
        self.surroundings.secrets().clone()
    }

    /// Ends every connection in good manners, side by side.
    pub async fn close(&self) {
        futures_util::future::join_all(self.links.iter().map(|link| link.close())).await;
    }
}

impl Surroundings {
    fn secrets(&self) -> std::sync::MutexGuard<'_, Secrets> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
