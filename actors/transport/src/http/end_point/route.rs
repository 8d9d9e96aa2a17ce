//! The paths of an end point.

use asyncsteps_futoin::Refusal;
use asyncsteps_futoin::url::FunctionUrl;

/// The meaning of a path to an end point.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the server has it, between two calls")]
pub enum Route {
    /// The path of the service itself, for messages.
    Root,
    /// Tools of language models.
    #[cfg(feature = "mcp")]
    Mcp,
    /// A function by its URL, which may be wrong.
    Function(Result<FunctionUrl, Refusal>),
}

impl Route {
    /// The meaning of a path for the service at `base`, which has no slash at its end; `None` if it
    /// belongs to another service.
    pub(in crate::http) fn of(path: &str, query: &str, base: &str) -> Option<Self> {
        match path.strip_prefix(base)? {
            "" | "/" => Some(Self::Root),
            below if below.starts_with('/') => FunctionUrl::parse(below, query).map(Self::Function),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_messages_functions_or_elsewhere() {
        let of = |path| Route::of(path, "", "/ftn");
        assert!(["/ftn", "/ftn/"].into_iter().all(|path| matches!(of(path), Some(Route::Root))));
        for path in ["/ftn/a.b/1.0/f", "/ftn/a.b/1.0/f/", "/ftn/a.b/1.0/f/sec"] {
            assert!(matches!(of(path), Some(Route::Function(Ok(_)))), "{path}");
        }
        for path in ["/ftn/a.b", "/ftn/a.b/1.0", "/ftn/a/b/c"] {
            assert!(matches!(of(path), Some(Route::Function(Err(_)))), "{path}");
        }
        for path in ["/", "/ftnx", "/ftn/health", "/ftn/a/b", "/ftn/a.b/1/f/s/more", "/FTN/"] {
            assert!(of(path).is_none(), "{path}");
        }
    }
}
