//! The client that a request is counted for.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The client that a request is counted for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Client {
    /// All clients without an address and a name, together.
    #[default]
    Unknown,
    /// A machine, or for IPv6 the network of one customer (`/64`).
    Network(IpAddr),
    /// A client with a name: a user, a tenant, a peer service.
    Named(Arc<str>),
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self::Network(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & (u128::MAX << 64);
                Ipv6Addr::from_bits(network).into()
            }
            address => address,
        })
    }
}

impl From<SocketAddr> for Client {
    /// The port says nothing: it is another one for each connection.
    fn from(address: SocketAddr) -> Self {
        address.ip().into()
    }
}

impl From<&str> for Client {
    fn from(name: &str) -> Self {
        Self::Named(name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_addresses_of_one_customer_are_one_client() {
        let client = |address: &str| Client::from(address.parse::<SocketAddr>().unwrap());
        assert_eq!(client("10.0.0.1:1000"), client("10.0.0.1:2000"));
        assert_eq!(client("10.0.0.1:1"), client("[::ffff:10.0.0.1]:1"));
        assert_ne!(client("10.0.0.1:1"), client("10.0.0.2:1"));
        assert_eq!(client("[2001:db8::1]:1"), client("[2001:db8::ffff:2]:1"));
        assert_ne!(client("[2001:db8::1]:1"), client("[2001:db8:0:1::1]:1"));
    }
}
