//! How a door is now, and how that is changed while it is served.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::DoorError;
use super::hosts::Hosts;
use super::load::Load;
use super::opening::refuse_wider;
use super::options::{Limits, Options};
use super::rate::Buckets;
use super::sessions::Sessions;
use super::tls::{self, Certificate};
use super::tokens::{Doorkeeper, Pass};
use crate::gateway::client::Principal;

/// What of a door can change while it is served.
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) hosts: Hosts,
    pub(super) keeper: Doorkeeper,
    pub(super) buckets: Option<Arc<Buckets>>,
}

/// The rules of now. A request keeps to those that it began with.
pub(super) struct Current(watch::Sender<Arc<Rules>>);

impl Current {
    pub(super) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Current(watch::Sender::new(Arc::new(rules))))
    }

    pub(super) fn get(&self) -> Arc<Rules> {
        self.0.borrow().clone()
    }

    /// Waits until this is no token of a principal any more.
    pub(super) async fn gone(self: Arc<Self>, pass: Pass, principal: Arc<Principal>) {
        // There are rules as long as this lives.
        let _ = self.0.subscribe().wait_for(|rules| !rules.keeper.honours(pass, &principal)).await;
    }
}

/// Changes a door while it is served.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    /// Where the door listens.
    address: SocketAddr,
    current: Arc<Current>,
    load: Arc<Load>,
    sessions: Arc<Sessions>,
    certificate: Option<Arc<Certificate>>,
    /// What was last asked for.
    asked: Mutex<Options>,
}

/// A change that can be made.
pub struct Prepared {
    control: Control,
    options: Options,
    hosts: Hosts,
    certificate: Option<tls::State>,
}

/// What a change came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// What was asked for and cannot be had while the door is open.
    pub needs_restart: Vec<&'static str>,
    /// How many sessions were ended, since nobody may use them any more.
    pub ended_sessions: usize,
}

impl Control {
    pub(super) fn new(
        address: SocketAddr,
        current: Arc<Current>,
        load: Arc<Load>,
        sessions: Arc<Sessions>,
        certificate: Option<Arc<Certificate>>,
        asked: Options,
    ) -> Self {
        Control(Arc::new(Inner { address, current, load, sessions, certificate, asked: Mutex::new(asked) }))
    }

    /// Looks whether the door can be so, and changes nothing yet. Options that would open the door wider are refused:
    /// no token at all, no TLS any more, another address that more can reach, more hosts or origins.
    pub fn prepare(&self, options: Options) -> Result<Prepared, DoorError> {
        let inner = &*self.0;
        if options.tokens.is_empty() && !inner.address.ip().to_canonical().is_loopback() {
            return Err(DoorError::Unprotected { address: inner.address });
        }
        let hosts = Hosts::parse(&options.hosts)?;
        refuse_wider(&inner.asked(), &inner.current.get().hosts, inner.certificate.is_some(), &options)?;
        let moved = inner.asked().tls != options.tls;
        let files = options.tls.clone().filter(|_| moved && inner.certificate.is_some());
        let certificate = files.map(tls::State::read).transpose()?;
        Ok(Prepared { control: self.clone(), options, hosts, certificate })
    }
}

impl Inner {
    fn asked(&self) -> MutexGuard<'_, Options> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prepared {
    /// Makes the change: it holds for the next request.
    pub fn apply(self) -> Applied {
        let Prepared { control, options, hosts, certificate } = self;
        let inner = &*control.0;
        let mut asked = inner.asked();
        let mut applied = Applied::default();
        if asked.address != options.address {
            applied.needs_restart.push("the address");
        }
        if inner.certificate.is_some() != options.tls.is_some() {
            applied.needs_restart.push("TLS on or off");
        }
        if let (Some(own), Some(new)) = (&inner.certificate, certificate) {
            own.replace(new);
        }
        let buckets = match asked.rate == options.rate {
            true => inner.current.get().buckets.clone(),
            false => options.rate.map(|rate| Arc::new(Buckets::new(rate))),
        };
        let keeper = inner.current.get().keeper.with(options.tokens.clone());
        let rules = Arc::new(Rules { limits: options.limits.clone(), hosts, keeper, buckets });
        inner.load.set(&options.limits, rules.keeper.knows_several());
        inner.current.0.send_replace(Arc::clone(&rules));
        applied.ended_sessions = inner.sessions.end_those(|principal| !rules.keeper.knows(principal));
        // What needs a restart is asked for until then, and told each time.
        *asked = Options { address: asked.address, ..options };
        applied
    }
}
