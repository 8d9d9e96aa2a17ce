//! Values for ranges of addresses.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use asyncsteps_futoin::net::Cidr;

/// Values for ranges of addresses; the longest prefix wins.
pub(super) struct RangeMap<T> {
    values: HashMap<Cidr, T>,
    /// The prefix lengths that were used, longest first: a look-up is one probe of each.
    prefixes: BTreeSet<Reverse<u8>>,
}

impl<T> RangeMap<T> {
    /// Sets the value of a range and returns the one it replaces.
    pub(super) fn insert(&mut self, range: Cidr, value: T) -> Option<T> {
        self.prefixes.insert(Reverse(range.prefix()));
        self.values.insert(range, value)
    }

    /// Removes a range and returns its value.
    pub(super) fn remove(&mut self, range: Cidr) -> Option<T> {
        self.values.remove(&range)
    }

    /// Removes the ranges whose values `keep` rejects.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.values.retain(|_, value| keep(value));
    }

    /// The values of all ranges that `address` is in, the narrowest first.
    pub(super) fn around(&self, address: IpAddr) -> impl Iterator<Item = &T> {
        let ranges = self
            .prefixes
            .iter()
            .map(move |Reverse(prefix)| (Cidr::around(address, *prefix), *prefix));
        // IPv4 has no longer prefix than 32
        let ranges = ranges.filter(|(range, prefix)| range.prefix() == *prefix);
        ranges.filter_map(|(range, _)| self.values.get(&range))
    }

    /// How many ranges there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self { values: HashMap::new(), prefixes: BTreeSet::new() }
    }
}

impl<T> FromIterator<(Cidr, T)> for RangeMap<T> {
    fn from_iter<I: IntoIterator<Item = (Cidr, T)>>(ranges: I) -> Self {
        let mut map = Self::default();
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
            assert_eq!(map.around(ip(address)).next().copied(), expected, "{address}");
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
        assert_eq!((map.len(), around(&map)), (0, vec![]));
    }
}
