//! The binary as a person or a script meets it: what it prints where, and how it ends.

mod call;
mod check;
mod config;
mod demo;
mod files;
mod hostile;
mod logic;
mod place;
mod reading;
mod signals;
mod tools;
