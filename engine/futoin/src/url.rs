//! Functions called by their URL (FTN5 §2): `{iface}/{version}/{function}[/{sec}]?name=value&...`.
//!
//! ```
//! use asyncsteps_futoin::iface::{Loader, Source};
//! use asyncsteps_futoin::url::FunctionUrl;
//!
//! let ping = Loader::new([Source::builtin()]).load(&"futoin.anonping:1.0".parse()?)?;
//! let url = FunctionUrl::parse("/futoin.anonping/1.0/ping/", "echo=5").expect("it is one")?;
//! let function = ping.function(url.function().func());
//! let request = url.into_request(function);
//! assert_eq!(request.signed_fields().base(), b"f:futoin.anonping:1.0:ping;p:echo:5;;");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use crate::iface::{Function, FunctionName, clipped, is_iface};
use crate::message::{Request, invalid, invalid_name, is_too_deep};
use crate::refusal::Refusal;

/// A call in a URL. Its parameters are text until the types of the function are known.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
// without the credentials
pub struct FunctionUrl {
    function: FunctionName,
    #[debug(skip)]
    sec: Option<String>,
    params: BTreeMap<String, String>,
}

impl FunctionUrl {
    /// Reads a path below the end point and a query, both percent-encoded as the client sent them.
    ///
    /// A path of three or four parts is a call, with or without a slash at its end. A shorter path that
    /// begins with the name of an interface is a call, too, and refused. Every other path belongs to
    /// the application: `None`.
    ///
    /// # Errors
    /// InvalidRequest: "Invalid req.f", also for a missing part; "Invalid req.f (version)";
    /// "Invalid URL: ..." unless it is percent-encoded UTF-8; "Duplicate parameter: ..." (FTN5 §3.4).
    #[must_use]
    pub fn parse(path: &str, query: &str) -> Option<Result<Self, Refusal>> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut parts = path.split('/');
        let (iface, version, func) = match (parts.next()?, parts.next(), parts.next()) {
            (iface, Some(version), Some(func)) => (iface, version, func),
            (iface, ..) => return is_iface(iface).then(|| Err(invalid("Invalid req.f"))),
        };
        let sec = parts.next();
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        let all = [iface, version, func].into_iter().chain(sec);
        if parts.next().is_some() || !all.clone().all(is_part) {
            return None;
        }
        Some(Self::read(&format!("{iface}:{version}:{func}"), sec, query))
    }

    fn read(function: &str, sec: Option<&str>, query: &str) -> Result<Self, Refusal> {
        let function = function.parse().map_err(invalid_name)?;
        let sec = sec.map(decoded).transpose()?;
        let mut params = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match params.entry(decoded(&name.replace('+', " "))?) {
                Entry::Vacant(vacant) => {
                    vacant.insert(decoded(&value.replace('+', " "))?);
                }
                Entry::Occupied(known) => {
                    let name = clipped(known.key());
                    return Err(invalid(format!("Duplicate parameter: {name}")));
                }
            }
        }
        Ok(Self { function, sec, params })
    }

    /// The function called.
    #[must_use]
    pub fn function(&self) -> &FunctionName {
        &self.function
    }

    /// The credentials in the path, if there are any (FTN8).
    #[must_use]
    pub fn sec(&self) -> Option<&str> {
        self.sec.as_deref()
    }

    /// The call as a request for `function`, if it is known.
    ///
    /// A value stays text where the type of its parameter accepts text, otherwise it is read as JSON. It
    /// stays text without a function, for an unknown parameter, and for JSON that is nested too deep:
    /// the executor refuses such a call later, after it has checked the caller.
    #[must_use]
    pub fn into_request(self, function: Option<&Function>) -> Request {
        let mut params = Map::new();
        for (name, text) in self.params {
            let param = function.and_then(|function| function.param(&name));
            let value = match param {
                Some(param) if !is_too_deep(text.as_bytes()) => param.read_text(text),
                Some(_) | None => Value::String(text),
            };
            params.insert(name, value);
        }
        let request = Request::new(self.function.as_str(), params);
        match self.sec {
            Some(sec) => request.with_sec(Value::String(sec)),
            None => request,
        }
    }
}

