//! What a look at all fields of a head finds.

use http::{HeaderMap, Uri};

/// A summary of the fields of a head, so that most lookups need no second scan.
#[derive(Clone, Copy, Debug)]
pub struct FieldsSummary {
    /// A bit for each name, which other names may share.
    names: u64,
    count: usize,
    /// Bytes of all names and values.
    text: usize,
}

/// Bytes of a field in addition to its name and value: its place in a map, which has free ones.
const FIELD: usize = 112;

/// A head of which more than so much is text lies in a buffer that has doubled as it grew.
const GROWN: usize = 8 << 10;

impl FieldsSummary {
    /// Of these fields.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        Self::of_fields(headers.iter().map(|(name, value)| (name.as_str(), value.len())))
    }

    /// Of names, each with the length of its value.
    pub fn of_fields<'a>(fields: impl Iterator<Item = (&'a str, usize)>) -> Self {
        let none = Self { names: 0, count: 0, text: 0 };
        fields.fold(none, |Self { names, count, text }, (name, value)| Self {
            names: names | Self::bit(name),
            count: count + 1,
            text: text + name.len() + value,
        })
    }

    #[inline]
    fn bit(name: &str) -> u64 {
        let (first, last) = (name.bytes().next(), name.bytes().next_back());
        let [first, last] = [first, last].map(|byte| usize::from(byte.unwrap_or_default()));
        1 << ((name.len() * 7 + first * 3 + last) % 64)
    }

    /// Whether a field may have this name; if not, none has it.
    #[inline]
    #[must_use]
    pub fn may_have(self, name: &str) -> bool {
        self.names & Self::bit(name) != 0
    }

    pub(super) fn count(self) -> usize {
        self.count
    }

    /// Bytes that a head with these fields keeps in memory.
    #[inline]
    #[must_use]
    pub fn size(self, path: &str, query: &str) -> usize {
        let text = self.text + path.len() + query.len();
        let buffer = if text > GROWN { 2 * text } else { text };
        buffer + self.count * FIELD
    }
}

/// The same target in memory of its own: a parsed one holds the buffer that it was read into.
#[must_use]
pub fn copy_uri(uri: &Uri) -> Option<Uri> {
    uri.to_string().parse().ok()
}
