//! The rule for addresses that a server names: in redirects, endpoints and OAuth documents.
//!
//! A server can name an address, and we would connect to it from where we run: behind a firewall, on a machine with
//! other services. So a server on the internet must not refer to an address of this machine or its networks, an
//! encrypted connection must not lead to an unencrypted one, and messages go only to the origin that the configuration
//! names. Addresses in the configuration itself are always allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Host;

use super::address::same_origin;

/// From where an address can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// From everywhere.
    Public,
    /// From private networks.
    Private,
    /// From one link; cloud metadata services have such addresses.
    LinkLocal,
    /// From this machine alone.
    Loopback,
    /// Not an address of a single machine: unspecified, multicast, or reserved.
    Special,
}

impl Zone {
    /// Returns the zone of an address, also if an IPv6 address embeds an IPv4 one.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => match embedded(address) {
                Some(address) => Self::of_v4(address),
                None => Self::of_v6(address),
            },
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Zone::Loopback,
            [169, 254, ..] => Zone::LinkLocal,
            // Private use, carrier networks (RFC 6598), and benchmarks (RFC 2544).
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [198, 18..=19, ..] => Zone::Private,
            [0 | 224.., ..] | [192, 0, 0, _] => Zone::Special,
            _ => Zone::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Zone::Loopback,
            [0xfe80..=0xfebf, ..] => Zone::LinkLocal,
            // Unique local addresses, and the older site-local ones.
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Zone::Private,
            // Translated by gateways of the site (RFC 8215) or of others (Teredo), so the real target is unknown.
            [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => Zone::Special,
            [0 | 0xff00.., ..] => Zone::Special,
            _ => Zone::Public,
        }
    }

    /// Returns the zone that a URL's host implies: it is a number, or a well-known local name.
    pub(crate) fn of_name(url: &Url) -> Option<Self> {
        match url.host()? {
            Host::Ipv4(address) => Some(Self::of(address.into())),
            Host::Ipv6(address) => Some(Self::of(address.into())),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                let local = name == "localhost" || name.ends_with(".localhost");
                // Names of cloud metadata services, which have a link-local address.
                let metadata = matches!(name.as_str(), "metadata.google.internal" | "metadata" | "instance-data");
                if metadata { Some(Zone::LinkLocal) } else { local.then_some(Zone::Loopback) }
            }
        }
    }

    /// Reports whether a server in this zone may refer to that one: outwards, or within its own. A server on this
    /// machine may also refer to private networks.
    fn may_lead_to(self, to: Zone) -> bool {
        match to {
            Zone::Public => true,
            Zone::Special => false,
            Zone::Private => matches!(self, Zone::Private | Zone::Loopback),
            Zone::LinkLocal | Zone::Loopback => self == to,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Zone::Public => "a public address",
            Zone::Private => "a private address",
            Zone::LinkLocal => "a link-local address",
            Zone::Loopback => "a loopback address",
            Zone::Special => "a special-purpose address",
        }
    }
}

/// Returns the IPv4 address in an IPv6 one: mapped, compatible, translated (RFC 6052) or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // These two are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

/// The servers that named an address: one, or a chain of which each named the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Referrer {
    /// The zone by which resolved addresses are judged, because a name may resolve to any address.
    pub(crate) zone: Zone,
    encrypted: bool,
}

impl Referrer {
    /// Creates the referrer for a server at this URL, found in this zone.
    pub(crate) fn new(url: &Url, zone: Zone) -> Self {
        Referrer { zone, encrypted: url.scheme() == "https" }
    }

    /// Combines two referrers: only addresses that both may refer to are allowed.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub(crate) fn and(self, other: Referrer) -> Self {
        let zone = match (self.zone, other.zone) {
            (one, other) if one == other => one,
            (Zone::Private, Zone::Loopback) | (Zone::Loopback, Zone::Private) => Zone::Private,
            _ => Zone::Public,
        };
        Referrer { zone, encrypted: self.encrypted || other.encrypted }
    }

    /// Checks whether it may refer to this URL, as far as its host implies a zone.
    pub(crate) fn check(self, to: &Url) -> Result<(), AddressError> {
        if !matches!(to.scheme(), "http" | "https") || to.host().is_none() {
            return Err(AddressError::NoSite);
        }
        if self.encrypted && to.scheme() != "https" {
            return Err(AddressError::Unencrypted);
        }
        match Zone::of_name(to) {
            Some(zone) if !self.zone.may_lead_to(zone) => Err(AddressError::Inside { zone, from: self.zone }),
            _ => Ok(()),
        }
    }
}

