//! Tests the binary as a person or a script uses it: what it prints where, and how it exits.

mod access;
#[cfg(unix)]
mod book;
mod call;
#[cfg(unix)]
mod calls;
mod check;
#[cfg(unix)]
mod choosing;
#[cfg(unix)]
mod completions;
mod config;
#[cfg(unix)]
mod dashboard;
#[cfg(unix)]
mod deciding;
mod demo;
#[cfg(unix)]
mod draining;
mod files;
mod hostile;
mod init;
mod logic;
#[cfg(unix)]
mod logs;
mod man;
#[cfg(unix)]
mod matrix;
mod place;
#[cfg(unix)]
mod readiness;
mod reading;
mod record;
#[cfg(unix)]
mod refusing;
#[cfg(unix)]
mod reload;
#[cfg(unix)]
mod replicas;
#[cfg(unix)]
mod results;
#[cfg(unix)]
mod rules;
mod security;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod serving;
#[cfg(unix)]
mod settings;
mod shadow;
mod signals;
#[cfg(unix)]
mod status;
mod tools;
