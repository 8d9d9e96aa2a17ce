//! Cookies of answers (RFC 6265 §4.1, FTN5 §3.6).

use std::time::Duration;

use asyncsteps::Error;

use super::token::{is_token, wrong};

/// A cookie to set. By default only secure connections get it back, and scripts of pages do not see
/// it, as a cookie that holds a session needs.
///
/// ```
/// use std::time::Duration;
/// use asyncsteps_executor::raw::{Cookie, Head};
///
/// let mut head = Head::new();
/// head.set_cookie(Cookie::new("session", "s3cr3t").path("/").max_age(Duration::from_secs(3600)))?;
/// let (_, value) = head.headers().next().expect("it is set");
/// assert_eq!(value, "session=s3cr3t; Path=/; Max-Age=3600; Secure; HttpOnly");
/// # Ok::<(), asyncsteps::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is not set before a head has it"]
pub struct Cookie {
    name: String,
    value: String,
    attributes: String,
    secure: bool,
    http_only: bool,
}

impl Cookie {
    /// A cookie until the end of the browser's session.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        Self { name, value, attributes: String::new(), secure: true, http_only: true }
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

    /// Sent over connections without TLS too: for services that have none.
    pub fn over_any_channel(self) -> Self {
        Self { secure: false, ..self }
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

    /// The value of the header `set-cookie`.
    pub(super) fn into_header(self) -> Result<String, Error> {
        let Self { name, value, attributes, secure, http_only } = self;
        let is_value = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\');
        if !is_token(&name) || !value.chars().all(is_value) {
            return Err(wrong(format!("{name:?} cannot be a cookie")));
        }
        let secure = if secure { "; Secure" } else { "" };
        let http_only = if http_only { "; HttpOnly" } else { "" };
        Ok(format!("{name}={value}{attributes}{secure}{http_only}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::Head;
    use super::*;

    #[test]
    fn a_cookie_is_secure_and_http_only_by_default() {
        let set = |cookie: Cookie| {
            let mut head = Head::new();
            head.set_cookie(cookie).map(drop)?;
            let header = head.headers().next().map(|(_, value)| value.to_owned());
            Ok::<_, Error>(header.unwrap_or_default())
        };
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
