//! The file with passwords, as libpq has it: `host:port:database:user:password` in each line.

use std::iter;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The first four fields of a line.
#[derive(Debug)]
pub(crate) struct PassfileKey([String; 4]);

impl PassfileKey {
    /// Those of a configuration with one host.
    pub(crate) fn of(config: &Config) -> Self {
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let user = config.get_user().unwrap_or_default();
        let database = config.get_dbname().unwrap_or(user);
        Self([host, port.to_string(), database.to_owned(), user.to_owned()])
    }

    /// The password of the first line that fits: `*` fits each value, and `\` takes the next character as it is.
    pub(crate) fn password_in(&self, file: &str) -> Option<String> {
        file.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let mut rest = line.chars();
            let is_ours = |value: &String| match field(&mut rest, true) {
                (text, false) if text == "*" => true,
                (text, _) => text == *value,
            };
            self.0.iter().all(is_ours).then(|| field(&mut rest, false).0)
        })
    }
}

/// The characters up to a colon, unless those count too; and whether some were taken as they are.
fn field(rest: &mut impl Iterator<Item = char>, ends_at_colon: bool) -> (String, bool) {
    let mut is_escaped = false;
    let next = || match rest.next()? {
        ':' if ends_at_colon => None,
        '\\' => {
            is_escaped = true;
            rest.next()
        }
        other => Some(other),
    };
    (iter::from_fn(next).collect(), is_escaped)
}

/// Takes `passfile`, which a [`Config`] does not know, out of a URL or of settings like `host=db user=ann`.
#[must_use]
pub fn split_url(url: &str) -> (String, Option<PathBuf>) {
    let is_url = url.contains("://");
    let ends = |letter: char| if is_url { letter == '&' } else { letter.is_whitespace() };
    let begins = |before: &str| before.is_empty() || before.ends_with(|it| ends(it) || it == '?');
    let mut found = url.match_indices("passfile=");
    let Some((at, name)) = found.find(|(at, _)| begins(&url[..*at])) else {
        return (url.to_owned(), None);
    };
    let (before, value) = (&url[..at], &url[at + name.len()..]);
    let (value, after) = value.split_at(value.find(ends).unwrap_or(value.len()));
    let rest = match after.get(1..) {
        Some(after) => format!("{before}{after}"),
        None => before.trim_end_matches(|it| ends(it) || it == '?').to_owned(),
    };
    (rest, Some(if is_url { unescaped(value) } else { value.trim_matches('\'').into() }))
}

/// A value of a URL, in which `%2F` is a slash.
fn unescaped(value: &str) -> PathBuf {
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
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let file = "# db:5432:shop:ann:no\nother:*:*:*:other\ndb:5433:*:*:port\n\
                    db:*:sh\\:op:ann:of\\:ann:\\\\\n\\*:*:*:*:star\n*:*:*:bob:of bob\n";
        let password = |url: &str| {
            let config: Config = url.parse().expect("a URL");
            PassfileKey::of(&config).password_in(file)
        };
        for (url, expected) in [
            ("postgres://ann@db/shop", None),
            ("postgres://ann@db:5433/shop", Some("port")),
            ("postgres://ann@db/sh%3Aop", Some("of:ann:\\")),
            ("postgres://bob@else/shop", Some("of bob")),
            ("postgres://eve@else/shop", None),
        ] {
            assert_eq!(password(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_url_may_name_the_file() {
        for (url, rest, file) in [
            ("postgres://a@db/shop", "postgres://a@db/shop", None),
            ("postgres://a@db/s?passfile=%2Frun%2Fpass", "postgres://a@db/s", Some("/run/pass")),
            ("postgres://db/s?a=1&passfile=/p&b=2", "postgres://db/s?a=1&b=2", Some("/p")),
            ("host=db passfile=/p user=a", "host=db user=a", Some("/p")),
            ("host=db passfile=/p", "host=db", Some("/p")),
        ] {
            assert_eq!(split_url(url), (rest.to_owned(), file.map(PathBuf::from)), "{url}");
        }
    }
}
