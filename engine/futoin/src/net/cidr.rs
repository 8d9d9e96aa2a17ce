//! Ranges of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A range of addresses, such as `10.0.0.0/8` or `2001:db8::/32` (RFC 4632).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    /// The range of the addresses that share the first `prefix` bits with `address`. A prefix longer
    /// than the address counts as its length. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is
    /// IPv4.
    #[must_use]
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        let address = address.to_canonical();
        Self(IpNet::new(address, prefix).unwrap_or_else(|_| address.into()).trunc())
    }

    /// How many leading bits the addresses of the range share.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether `address` is in the range.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Reads a range. An address without a prefix is a range of one address.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address)?;
        let range = if text.contains('/') {
            Self(text.parse().map_err(|_| CidrError::Prefix)?)
        } else {
            Self(address.into())
        };
        if Self::around(address, range.prefix()) == range {
            Ok(range)
        } else {
            Err(CidrError::HostBits)
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a text is not a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// No IPv4 or IPv6 address before the slash.
    #[error("not an IP address")]
    Address,
    /// No number after the slash, or more bits than the address has.
    #[error("not a prefix length: 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Prefix,
    /// The address has bits after its prefix, which is more often a mistake than intended.
    #[error("the address has bits beyond the prefix, or is IPv4 written as IPv6")]
    HostBits,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read_strictly() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.1/32", "::/0", "2001:db8::/32", "::1/128"]
        {
            assert_eq!(range(text).to_string(), text);
        }
        assert_eq!(range("192.0.2.1").to_string(), "192.0.2.1/32");
        assert_eq!(range("::1").to_string(), "::1/128");
        for (text, error) in [
            ("", CidrError::Address),
            ("10.0.0/8", CidrError::Address),
            ("localhost/8", CidrError::Address),
            ("10.0.0.0/", CidrError::Prefix),
            ("10.0.0.0/33", CidrError::Prefix),
            ("10.0.0.0/+8", CidrError::Prefix),
            ("10.0.0.0/-1", CidrError::Prefix),
            ("10.0.0.0/256", CidrError::Prefix),
            ("::/129", CidrError::Prefix),
            ("10.0.0.1/8", CidrError::HostBits),
            ("2001:db8::1/64", CidrError::HostBits),
            ("::ffff:10.0.0.0/104", CidrError::HostBits),
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(error), "{text:?}");
        }
    }

    proptest! {
    #[test]
        fn a_range_has_what_shares_its_prefix(address: IpAddr, other: IpAddr, prefix in 0_u8..=128) {
            let range = Cidr::around(address, prefix);
            prop_assert!(range.contains(address));
            prop_assert_eq!(range.to_string().parse(), Ok(range));
            let same = Cidr::around(other, prefix) == range;
            prop_assert_eq!(range.contains(other), same);
        }
    }
}
