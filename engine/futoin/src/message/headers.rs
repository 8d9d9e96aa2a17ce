//! What HTTP says beside a message.

use std::any::Any;

/// The headers of the HTTP request that a message came with, or that its connection began with
/// (FTN5 §3.6).
pub trait Headers {
    /// The first header of this name, if it is text. `name` is in lower case.
    fn header(&self, name: &str) -> Option<&str>;

    /// All headers that are text, with their names in lower case; one per value.
    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;

    /// The whole request as its transport has it, for code that knows the transport: an
    /// `actix_web::HttpRequest` for requests that the actix-web service of the executor takes.
    fn transport(&self) -> Option<&dyn Any> {
        None
    }
}
