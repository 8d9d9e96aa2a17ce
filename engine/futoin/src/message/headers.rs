//! The HTTP headers that come with a message.

use std::any::Any;
use std::borrow::Cow;

/// The headers of the HTTP request that a message came with, or that its connection began with
/// (FTN5 §3.6). Those who ask for one in any case ask for its [`header_name`].
pub trait Headers {
    /// The first header of this name, if it is text. `name` is in lower case.
    fn header(&self, name: &str) -> Option<&str>;

    /// Whether there is a header of this name, also one that is no text. `name` is in lower case.
    fn has_header(&self, name: &str) -> bool {
        self.header(name).is_some()
    }

    /// Whether there is more than one header of this name. `name` is in lower case.
    fn is_repeated(&self, name: &str) -> bool {
        self.headers().filter(|(other, _)| *other == name).nth(1).is_some()
    }

    /// All headers that are text, with their names in lower case; one per value.
    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;

    /// The request in the type of its transport, for code that knows the transport: a `RequestHead` for
    /// requests over the HTTP transport of the executor.
    fn transport(&self) -> Option<&dyn Any> {
        None
    }
}

/// The name of a header as [`Headers`] takes it: in lower case. Names of headers have no case (RFC 9110 §5.1).
#[must_use]
pub fn header_name(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    }
}