/// Strict percent-decoding (RFC 3986 §2.1): a text that two servers could read differently is
/// refused.
fn decoded(text: &str) -> Result<String, Refusal> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let code = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        out.push(code.ok_or_else(|| invalid("Invalid URL: percent-encoding"))?);
    }
    String::from_utf8(out).map_err(|_| invalid("Invalid URL: not UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::sync::Arc;

    use expect_test::expect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::iface::{Definition, Loader, Source};

    fn definition() -> Arc<Definition> {
        let params = json!({"s": "string", "i": "integer", "b": "boolean", "l": "array",
            "m": "map", "x": "any", "d": "data", "v": ["integer", "string"]});
        let file = json!({"iface": "a.b", "version": "1.0", "ftn3rev": "1.9",
            "funcs": {"f": {"params": params}}});
        let files = [("a.b-1.0-iface.json", file.to_string())];
        Loader::new([Source::texts(files)]).load(&"a.b:1.0".parse().unwrap()).unwrap()
    }

    /// The outcome of each path and query.
    fn outcomes(urls: &[(&str, &str)]) -> String {
        let definition = definition();
        let mut out = String::new();
        for (path, query) in urls {
            write!(out, "{path:?} {query:?}\n    ").unwrap();
            let Some(url) = FunctionUrl::parse(path, query) else {
                writeln!(out, "not ours").unwrap();
                continue;
            };
            let request = url.map(|url| {
                let function = definition.function(url.function().func());
                url.into_request(function)
            });
            match request {
                Ok(request) => {
                    let fields = request.signed_fields().base();
                    let fields = String::from_utf8_lossy(&fields).into_owned();
                    writeln!(out, "{fields} {:?}", request.sec()).unwrap();
                }
                Err(refusal) => writeln!(out, "{}: {refusal}", refusal.code()).unwrap(),
            }
        }
        out
    }

    #[test]
    fn paths() {
        expect![[r#"
            "/a.b/1.0/f" ""
                f:a.b:1.0:f;p:; None
            "/a.b/1.0/f/" ""
                f:a.b:1.0:f;p:; None
            "a.b/1.0/f" "?"
                f:a.b:1.0:f;p:?:;; None
            "/a.b/1.0/f/user%3Apass" ""
                f:a.b:1.0:f;p:; Some(String("user:pass"))
            "/a.b/1.0/f/-hmac%3Au%3AMD5%3Aa%2Fb%2B%3D%3D/" ""
                f:a.b:1.0:f;p:; Some(String("-hmac:u:MD5:a/b+=="))
            "/a.b/1.0/f/a+b" ""
                f:a.b:1.0:f;p:; Some(String("a+b"))
            "/a.b/1.0/f/sec/more" ""
                not ours
            "/a.b/1.0" ""
                InvalidRequest: Invalid req.f
            "/a.b" ""
                InvalidRequest: Invalid req.f
            "/a.b/" ""
                InvalidRequest: Invalid req.f
            "/health" ""
                not ours
            "/favicon.ico/" ""
                InvalidRequest: Invalid req.f
            "/" ""
                not ours
            "" ""
                not ours
            "/a.b//f" ""
                not ours
            "/a.b/1.0/f//" ""
                not ours
            "//a.b/1.0/f" ""
                not ours
            "/../1.0/f" ""
                not ours
            "/a.b/1.0/f/.." ""
                not ours
            "/%2e%2e/1.0/f" ""
                InvalidRequest: Invalid req.f
            "/a.b%2F1.0/f/g" ""
                InvalidRequest: Invalid req.f (version)
            "/a.b:1.0:f/1.0/f" ""
                InvalidRequest: Invalid req.f
            "/a.b/1/f" ""
                InvalidRequest: Invalid req.f (version)
            "/a.b/1.0/f/%" ""
                InvalidRequest: Invalid URL: percent-encoding
            "/a.b/1.0/f/%4" ""
                InvalidRequest: Invalid URL: percent-encoding
            "/a.b/1.0/f/%zz" ""
                InvalidRequest: Invalid URL: percent-encoding
            "/a.b/1.0/f/%+1" ""
                InvalidRequest: Invalid URL: percent-encoding
            "/a.b/1.0/f/%ff" ""
                InvalidRequest: Invalid URL: not UTF-8
        "#]]
        .assert_eq(&outcomes(&[
            ("/a.b/1.0/f", ""),
            ("/a.b/1.0/f/", ""),
            ("a.b/1.0/f", "?"),
            ("/a.b/1.0/f/user%3Apass", ""),
            ("/a.b/1.0/f/-hmac%3Au%3AMD5%3Aa%2Fb%2B%3D%3D/", ""),
            ("/a.b/1.0/f/a+b", ""),
            ("/a.b/1.0/f/sec/more", ""),
            ("/a.b/1.0", ""),
            ("/a.b", ""),
            ("/a.b/", ""),
            ("/health", ""),
            ("/favicon.ico/", ""),
            ("/", ""),
            ("", ""),
            ("/a.b//f", ""),
            ("/a.b/1.0/f//", ""),
            ("//a.b/1.0/f", ""),
            ("/../1.0/f", ""),
            ("/a.b/1.0/f/..", ""),
            ("/%2e%2e/1.0/f", ""),
            ("/a.b%2F1.0/f/g", ""),
            ("/a.b:1.0:f/1.0/f", ""),
            ("/a.b/1/f", ""),
            ("/a.b/1.0/f/%", ""),
            ("/a.b/1.0/f/%4", ""),
            ("/a.b/1.0/f/%zz", ""),
            ("/a.b/1.0/f/%+1", ""),
            ("/a.b/1.0/f/%ff", ""),
        ]));
    }

    #[test]
    fn queries() {
        let deep = format!("l={}", "[".repeat(65) + &"]".repeat(65));
        let text = format!("s={}", "[".repeat(65));
        let path = "/a.b/1.0/f";
        expect![[r#"
            "/a.b/1.0/f" "s=a+b%2Bc&i=12&b=true"
                f:a.b:1.0:f;p:b:true;i:12;s:a b+c;; None
            "/a.b/1.0/f" "s=12&x=12&v=12&d=AAA%3D"
                f:a.b:1.0:f;p:d:AAA=;s:12;v:12;x:12;; None
            "/a.b/1.0/f" "l=[1,%222%22]&m=%7B%22k%22%3A1%7D"
                f:a.b:1.0:f;p:l:0:1;1:2;;m:k:1;;; None
            "/a.b/1.0/f" "s=&i=&b"
                f:a.b:1.0:f;p:b:;i:;s:;; None
            "/a.b/1.0/f" "&&s=x&"
                f:a.b:1.0:f;p:s:x;; None
            "/a.b/1.0/f" "s=a=b"
                f:a.b:1.0:f;p:s:a=b;; None
            "/a.b/1.0/f" "i=twelve"
                f:a.b:1.0:f;p:i:twelve;; None
            "/a.b/1.0/f" "zzz=12"
                f:a.b:1.0:f;p:zzz:12;; None
            "/a.b/1.0/f" "%73=x"
                f:a.b:1.0:f;p:s:x;; None
            "/a.b/1.0/f" "s=%c3%a9+%F0%9F%98%80"
                f:a.b:1.0:f;p:s:é 😀;; None
            "/a.b/1.0/f" "s=1&s=2"
                InvalidRequest: Duplicate parameter: s
            "/a.b/1.0/f" "s=1&%73=2"
                InvalidRequest: Duplicate parameter: s
            "/a.b/1.0/f" "s=%"
                InvalidRequest: Invalid URL: percent-encoding
            "/a.b/1.0/f" "%ff=1"
                InvalidRequest: Invalid URL: not UTF-8
            "/a.b/1.0/f" "l=[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
                f:a.b:1.0:f;p:l:[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]];; None
            "/a.b/1.0/f" "s=[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                f:a.b:1.0:f;p:s:[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[;; None
            "/a.b/1.0/other" "i=12"
                f:a.b:1.0:other;p:i:12;; None
        "#]]
        .assert_eq(&outcomes(&[
            (path, "s=a+b%2Bc&i=12&b=true"),
            (path, "s=12&x=12&v=12&d=AAA%3D"),
            (path, "l=[1,%222%22]&m=%7B%22k%22%3A1%7D"),
            (path, "s=&i=&b"),
            (path, "&&s=x&"),
            (path, "s=a=b"),
            (path, "i=twelve"),
            (path, "zzz=12"),
            (path, "%73=x"),
            (path, "s=%c3%a9+%F0%9F%98%80"),
            (path, "s=1&s=2"),
            (path, "s=1&%73=2"),
            (path, "s=%"),
            (path, "%ff=1"),
            (path, &deep),
            (path, &text),
            ("/a.b/1.0/other", "i=12"),
        ]));
    }

    #[test]
    fn credentials_are_not_shown() {
        let url = FunctionUrl::parse("/a.b/1.0/f/user:hunter2", "").unwrap().unwrap();
        assert_eq!(url.sec(), Some("user:hunter2"));
        assert!(!format!("{url:?}").contains("hunter2"));
    }

    /// `encodeURIComponent` of ECMAScript.
    fn encoded(text: &str) -> String {
        text.bytes().fold(String::new(), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
                out.push(char::from(byte));
            } else {
                write!(out, "%{byte:02X}").unwrap();
            }
            out
        })
    }

    proptest! {
        #[test]
        fn any_text_comes_through(text in any::<String>()) {
            let path = format!("/a.b/1.0/f/x{}", encoded(&text));
            let url = FunctionUrl::parse(&path, &format!("s={}", encoded(&text))).unwrap().unwrap();
            prop_assert_eq!(url.sec(), Some(&*format!("x{text}")));
            prop_assert_eq!(url.params.get("s"), Some(&text));
        }

        #[test]
        fn no_url_panics(path in "[/a.b1:%0-9f]{0,30}", query in any::<String>()) {
            if let Some(Ok(url)) = FunctionUrl::parse(&path, &query) {
                drop(url.into_request(definition().function("f")));
            }
        }
    }
}
