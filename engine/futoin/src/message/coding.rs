//! The codings of messages and their media types.

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Coding {
    /// JSON (RFC 8259), the default.
    #[default]
    Json,
    /// `MPCK`, then a MessagePack map.
    MsgPack,
    /// `CBOR`, then a CBOR map (RFC 8949).
    Cbor,
}

impl Coding {
    pub(super) const MSGPACK: &[u8] = b"MPCK";
    pub(super) const CBOR: &[u8] = b"CBOR";
    /// Length of the mark before a message in a binary coding, in bytes.
    pub(super) const MARK: usize = 4;

    /// The coding of a message by its first bytes: JSON unless they are a mark.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Self {
        if bytes.starts_with(Self::MSGPACK) {
            Self::MsgPack
        } else if bytes.starts_with(Self::CBOR) {
            Self::Cbor
        } else {
            Self::Json
        }
    }
}

/// The part of the media type of a request that its answer depends on.
///
/// It does not say the coding: [`Coding::detect`] finds that in the first bytes of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MediaType {
    vendor: bool,
}

/// The media types of requests, and whether they have the vendor prefix. The usual one is first.
const KNOWN: [(&str, bool); 7] = [
    ("application/futoin+json", false),
    ("application/futoin+msgpack", false),
    ("application/futoin+cbor", false),
    ("application/vnd.futoin+json", true),
    ("application/vnd.futoin+msgpack", true),
    ("application/vnd.futoin+cbor", true),
    ("application/json", false),
];

impl MediaType {
    /// Reads a `Content-Type`. A missing one counts as JSON. `None` for a media type that is not of
    /// FutoIn, to be answered with 415; the types of HTML forms are refused too, because a page of any
    /// site can send them.
    #[must_use]
    pub fn parse(header: Option<&str>) -> Option<Self> {
        header.map_or_else(|| Some(Self::default()), Self::known)
    }

    /// The same for a request with this header `Accept`, which can ask for the vendor prefix, too
    /// (FTN5 §2.2.1).
    #[must_use]
    pub fn accepting(self, accept: Option<&str>) -> Self {
        let is_vendor =
            |accept: &str| accept.split(',').filter_map(Self::known).any(|media| media.vendor);
        Self { vendor: self.vendor || accept.is_some_and(is_vendor) }
    }

    fn known(media: &str) -> Option<Self> {
        let find = |is_it: &dyn Fn(&str) -> bool| KNOWN.iter().find(|(name, _)| is_it(name));
        // most are written like this
        let known = find(&|name| media == name).or_else(|| {
            let media = media.split_once(';').map_or(media, |(media, _)| media).trim();
            find(&|name| media.eq_ignore_ascii_case(name))
        });
        known.map(|(_, vendor)| Self { vendor: *vendor })
    }

    /// The media type of the answer; it has the vendor prefix if the request's had it.
    #[must_use]
    pub fn of_answer(self, coding: Coding) -> &'static str {
        match (coding, self.vendor) {
            (Coding::Json, false) => "application/futoin+json",
            (Coding::Json, true) => "application/vnd.futoin+json",
            (Coding::MsgPack, false) => "application/futoin+msgpack",
            (Coding::MsgPack, true) => "application/vnd.futoin+msgpack",
            (Coding::Cbor, false) => "application/futoin+cbor",
            (Coding::Cbor, true) => "application/vnd.futoin+cbor",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_coding() {
        for (bytes, coding) in [
            (&b"{}"[..], Coding::Json),
            (b"", Coding::Json),
            (b"CBO", Coding::Json),
            (b"mpck", Coding::Json),
            (b"CBOR", Coding::Cbor),
            (b"MPCK\x80", Coding::MsgPack),
        ] {
            assert_eq!(Coding::detect(bytes), coding, "{bytes:?}");
        }
    }

    #[test]
    fn a_media_type_is_answered_in_kind() {
        let answer = |header| MediaType::parse(header).map(|media| media.of_answer(Coding::Cbor));
        let (own, vendor) = (Some("application/futoin+cbor"), Some("application/vnd.futoin+cbor"));
        for (header, expected) in [
            (None, own),
            (Some("application/futoin+json"), own),
            (Some("Application/FutoIn+CBOR; charset=utf-8"), own),
            (Some("application/vnd.futoin+msgpack"), vendor),
            (Some("application/json"), own),
            (Some("application/x-www-form-urlencoded"), None),
            (Some("application/futoin+xml"), None),
            (Some("application/x.futoin+json"), None),
            (Some("application/octet-stream"), None),
            (Some("text/futoin+json"), None),
            (Some(""), None),
        ] {
            assert_eq!(answer(header), expected, "{header:?}");
        }
    }

    #[test]
    fn the_vendor_prefix_can_be_asked_for() {
        let answer = |accept| MediaType::default().accepting(accept).of_answer(Coding::Json);
        let (own, vendor) = ("application/futoin+json", "application/vnd.futoin+json");
        for (accept, expected) in [
            (None, own),
            (Some("*/*"), own),
            (Some("application/futoin+json, text/html;q=0.5"), own),
            (Some("application/vnd.futoin+json"), vendor),
            (Some("text/html, Application/vnd.futoin+CBOR;q=0.5"), vendor),
        ] {
            assert_eq!(answer(accept), expected, "{accept:?}");
        }
        let asked = MediaType::parse(Some("application/vnd.futoin+json")).unwrap();
        assert_eq!(asked.accepting(Some("*/*")).of_answer(Coding::Json), vendor);
    }
}
