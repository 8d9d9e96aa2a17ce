//! The head of an answer.

use std::borrow::Cow;

use asyncsteps_core::Error;

use super::cookie::Cookie;
use super::token::{is_token, wrong};

/// Most headers that a handler may set.
const MAX_HEADERS: usize = 64;

/// The head of an answer, in the words of HTTP: status, headers and cookies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    status: Option<u16>,
    headers: Vec<(Cow<'static, str>, String)>,
    /// Its answer goes over a channel that is not secure.
    is_insecure: bool,
}

impl Head {
    /// A head with only what the transport itself sets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for an answer over a channel that is secure or not.
    pub(crate) fn over(secure: bool) -> Self {
        Self { is_insecure: !secure, ..Self::default() }
    }

    /// Sets the status, 200 to 599. With 204 and 304 no message is sent, and raw data is refused:
    /// such an answer has no body (RFC 9110 §6.4.1).
    ///
    /// # Errors
    /// InternalError for any other.
    pub fn set_status(&mut self, status: u16) -> Result<&mut Self, Error> {
        if !(200..=599).contains(&status) {
            return Err(wrong(format!("{status} is no status of an answer")));
        }
        self.status = Some(status);
        Ok(self)
    }

    /// Sets a header, in place of others of the same name; `set-cookie` is added to others.
    ///
    /// # Errors
    /// InternalError if the name is no token or the value has control characters (RFC 9110 §5), if
    /// it is one that only the transport can know, or if there are too many.
    pub fn set_header(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Result<&mut Self, Error> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, &value)?;
        if !name.eq_ignore_ascii_case(SET_COOKIE) {
            self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        }
        self.push_header(name, value)
    }

    /// The same in addition to others of the same name (FTN5 §3.6, `override=false`).
    ///
    /// # Errors
    /// As for [`set_header`](Self::set_header).
    pub fn add_header(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
    ) -> Result<&mut Self, Error> {
        let (name, value) = (name.into(), value.into());
        check_header(&name, &value)?;
        self.push_header(name, value)
    }

    /// Adds a header that was checked.
    fn push_header(&mut self, name: Cow<'static, str>, value: String) -> Result<&mut Self, Error> {
        if self.headers.len() == MAX_HEADERS {
            return Err(wrong(format!("more than {MAX_HEADERS} headers")));
        }
        self.headers.push((name, value));
        Ok(self)
    }

    /// Adds a cookie.
    ///
    /// # Errors
    /// InternalError if name, value or an attribute is not valid in a cookie, or there are too many
    /// headers.
    pub fn set_cookie(&mut self, cookie: Cookie) -> Result<&mut Self, Error> {
        self.add_header(SET_COOKIE, cookie.into_header(!self.is_insecure)?)
    }

    /// The status, if it was set.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether an answer with this status has a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        !matches!(self.status, Some(204 | 304))
    }

    /// The headers that were set, names and values; each can be one of HTTP.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str()))
    }
}

const SET_COOKIE: &str = "set-cookie";

/// Headers that only the transport may set: they delimit the body or manage the connection.
const FRAMING: [&str; 5] =
    ["content-length", "transfer-encoding", "connection", "upgrade", "trailer"];

fn check_header(name: &str, value: &str) -> Result<(), Error> {
    if !is_token(name) || value.chars().any(char::is_control) {
        return Err(wrong(format!("{name:?} cannot be a header")));
    }
    if FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name)) {
        return Err(wrong(format!("{name} belongs to the transport")));
    }
    Ok(())
}
