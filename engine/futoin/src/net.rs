//! Addresses of clients: ranges, proxies, and a bounded table of what is kept per address. Pure.
//!
//! ```
//! use asyncsteps_futoin::net::{RangeMap, Scope};
//!
//! let mut limiters = RangeMap::new();
//! limiters.insert("0.0.0.0/0".parse()?, "default");
//! limiters.insert("10.0.0.0/8".parse()?, "inside");
//! assert_eq!(limiters.get("10.1.2.3".parse()?), Some(&"inside"));
//! assert_eq!(limiters.get("192.0.2.1".parse()?), Some(&"default"));
//!
//! // one household has as many addresses as it likes
//! let client = Scope::default().of("2001:db8:1:2:3:4:5:6".parse()?);
//! assert_eq!(client.to_string(), "2001:db8:1:2::/64");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    borrow::Borrow,
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// A range of addresses, such as `10.0.0.0/8` or `2001:db8::/32` (RFC 4632).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    base: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The range around `address` that shares its first `prefix` bits. More bits than the address
    /// has are as many as it has. An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is IPv4.
    #[must_use]
    pub fn around(address: IpAddr, prefix: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let prefix = prefix.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                let base = Ipv4Addr::from_bits(address.to_bits() & mask);
                Self { base: base.into(), prefix }
            }
            IpAddr::V6(address) => {
                let prefix = prefix.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                let base = Ipv6Addr::from_bits(address.to_bits() & mask);
                Self { base: base.into(), prefix }
            }
        }
    }

    /// Whether `address` is in the range.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        // the prefix of one family says nothing of the other
        Self::around(address, self.prefix) == self
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Reads a range; an address alone is a range of one.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) if prefix.bytes().all(|byte| byte.is_ascii_digit()) => {
                prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or(CidrError::Prefix)?
            }
            Some(_) => return Err(CidrError::Prefix),
            None => bits,
        };
        let range = Self::around(address, prefix);
        if range.base == address { Ok(range) } else { Err(CidrError::HostBits) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// Why a text is no range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// No IPv4 or IPv6 address before the slash.
    #[error("not an IP address")]
    Address,
    /// No number after the slash, or more bits than the address has.
    #[error("not a prefix length: 0 to 32 for IPv4, 0 to 128 for IPv6")]
    Prefix,
    /// The address goes on after the prefix, which is more often a mistake than meant.
    #[error("the address has bits beyond the prefix, or is IPv4 written as IPv6")]
    HostBits,
}

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

/// Values for ranges of addresses; the longest prefix wins.
#[derive(Debug, Clone)]
pub struct RangeMap<T> {
    /// By prefix length, longest first, so that a look-up costs one probe per length in use.
    lengths: BTreeMap<Reverse<u8>, HashMap<Cidr, T>>,
}

impl<T> RangeMap<T> {
    /// No ranges yet.
    #[must_use]
    pub fn new() -> Self {
        Self { lengths: BTreeMap::new() }
    }

    /// Sets the value of a range; gives the one it replaces.
    pub fn insert(&mut self, range: Cidr, value: T) -> Option<T> {
        self.lengths.entry(Reverse(range.prefix)).or_default().insert(range, value)
    }

    /// Removes a range; gives its value.
    pub fn remove(&mut self, range: Cidr) -> Option<T> {
        let ranges = self.lengths.get_mut(&Reverse(range.prefix))?;
        let removed = ranges.remove(&range);
        if ranges.is_empty() {
            self.lengths.remove(&Reverse(range.prefix));
        }
        removed
    }

    /// Keeps the ranges whose values are to be kept.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.lengths.retain(|_, ranges| {
            ranges.retain(|_, value| keep(value));
            !ranges.is_empty()
        });
    }

    /// The value of the narrowest range that `address` is in.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<&T> {
        self.around(address).next()
    }

    /// The values of all ranges that `address` is in, the narrowest first.
    pub fn around(&self, address: IpAddr) -> impl Iterator<Item = &T> {
        let lengths = self.lengths.iter();
        lengths.filter_map(move |(Reverse(prefix), ranges)| {
            ranges.get(&Cidr::around(address, *prefix))
        })
    }

    /// How many ranges there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.values().map(HashMap::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> FromIterator<(Cidr, T)> for RangeMap<T> {
    fn from_iter<I: IntoIterator<Item = (Cidr, T)>>(ranges: I) -> Self {
        let mut map = Self::new();
        for (range, value) in ranges {
            map.insert(range, value);
        }
        map
    }
}

/// How many leading bits of an address tell one client from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    v4: u8,
    v6: u8,
}

impl Scope {
    /// More bits than an address has are as many as it has.
    #[must_use]
    pub const fn new(v4: u8, v6: u8) -> Self {
        Self { v4, v6 }
    }

    /// The client behind an address, by its range.
    #[must_use]
    pub fn of(self, address: IpAddr) -> Cidr {
        let is_v4 = address.to_canonical().is_ipv4();
        Cidr::around(address, if is_v4 { self.v4 } else { self.v6 })
    }
}

impl Default for Scope {
    /// `/32` and `/64`, as FTN8 §2.14 has it.
    fn default() -> Self {
        Self::new(32, 64)
    }
}

/// Proxies whose word on the client's address is taken.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    ranges: RangeMap<()>,
}

