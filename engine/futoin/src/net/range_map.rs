//! Values for ranges of addresses.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::cidr::Cidr;

/// Values for ranges of addresses; the longest prefix wins.
#[derive(Debug, Clone)]
pub struct RangeMap<T> {
    /// By prefix length, longest first: a look-up is one probe per length in use.
    lengths: BTreeMap<Reverse<u8>, HashMap<Cidr, T>>,
}

impl<T> RangeMap<T> {
    /// An empty map.
    #[must_use]
    pub fn new() -> Self {
        Self { lengths: BTreeMap::new() }
    }

    /// Sets the value of a range and returns the one it replaces.
    pub fn insert(&mut self, range: Cidr, value: T) -> Option<T> {
        self.lengths.entry(Reverse(range.prefix())).or_default().insert(range, value)
    }

    /// Removes a range and returns its value.
    pub fn remove(&mut self, range: Cidr) -> Option<T> {
        let ranges = self.lengths.get_mut(&Reverse(range.prefix()))?;
        let removed = ranges.remove(&range);
        if ranges.is_empty() {
            self.lengths.remove(&Reverse(range.prefix()));
        }
        removed
    }

    /// Removes the ranges whose values `keep` rejects.
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

    /// Whether the map is empty.
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
}
