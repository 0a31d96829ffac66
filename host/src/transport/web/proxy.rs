//! Proxies, from the variables that everyone uses.

use reqwest::{NoProxy, Proxy};

use crate::failure::{Failed, Failure};

/// The proxies that the variables name: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case.
///
/// As in most programs that honour them, this machine itself is never reached through a proxy.
pub(super) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Vec<Proxy>, Failed> {
    let find = |name: &'static str| {
        let found = variable(name).or_else(|| variable(&name.to_lowercase()));
        found.filter(|value| !value.trim().is_empty()).map(|value| (name, value))
    };
    let not_for = format!("{},{LOOPBACK}", find("NO_PROXY").map(|(_, value)| value).unwrap_or_default());
    // A web server hands a client's `Proxy` header to its programs as HTTP_PROXY: then it is nobody's setting.
    let http = find("HTTP_PROXY").filter(|_| variable("REQUEST_METHOD").is_none());
    let made = [
        http.map(|(name, value)| (name, Proxy::http(value.trim()))),
        find("HTTPS_PROXY").map(|(name, value)| (name, Proxy::https(value.trim()))),
        find("ALL_PROXY").map(|(name, value)| (name, Proxy::all(value.trim()))),
    ];
    let made = made.into_iter().flatten().map(|(name, proxy)| match proxy {
        Ok(proxy) => Ok(proxy.no_proxy(NoProxy::from_string(&not_for))),
        // The value may hold a password.
        Err(_) => Err(Failed::unsent(Failure::Connect(format!("the variable {name} holds no usable address")))),
    });
    made.collect()
}

const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";
