mod call_rules;
mod clients;
mod entries;
mod example;
mod files;
mod gateway;
mod lifecycle;
mod queues;
mod results;
mod rules;
mod seeds;
mod shadow;

use std::path::Path;

use super::import::write::yaml;
use super::model::Config;
use super::parse;

/// Returns what is read from a text: the servers as YAML without defaults, then problems and notices.
fn said(file: &str, text: &str) -> String {
    match parse(text, Path::new(file)) {
        Ok(config) => format!("{}{}", servers(&config), remarks(&config)),
        Err(error) => error.to_string(),
    }
}

fn servers(config: &Config) -> String {
    let text = yaml(config, "", []);
    text.split_once("version: 1\n").map_or(String::new(), |(_, rest)| rest.to_owned())
}

fn remarks(config: &Config) -> String {
    let problems = config.servers.iter().filter_map(|server| server.problem.as_ref());
    let problems = problems.map(|problem| format!("problem {problem}\n"));
    problems.chain(config.notices.iter().map(|notice| format!("notice {notice}\n"))).collect()
}

/// Returns the problems and notices, or the error, of a text.
fn complaints(file: &str, text: &str) -> String {
    match parse(text, Path::new(file)) {
        Ok(config) => remarks(&config).trim_end().to_owned(),
        Err(error) => error.to_string(),
    }
}
