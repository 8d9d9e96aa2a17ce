//! The file with passwords, as libpq has it: `host:port:database:user:password` in each line.

use std::iter;

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
}
