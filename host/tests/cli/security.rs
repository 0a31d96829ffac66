//! What SECURITY.md promises, tried against the real binary: one file for each kind of attacker or mishap.
#![cfg(unix)]

mod approvals;
mod component;
mod door;
mod files;
mod outbound;
mod rules;
mod secrets;