/// Reports whether messages for one URL may go to the other: to the same origin, or to the same host over TLS.
pub(crate) fn may_carry_messages(from: &Url, to: &Url) -> bool {
    // `port` returns none for the default port of the scheme.
    let upgraded = from.scheme() == "http" && to.scheme() == "https" && from.port().is_none() && to.port().is_none();
    same_origin(from, to) || upgraded && from.host() == to.host()
}

/// The reason why an address that a server named is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// Messages would go to another origin.
    #[error("another origin, to which no message is sent; to allow that, use that address in the configuration")]
    OtherOrigin,
    /// The scheme is neither `http` nor `https`.
    #[error("not a web address")]
    NoSite,
    /// An encrypted connection would lead to an unencrypted one.
    #[error("which is not encrypted, unlike this server")]
    Unencrypted,
    /// The address is more private than the server that named it may refer to.
    #[error("{}, which a server at {} may not refer to", zone.in_words(), from.in_words())]
    Inside {
        /// The zone of the address.
        zone: Zone,
        /// The zone of the server that named it.
        from: Zone,
    },
}

/// Resolves names to the addresses that a server in this zone may refer to. The connection uses the checked address, so
/// a name that resolves differently later does not matter.
pub(super) struct ZoneResolver(pub(super) Zone);

impl Resolve for ZoneResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let from = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(admitted(from, found)?.into_iter()) as Addrs)
        })
    }
}

