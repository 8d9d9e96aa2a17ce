//! Cookies of answers (RFC 6265 §4.1, FTN5 §3.6).

use std::time::Duration;

use asyncsteps_core::Error;

use super::token::{is_token, wrong};

/// A cookie to set. By default scripts of pages do not see it, and one that was set over a secure channel is
/// sent back over secure connections only, as a cookie that holds a session needs (FTN5 §3.6).
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_executor::raw::{Cookie, Head};
///
/// let mut head = Head::new();
/// head.set_cookie(Cookie::new("session", "s3cr3t").path("/").max_age(Duration::from_secs(3600)))?;
/// let (_, value) = head.headers().next().expect("it is set");
/// assert_eq!(value, "session=s3cr3t; Path=/; Max-Age=3600; Secure; HttpOnly");
/// # Ok::<(), asyncsteps_core::Error>(())
/// ```
///
/// Behind a proxy that ends TLS, the channel is secure if the transport trusts the proxy.
#[derive(Clone, Debug)]
#[must_use = "it is not set before a head has it"]
pub struct Cookie {
    name: String,
    value: String,
    attributes: String,
    /// `None` for what the channel is.
    secure: Option<bool>,
    http_only: bool,
}

impl Cookie {
    /// A cookie until the end of the browser's session.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        Self { name, value, attributes: String::new(), secure: None, http_only: true }
    }

    /// For requests to this path and below it only.
    pub fn path(self, path: &str) -> Self {
        self.attribute("Path", path)
    }

    /// Also for hosts below this domain.
    pub fn domain(self, domain: &str) -> Self {
        self.attribute("Domain", domain)
    }

    /// Kept for so long, in whole seconds; zero deletes the cookie.
    pub fn max_age(self, time: Duration) -> Self {
        self.attribute("Max-Age", &time.as_secs().to_string())
    }

    /// Kept until a date, such as `Wed, 21 Oct 2026 07:28:00 GMT`.
    pub fn expires(self, date: &str) -> Self {
        self.attribute("Expires", date)
    }

    /// Whether requests from other sites carry it: `Strict`, `Lax` or `None`; browsers take `Lax`
    /// unless it is set.
    pub fn same_site(self, rule: &str) -> Self {
        self.attribute("SameSite", rule)
    }

    /// Sent back over connections without TLS too, also if it is set over a secure one.
    pub fn over_any_channel(self) -> Self {
        Self { secure: Some(false), ..self }
    }

    /// Sent back over secure connections only, also if it is set over one that is not: behind a proxy that
    /// ends TLS and is not trusted.
    pub fn over_secure_channels(self) -> Self {
        Self { secure: Some(true), ..self }
    }

    /// Seen by scripts of pages too.
    pub fn for_scripts(self) -> Self {
        Self { http_only: false, ..self }
    }

    fn attribute(mut self, name: &str, value: &str) -> Self {
        // one that could end the attribute is refused when the cookie is set
        self.attributes += &format!("; {name}={}", value.replace(';', "\n"));
        self
    }

    /// The value of the header `set-cookie`, over a channel that is secure or not.
    pub(super) fn into_header(self, over_secure: bool) -> Result<String, Error> {
        let Self { name, value, attributes, secure, http_only } = self;
        let is_value = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\');
        if !is_token(&name) || !value.chars().all(is_value) {
            return Err(wrong(format!("{name:?} cannot be a cookie")));
        }
        let secure = if secure.unwrap_or(over_secure) { "; Secure" } else { "" };
        let http_only = if http_only { "; HttpOnly" } else { "" };
        Ok(format!("{name}={value}{attributes}{secure}{http_only}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::Head;
    use super::*;

    fn set_over(mut head: Head, cookie: Cookie) -> Result<String, Error> {
        head.set_cookie(cookie).map(drop)?;
        let header = head.headers().next().map(|(_, value)| value.to_owned());
        Ok(header.unwrap_or_default())
    }

    #[test]
    fn a_cookie_is_as_secure_as_its_channel_unless_it_says_otherwise() {
        let set = |secure, cookie| set_over(Head::over(secure), cookie).unwrap();
        let cookie = || Cookie::new("a", "b");
        assert_eq!(set(true, cookie()), "a=b; Secure; HttpOnly");
        assert_eq!(set(false, cookie()), "a=b; HttpOnly");
        assert_eq!(set(true, cookie().over_any_channel()), "a=b; HttpOnly");
        assert_eq!(set(false, cookie().over_secure_channels()), "a=b; Secure; HttpOnly");
    }

    #[test]
    fn a_cookie_is_secure_and_http_only_by_default() {
        let set = |cookie: Cookie| set_over(Head::new(), cookie);
        assert_eq!(set(Cookie::new("a", "b")).unwrap(), "a=b; Secure; HttpOnly");
        let open = Cookie::new("a", "").domain("x.example").over_any_channel().for_scripts();
        assert_eq!(set(open).unwrap(), "a=; Domain=x.example");
        for cookie in [
            Cookie::new("", "b"),
            Cookie::new("a b", "b"),
            Cookie::new("a", "b;c"),
            Cookie::new("a", "b\r\n"),
            Cookie::new("a", "b").path("/; Domain=evil.example"),
            Cookie::new("a", "b").same_site("Lax\r\nX: y"),
        ] {
            assert!(set(cookie.clone()).is_err(), "{cookie:?}");
        }
    }
}
