//! Proxies from the usual environment variables.

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, NoProxy, Proxy, Url};

use super::errors::connect_error;
use crate::failure::RequestError;

/// The proxies that requests go through.
#[derive(Default)]
pub(super) struct Proxies {
    made: Vec<Proxy>,
    /// Matches URLs to proxies, because the client does not tell which one it uses.
    matcher: Option<Matcher>,
}

impl Proxies {
    /// Reads the proxies from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case.
    ///
    /// As in most programs, a proxy is never used to reach this machine.
    pub(super) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, RequestError> {
        let find = |name: &'static str| {
            let found = variable(name).or_else(|| variable(&name.to_lowercase()));
            found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()).map(|value| (name, value))
        };
        let not_for = format!("{},{LOOPBACK}", find("NO_PROXY").map(|(_, value)| value).unwrap_or_default());
        // CGI passes a client's `Proxy` header as HTTP_PROXY, so it is not a setting then.
        let http = find("HTTP_PROXY").filter(|_| variable("REQUEST_METHOD").is_none());
        let (https, all) = (find("HTTPS_PROXY"), find("ALL_PROXY"));
        let mut matcher = Matcher::builder().no(not_for.clone());
        let mut made = Vec::new();
        if let Some((name, value)) = http {
            made.push((name, Proxy::http(&value)));
            matcher = matcher.http(value);
        }
        if let Some((name, value)) = https {
            made.push((name, Proxy::https(&value)));
            matcher = matcher.https(value);
        }
        if let Some((name, value)) = all {
            made.push((name, Proxy::all(&value)));
            matcher = matcher.all(value);
        }
        let made = made.into_iter().map(|(name, proxy)| match proxy {
            Ok(proxy) => Ok(proxy.no_proxy(NoProxy::from_string(&not_for))),
            // The value may contain a password.
            Err(_) => Err(connect_error(format!("the variable {name} is not a valid proxy URL"))),
        });
        Ok(Proxies { made: made.collect::<Result<_, _>>()?, matcher: Some(matcher.build()) })
    }

    /// Adds the proxies to a client.
    pub(super) fn on(&self, builder: ClientBuilder) -> ClientBuilder {
        self.made.iter().cloned().fold(builder, ClientBuilder::proxy)
    }

    /// Returns the proxy for this URL, without its login.
    pub(super) fn proxy_for(&self, url: &Url) -> Option<String> {
        let found = self.matcher.as_ref()?.intercept(&url.as_str().parse().ok()?)?;
        Some(format!("{}://{}", found.uri().scheme_str()?, found.uri().authority()?))
    }
}

const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";
