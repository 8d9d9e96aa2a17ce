//! Clients behind proxies.

use std::net::{IpAddr, SocketAddr};

use super::cidr::Cidr;

/// Proxies whose `X-Forwarded-For` is believed.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    ranges: Vec<Cidr>,
}

impl TrustedProxies {
    /// Proxies in these ranges.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Cidr>) -> Self {
        Self { ranges: ranges.into_iter().collect() }
    }

    /// Whether `address` is one of them.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// The address of the client behind `peer`, by the values of all `X-Forwarded-For` headers in
    /// their order.
    ///
    /// Each proxy appends the address of its own client. So the entries are read from the last one
    /// backwards, and only while every proxy so far is trusted: a client can invent the entries
    /// before that. An entry that is not an address ends the search, too; the client is then the
    /// proxy that wrote it.
    #[must_use]
    pub fn client<'a>(
        &self,
        peer: IpAddr,
        forwarded: impl IntoIterator<Item = &'a str, IntoIter: DoubleEndedIterator>,
    ) -> IpAddr {
        let mut client = peer.to_canonical();
        for entry in forwarded.into_iter().rev().flat_map(|header| header.rsplit(',')) {
            if !self.trusts(client) {
                break;
            }
            match entry_address(entry.trim()) {
                Some(address) => client = address.to_canonical(),
                None => break,
            }
        }
        client
    }
}

/// An address, with or without a port, IPv6 with or without brackets.
fn entry_address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().ok();
    address.or_else(|| entry.parse().ok().map(|address: SocketAddr| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn range(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let proxies = TrustedProxies::new(["10.0.0.0/8", "::1"].map(range));
        for (peer, forwarded, expected) in [
            ("192.0.2.1", &["203.0.113.9"][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("::1", &["203.0.113.9"], "203.0.113.9"),
            ("::ffff:10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["203.0.113.9, 10.0.0.2,10.0.0.3"], "203.0.113.9"),
            ("10.0.0.1", &["1.1.1.1", "203.0.113.9", "10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["203.0.113.9:1234"], "203.0.113.9"),
            ("10.0.0.1", &["[2001:db8::1]:1234"], "2001:db8::1"),
            ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["203.0.113.9, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[""], "10.0.0.1"),
        ] {
            let client = proxies.client(ip(peer), forwarded.iter().copied());
            assert_eq!(client, ip(expected), "{peer} {forwarded:?}");
        }
        assert_eq!(TrustedProxies::default().client(ip("10.0.0.1"), ["1.1.1.1"]), ip("10.0.0.1"));
    }
}
