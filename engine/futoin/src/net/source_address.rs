//! Where requests come from.

use std::fmt;
use std::net::SocketAddr;

/// Where a request came from (FTN6 §2.4). As text it is `Type:Host:Port`, such as
/// `IPv4:192.0.2.1:1234`, `IPv6:[2001:db8::1]:1234` or `LOCAL:internal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceAddress {
    /// From an address of the network.
    Ip(SocketAddr),
    /// From this process.
    Local,
}

impl SourceAddress {
    /// The type of FTN6 §2.4: `IPv4`, `IPv6` or `LOCAL`.
    #[must_use]
    pub fn family(self) -> &'static str {
        match self {
            Self::Ip(SocketAddr::V4(_)) => "IPv4",
            Self::Ip(SocketAddr::V6(_)) => "IPv6",
            Self::Local => "LOCAL",
        }
    }
}

impl From<SocketAddr> for SourceAddress {
    /// An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is IPv4.
    fn from(address: SocketAddr) -> Self {
        Self::Ip(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{}:{address}", self.family()),
            Self::Local => write!(f, "{}:internal", self.family()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_written_as_the_specification_has_it() {
        let text =
            |address: &str| SourceAddress::from(address.parse::<SocketAddr>().unwrap()).to_string();
        assert_eq!(text("192.0.2.1:80"), "IPv4:192.0.2.1:80");
        assert_eq!(text("[::ffff:192.0.2.1]:80"), "IPv4:192.0.2.1:80");
        assert_eq!(text("[2001:db8::1]:80"), "IPv6:[2001:db8::1]:80");
        assert_eq!(SourceAddress::Local.to_string(), "LOCAL:internal");
    }
}
