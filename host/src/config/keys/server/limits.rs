//! The keys of a server's `timeouts`.

use super::super::super::model::Timeouts;
use super::super::super::section::{ConfigKey, KeyForm};

type Key = ConfigKey<Timeouts>;

/// The keys of `timeouts`.
pub(crate) const TIMEOUTS: &[Key] = &[
    Key::new("call", KeyForm::Limit(|timeouts, limit| timeouts.call = limit))
        .about("How long to wait for the result of a call; progress restarts the clock.")
        .default("\"60s\""),
    Key::new("total", KeyForm::Limit(|timeouts, limit| timeouts.total = limit))
        .about("How long a call may take in total, whatever its progress; at least `call`.")
        .default("\"10m\""),
    Key::new("initialize", KeyForm::Limit(|timeouts, limit| timeouts.initialize = limit))
        .about("How long the first handshake may take, including the start of the program.")
        .default("\"30s\""),
    Key::new("reinitialize", KeyForm::Limit(|timeouts, limit| timeouts.reinitialize = limit))
        .about("How long the handshake after a lost session may take.")
        .default("\"10s\""),
    Key::new("list", KeyForm::Limit(|timeouts, limit| timeouts.list = limit))
        .about("How long to wait for a list of tools, resources or prompts.")
        .default("\"10s\""),
    Key::new("connect", KeyForm::Limit(|timeouts, limit| timeouts.connect = limit))
        .about("How long connecting over TCP may take.")
        .default("\"10s\""),
];
