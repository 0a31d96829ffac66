//! Refuses changes that would open a running HTTP server wider than it was at the start.

use std::net::IpAddr;

use super::error::HttpServerError;
use super::hosts::AllowedHosts;
use super::options::HttpOptions;

/// Refuses options that open the server wider; `speaks_tls` says whether it uses TLS now, whatever was requested since.
pub(super) fn refuse_wider(
    before: &HttpOptions,
    hosts: &AllowedHosts,
    speaks_tls: bool,
    after: &HttpOptions,
) -> Result<(), HttpServerError> {
    let mut wider = Vec::new();
    if after.tokens.is_empty() && !before.tokens.is_empty() {
        wider.push("removes the last token, so that anyone could connect".to_owned());
    }
    if speaks_tls && after.tls.is_none() {
        wider.push("turns TLS off".to_owned());
    }
    if is_wider(before.address.ip().to_canonical(), after.address.ip().to_canonical()) {
        wider.push(format!("listens on {} in place of {}", after.address, before.address));
    }
    let beyond: Vec<String> = after.hosts.iter().filter(|entry| !hosts.cover(entry)).cloned().collect();
    if !beyond.is_empty() {
        wider.push(format!("allows more hosts or origins: {}", beyond.join(", ")));
    }
    match wider.is_empty() {
        true => Ok(()),
        false => Err(HttpServerError::Wider { how: wider.join(", and ") }),
    }
}

/// Reports whether clients that cannot reach the first address may reach the second.
fn is_wider(before: IpAddr, after: IpAddr) -> bool {
    let covered = before.is_unspecified() && (before.is_ipv6() || after.is_ipv4());
    before != after && !after.is_loopback() && !covered
}

#[cfg(test)]
mod tests {
    use super::super::{CertificateFiles, Tokens};
    use super::*;
    use crate::gateway::client::Principal;

    fn options(address: &str, hosts: &[&str], tokens: usize, tls: bool) -> HttpOptions {
        let files = || CertificateFiles { certificate: "c".into(), key: "k".into() };
        let token = |number: usize| (format!("token-{number}"), Principal { name: number.to_string(), admin: false });
        HttpOptions {
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            tokens: Tokens::new((0..tokens).map(token)).unwrap(),
            tls: tls.then(files),
            ..HttpOptions::new(address.parse().unwrap())
        }
    }

    fn refused(before: &HttpOptions, after: &HttpOptions) -> String {
        let hosts = AllowedHosts::parse(&before.hosts).unwrap();
        let refused = refuse_wider(before, &hosts, before.tls.is_some(), after);
        refused.err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn a_door_that_is_served_becomes_narrower_and_never_wider() {
        const HERE: &str = "127.0.0.1:80";
        let rows: &[(HttpOptions, HttpOptions, &str)] = &[
            (options(HERE, &[], 0, false), options(HERE, &[], 2, true), ""),
            (options(HERE, &[], 2, true), options(HERE, &[], 1, true), ""),
            (options(HERE, &[], 1, false), options(HERE, &[], 0, false), "removes the last token"),
            (options(HERE, &[], 1, true), options(HERE, &[], 1, false), "turns TLS off"),
            (options(HERE, &["a.example"], 1, false), options(HERE, &[], 1, false), ""),
            (options(HERE, &["A.example"], 1, false), options(HERE, &["a.example."], 1, false), ""),
            (options(HERE, &["a.example"], 1, false), options(HERE, &["a.example:81"], 1, false), ""),
            (options(HERE, &["a.example:81"], 1, false), options(HERE, &["a.example"], 1, false), "origins: a.example"),
            (options(HERE, &["a.example:81"], 1, false), options(HERE, &["a.example:82"], 1, false), "a.example:82"),
            (options(HERE, &["a.example"], 1, false), options(HERE, &["*"], 1, false), "origins: *"),
            (options(HERE, &["*"], 1, false), options(HERE, &["a.example"], 1, false), ""),
            (options(HERE, &["*"], 1, false), options(HERE, &["https://b.example"], 1, false), "https://b.example"),
            (options(HERE, &["https://a.example"], 1, false), options(HERE, &["a.example"], 1, false), "a.example"),
            (options(HERE, &[], 1, false), options(HERE, &["https://b", "c"], 1, false), "origins: https://b, c"),
            (options(HERE, &["https://b"], 1, false), options(HERE, &["HTTPS://B"], 1, false), ""),
        ];
        for (before, after, expected) in rows {
            let found = refused(before, after);
            assert_eq!(found.is_empty(), expected.is_empty(), "{before:?} {after:?}: {found}");
            assert!(found.contains(expected), "{found}");
        }
        let all = refused(&options(HERE, &[], 1, true), &options("0.0.0.0:80", &["x"], 0, false));
        for part in ["removes the last token", "turns TLS off", "listens on 0.0.0.0:80", "origins: x", "restart"] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }

    #[test]
    fn an_address_is_wider_where_others_reach_it() {
        for (before, after, expected) in [
            ("127.0.0.1", "127.0.0.2", false),
            ("127.0.0.1", "::1", false),
            ("127.0.0.1", "10.0.0.7", true),
            ("127.0.0.1", "0.0.0.0", true),
            ("127.0.0.1", "::", true),
            ("10.0.0.7", "127.0.0.1", false),
            ("10.0.0.7", "10.0.0.8", true),
            ("10.0.0.7", "0.0.0.0", true),
            ("0.0.0.0", "10.0.0.7", false),
            ("0.0.0.0", "::", true),
            ("0.0.0.0", "fe80::1", true),
            ("::", "0.0.0.0", false),
            ("::", "fe80::1", false),
        ] {
            assert_eq!(is_wider(before.parse().unwrap(), after.parse().unwrap()), expected, "{before} {after}");
        }
    }
}
