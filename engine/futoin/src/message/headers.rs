//! The HTTP headers that come with a message.

use std::any::Any;

/// The headers of the HTTP request that a message came with, or that its connection began with
/// (FTN5 §3.6).
pub trait Headers {
    /// The first header of this name, if it is text. `name` is in lower case.
    fn header(&self, name: &str) -> Option<&str>;

    /// Whether there is a header of this name, also one that is no text. `name` is in lower case.
    fn has_header(&self, name: &str) -> bool {
        self.header(name).is_some()
    }

    /// All headers that are text, with their names in lower case; one per value.
    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;

    /// The request in the type of its transport, for code that knows the transport: a `RequestHead` for
    /// requests over the HTTP transport of the executor.
    fn transport(&self) -> Option<&dyn Any> {
        None
    }
}