impl TrustedProxies {
    /// Proxies in these ranges.
    #[must_use]
    pub fn new(ranges: impl IntoIterator<Item = Cidr>) -> Self {
        Self { ranges: ranges.into_iter().map(|range| (range, ())).collect() }
    }

    /// Whether `address` is one of them.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.ranges.get(address).is_some()
    }

    /// The address of the client behind `peer`, by the values of all `X-Forwarded-For` headers in
    /// their order.
    ///
    /// Each proxy adds at the right who called it. So they are read from there, and only as long
    /// as all so far are trusted; what is left of that anybody may have made up. An entry that is
    /// no address ends it too: the client is then the proxy that wrote it.
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

/// A table that forgets what was not used for longest.
///
/// It holds at most `capacity` entries, and never forgets one that is among the `capacity / 2`
/// used last: two generations, of which the older one is dropped when the younger one is full.
#[derive(Debug, Clone)]
pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// Of one generation.
    capacity: usize,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// A table of at most `capacity` entries; it holds two even if that is less.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let capacity = (capacity / 2).max(1);
        Self { young: HashMap::new(), old: HashMap::new(), capacity }
    }

    /// The value of `key`, which is used now; made if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.young.len() >= self.capacity && !self.young.contains_key(&key) {
            let kept = self.old.remove(&key);
            self.old = mem::take(&mut self.young);
            return self.young.entry(key).or_insert_with(|| kept.unwrap_or_else(make));
        }
        let old = &mut self.old;
        match self.young.entry(key) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let kept = old.remove(place.key());
                place.insert(kept.unwrap_or_else(make))
            }
        }
    }

    /// The value of `key`, if it is not forgotten. To look does not count as use.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Forgets a key; gives its value.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

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

    #[test]
    fn sources_are_written_as_the_specification_has_it() {
        let text =
            |address: &str| SourceAddress::from(address.parse::<SocketAddr>().unwrap()).to_string();
        assert_eq!(text("192.0.2.1:80"), "IPv4:192.0.2.1:80");
        assert_eq!(text("[::ffff:192.0.2.1]:80"), "IPv4:192.0.2.1:80");
        assert_eq!(text("[2001:db8::1]:80"), "IPv6:[2001:db8::1]:80");
        assert_eq!(SourceAddress::Local.to_string(), "LOCAL:internal");
    }

    #[test]
    fn the_longest_prefix_wins() {
        let ranges = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32"];
        let map: RangeMap<&str> = ranges.into_iter().map(|text| (range(text), text)).collect();
        for (address, expected) in [
            ("192.0.2.1", Some("0.0.0.0/0")),
            ("10.2.0.1", Some("10.0.0.0/8")),
            ("10.1.9.9", Some("10.1.0.0/16")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("::ffff:10.1.2.3", Some("10.1.2.3")),
            ("2001:db8::1", Some("2001:db8::/32")),
            ("2001:db9::1", None),
            ("::", None),
        ] {
            assert_eq!(map.get(ip(address)).copied(), expected, "{address}");
        }
    }

    #[test]
    fn a_removed_range_leaves_its_addresses_to_the_wider_ones() {
        let ranges = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "10.1.2.4"];
        let mut map: RangeMap<&str> = ranges.into_iter().map(|text| (range(text), text)).collect();
        let around = |map: &RangeMap<&'static str>| -> Vec<_> {
            map.around(ip("10.1.2.3")).copied().collect()
        };
        assert_eq!(around(&map), ["10.1.2.3", "10.1.0.0/16", "10.0.0.0/8"]);
        assert_eq!(map.remove(range("10.1.0.0/16")), Some("10.1.0.0/16"));
        assert_eq!(map.remove(range("10.1.0.0/16")), None);
        assert_eq!((map.len(), around(&map)), (3, vec!["10.1.2.3", "10.0.0.0/8"]));
        map.retain(|text| text.ends_with('8'));
        assert_eq!((map.len(), around(&map)), (1, vec!["10.0.0.0/8"]));
        map.retain(|_| false);
        assert!(map.is_empty());
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

    #[test]
    fn a_value_is_kept_while_it_is_used() {
        let mut table = Recent::new(8);
        table.get_or_insert_with(0, || "kept");
        for key in 1..1000 {
            table.get_or_insert_with(key, || "other");
            assert_eq!(*table.get_or_insert_with(0, || "lost"), "kept");
            assert!(table.len() <= 8);
        }
        assert_eq!(table.remove(&0), Some("kept"));
        assert_eq!(table.remove(&0), None);
    }

    proptest! {
        #[test]
        fn the_table_is_bounded_and_keeps_the_last(
            keys in prop::collection::vec(0_u8..40, 1..300), capacity in 0_usize..30,
        ) {
            let mut table = Recent::new(capacity);
            for (now, key) in keys.iter().enumerate() {
                table.get_or_insert_with(*key, || *key);
                prop_assert!(table.len() <= capacity.max(2));
                let mut last: Vec<u8> = Vec::new();
                for key in keys[..=now].iter().rev() {
                    if !last.contains(key) {
                        last.push(*key);
                    }
                }
                for key in last.iter().take((capacity / 2).max(1)) {
                    let known = table.young.contains_key(key) || table.old.contains_key(key);
                    prop_assert!(known, "{} of {:?} is forgotten", key, last);
                }
            }
        }

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
