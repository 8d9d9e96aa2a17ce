//! What libpq knows of a URL, and `tokio_postgres` does not.

use std::path::PathBuf;

/// Options of libpq that a [`Config`](tokio_postgres::Config) does not have, by their names there. Files are read whenever a
/// connection is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "applications set some of them")]
pub struct LibpqOptions {
    /// Has the password, if the configuration has none.
    pub passfile: Option<PathBuf>,
    /// How far the server's certificate is looked at.
    pub verify: Verify,
    /// The authorities of servers' certificates, as PEM. If it is set the authority is looked at in each mode, as libpq does;
    /// `system` has those of the system, and so has `verify-full` or `verify-ca` without it. Then the name counts too.
    pub sslrootcert: Option<PathBuf>,
    /// A certificate for servers that ask for one, as PEM.
    pub sslcert: Option<PathBuf>,
    /// Its key, if that is in another file.
    pub sslkey: Option<PathBuf>,
}

/// What of a server's certificate is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "libpq has no other")]
pub enum Verify {
    /// Nothing, unless there is an `sslrootcert`: who listens on the way learns nothing, and who answers in place of the
    /// server is not noticed.
    #[default]
    Nothing,
    /// By whom it is signed: `verify-ca`.
    Authority,
    /// That, and whether it has the name of the host: `verify-full`.
    Name,
}

/// Takes the options out of a URL or of settings like `host=db user=ann`. What is left is for a
/// [`Config`](tokio_postgres::Config).
#[must_use]
pub fn split_url(url: &str) -> (String, LibpqOptions) {
    let mut options = LibpqOptions::default();
    let Some((server, settings)) =
        url.split_once("://").map(|_| url.split_once('?').unwrap_or((url, "")))
    else {
        let settings = url.split_inclusive(char::is_whitespace);
        let rest: String = settings.filter_map(|it| options.take(it, quoted)).collect();
        return (rest.trim_end().to_owned(), options);
    };
    let rest: Vec<_> = settings.split('&').filter_map(|it| options.take(it, unescaped)).collect();
    let rest = rest.join("&");
    (if rest.is_empty() { server.to_owned() } else { format!("{server}?{rest}") }, options)
}

impl LibpqOptions {
    /// Takes the option, or returns what a `Config` has in its place.
    fn take<'a>(&mut self, setting: &'a str, value: fn(&str) -> String) -> Option<&'a str> {
        let (name, text) = setting.split_once('=').unwrap_or((setting, ""));
        let value = value(text);
        let file = match (name, &*value) {
            ("sslmode", "verify-ca" | "verify-full") => {
                self.verify = if value == "verify-ca" { Verify::Authority } else { Verify::Name };
                return None;
            }
            // TLS first is no weaker
            ("sslmode", "allow") => return None,
            ("passfile", _) => &mut self.passfile,
            ("sslrootcert", _) => &mut self.sslrootcert,
            ("sslcert", _) => &mut self.sslcert,
            ("sslkey", _) => &mut self.sslkey,
            _ => return Some(setting),
        };
        *file = Some(value.into());
        None
    }
}

/// A value of settings, perhaps with spaces around it.
fn quoted(value: &str) -> String {
    value.trim().trim_matches('\'').to_owned()
}

/// A value of a URL, in which `%2F` is a slash.
fn unescaped(value: &str) -> String {
    let mut parts = value.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_files() {
        let passfile =
            |file: &str| LibpqOptions { passfile: Some(file.into()), ..Default::default() };
        let full = LibpqOptions {
            verify: Verify::Name,
            sslrootcert: Some("/a b.crt".into()),
            sslcert: Some("c".into()),
            sslkey: Some("k".into()),
            ..Default::default()
        };
        for (url, rest, options) in [
            ("postgres://a@db/shop", "postgres://a@db/shop", LibpqOptions::default()),
            (
                "postgres://a@db/s?passfile=%2Frun%2Fpass",
                "postgres://a@db/s",
                passfile("/run/pass"),
            ),
            ("postgres://db/s?a=1&passfile=/p&b=2", "postgres://db/s?a=1&b=2", passfile("/p")),
            ("host=db passfile=/p user=a", "host=db user=a", passfile("/p")),
            ("host=db passfile=/p", "host=db", passfile("/p")),
            (
                "postgres://db/s?sslmode=verify-full&sslrootcert=/a%20b.crt&sslcert=c&sslkey=k&x=y",
                "postgres://db/s?x=y",
                full,
            ),
            (
                "host=db sslmode=verify-ca password='a  b'",
                "host=db password='a  b'",
                LibpqOptions { verify: Verify::Authority, ..Default::default() },
            ),
            ("host=db sslmode=allow", "host=db", LibpqOptions::default()),
            ("host=db sslmode=require", "host=db sslmode=require", LibpqOptions::default()),
        ] {
            assert_eq!(split_url(url), (rest.to_owned(), options), "{url}");
        }
    }
}
