//! Which addresses are one client.

use std::net::IpAddr;

use super::cidr::Cidr;

/// How many leading bits of an address identify a client. All addresses that share them count as
/// one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    v4: u8,
    v6: u8,
}

impl Scope {
    /// The number of bits for IPv4 and for IPv6. One longer than the address counts as its length.
    #[must_use]
    pub const fn new(v4: u8, v6: u8) -> Self {
        Self { v4, v6 }
    }

    /// The range of addresses that are the same client as `address`.
    #[must_use]
    pub fn of(self, address: IpAddr) -> Cidr {
        let is_v4 = address.to_canonical().is_ipv4();
        Cidr::around(address, if is_v4 { self.v4 } else { self.v6 })
    }
}

impl Default for Scope {
    /// `/32` and `/64` (FTN8 §2.14).
    fn default() -> Self {
        Self::new(32, 64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn clients_are_told_apart_by_scope() {
        let client = |address| Scope::default().of(ip(address)).to_string();
        assert_eq!(client("192.0.2.1"), "192.0.2.1/32");
        assert_eq!(client("::ffff:192.0.2.1"), "192.0.2.1/32");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(Scope::new(24, 48).of(ip("192.0.2.1")).to_string(), "192.0.2.0/24");
        assert_eq!(Scope::new(24, 48).of(ip("2001:db8:1:2::")).to_string(), "2001:db8:1::/48");
        assert_eq!(Scope::new(255, 255).of(ip("::1")).to_string(), "::1/128");
    }
}