/// Returns the addresses that a server in this zone may refer to; an error if none is left.
pub(super) fn admitted(from: Zone, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, AddressError> {
    let (mut left, mut refused) = (Vec::new(), None);
    for address in found {
        match Zone::of(address.ip()) {
            zone if from.may_lead_to(zone) => left.push(address),
            zone => refused = Some(AddressError::Inside { zone, from }),
        }
    }
    match refused {
        Some(refused) if left.is_empty() => Err(refused),
        _ => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn every_way_to_write_an_inner_address_is_known() {
        let check = |host: &str, zone: Option<Zone>| {
            assert_eq!(Zone::of_name(&url(&format!("http://{host}/x"))), zone, "{host}");
        };
        for host in ["127.0.0.1", "127.9.9.9", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]"] {
            check(host, Some(Zone::Loopback));
        }
        for host in ["localhost", "LOCALHOST.", "x.localhost", "[::ffff:127.0.0.1]", "[::127.0.0.1]"] {
            check(host, Some(Zone::Loopback));
        }
        for host in ["[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]"] {
            check(host, Some(Zone::Loopback));
        }
        for host in ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "metadata.google.internal"] {
            check(host, Some(Zone::LinkLocal));
        }
        for host in ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1"] {
            check(host, Some(Zone::Private));
        }
        for host in ["[fc00::1]", "[fd12::1]", "[fec0::1]", "[::ffff:10.0.0.1]"] {
            check(host, Some(Zone::Private));
        }
        for host in ["0.0.0.0", "0", "0.1.2.3", "[::]", "224.0.0.1", "255.255.255.255", "240.0.0.1", "[ff02::1]"] {
            check(host, Some(Zone::Special));
        }
        for host in ["[::ffff:0.0.0.0]", "[2001:0:1::1]", "[64:ff9b:1::1]", "192.0.0.8"] {
            check(host, Some(Zone::Special));
        }
        for host in
            ["93.184.216.34", "172.32.0.1", "100.128.0.1", "203.0.113.7", "[2606:4700::1111]", "[2002:808:808::]"]
        {
            check(host, Some(Zone::Public));
        }
        for host in ["tools.example", "localhost.example", "notlocalhost"] {
            check(host, None);
        }
    }

    #[test]
    fn nobody_leads_inwards() {
        use Zone::{LinkLocal, Loopback, Private, Public, Special};
        let check = |from: Zone, may: &[Zone]| {
            for to in [Public, Private, LinkLocal, Loopback, Special] {
                assert_eq!(from.may_lead_to(to), may.contains(&to), "{from:?} to {to:?}");
            }
        };
        check(Public, &[Public]);
        check(Private, &[Public, Private]);
        check(LinkLocal, &[Public, LinkLocal]);
        check(Loopback, &[Public, Private, Loopback]);
        check(Special, &[Public]);
    }

    #[test]
    fn an_encrypted_server_leads_to_encrypted_ones() {
        let check = |from: &str, zone: Zone, to: &str, may: Result<(), AddressError>| {
            assert_eq!(Referrer::new(&url(from), zone).check(&url(to)), may, "{from} to {to}");
        };
        let inside = |zone| Err(AddressError::Inside { zone, from: Zone::Public });
        check("https://a.example/", Zone::Public, "https://b.example/", Ok(()));
        check("https://a.example/", Zone::Public, "http://a.example/", Err(AddressError::Unencrypted));
        check("https://127.0.0.1/", Zone::Loopback, "http://127.0.0.1/", Err(AddressError::Unencrypted));
        check("http://a.example/", Zone::Public, "http://b.example/", Ok(()));
        check("http://a.example/", Zone::Public, "http://127.0.0.1/", inside(Zone::Loopback));
        check("https://a.example/", Zone::Public, "https://[fd00::1]/", inside(Zone::Private));
        check("http://127.0.0.1/", Zone::Loopback, "http://127.0.0.1:1/", Ok(()));
        check("http://127.0.0.1/", Zone::Loopback, "file:///etc/passwd", Err(AddressError::NoSite));
        check("http://127.0.0.1/", Zone::Loopback, "smb://127.0.0.1/x", Err(AddressError::NoSite));
    }

    #[cfg(feature = "oauth")]
    #[test]
    fn several_lead_no_further_than_each_of_them() {
        let referrer = |text: &str, zone| Referrer::new(&url(text), zone);
        let check = |one: Referrer, other: Referrer, both: Referrer| {
            assert_eq!((one.and(other), other.and(one)), (both, both), "{one:?} {other:?}");
        };
        let (open, encrypted) = ("http://a.example/", "https://a.example/");
        check(referrer(open, Zone::Loopback), referrer(open, Zone::Loopback), referrer(open, Zone::Loopback));
        check(referrer(open, Zone::Loopback), referrer(encrypted, Zone::Private), referrer(encrypted, Zone::Private));
        check(referrer(open, Zone::Loopback), referrer(open, Zone::Public), referrer(open, Zone::Public));
        check(referrer(open, Zone::LinkLocal), referrer(open, Zone::Private), referrer(open, Zone::Public));
    }

    #[test]
    fn messages_stay_with_their_origin_or_are_encrypted_on_the_way_to_the_same_host() {
        let check = |from: &str, to: &str, may: bool| {
            assert_eq!(may_carry_messages(&url(from), &url(to)), may, "{from} to {to}");
        };
        check("http://a.example/mcp", "http://a.example:80/other?x", true);
        check("http://a.example/mcp", "https://A.example:443/mcp", true);
        check("http://a.example/mcp", "https://a.example:8443/mcp", false);
        check("http://a.example:8080/mcp", "https://a.example/mcp", false);
        check("http://a.example/mcp", "https://b.example/mcp", false);
        check("http://a.example/mcp", "https://www.a.example/mcp", false);
        check("https://a.example/mcp", "http://a.example/mcp", false);
        check("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/mcp", false);
    }

    #[test]
    fn a_name_is_judged_by_the_addresses_that_it_stands_for() {
        let check = |from: Zone, found: &[&str], left: Result<&[&str], Zone>| {
            let parse = |text: &&str| SocketAddr::new(text.parse().unwrap(), 0);
            let left =
                left.map(|left| left.iter().map(parse).collect()).map_err(|zone| AddressError::Inside { zone, from });
            assert_eq!(admitted(from, found.iter().map(parse)), left, "{found:?}");
        };
        check(Zone::Public, &["203.0.113.7", "2001:db8::1"], Ok(&["203.0.113.7", "2001:db8::1"]));
        check(Zone::Public, &["127.0.0.1", "203.0.113.7", "10.0.0.1"], Ok(&["203.0.113.7"]));
        check(Zone::Public, &["127.0.0.1"], Err(Zone::Loopback));
        check(Zone::Public, &["::ffff:169.254.169.254"], Err(Zone::LinkLocal));
        check(Zone::Private, &["10.0.0.1", "::1"], Ok(&["10.0.0.1"]));
        check(Zone::Loopback, &["127.0.0.1", "0.0.0.0"], Ok(&["127.0.0.1"]));
        check(Zone::Public, &[], Ok(&[]));
    }
}
