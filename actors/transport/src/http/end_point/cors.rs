//! Cross-origin requests (the Fetch standard, "CORS protocol").

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue, ORIGIN, VARY,
};

use super::super::answer::Answer;
use super::super::head::RequestHead;

/// How long a browser may keep the answer to a preflight, in seconds: ten minutes.
const MAX_AGE: u32 = 600;

/// Sites whose pages may call an executor, over HTTP and over WebSocket.
///
/// Browsers send no cookies with such calls over HTTP; FutoIn has its credentials in messages.
#[derive(Debug, Clone)]
pub struct Cors(Option<Vec<String>>);

impl Cors {
    /// All sites, and pages that hide theirs (`Origin: null`).
    #[must_use]
    pub fn any() -> Self {
        Self(None)
    }

    /// These origins, such as `https://example.com`. `null` cannot be one of them,
    /// because any page can hide its site.
    #[must_use]
    pub fn origins(origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Some(origins.into_iter().map(Into::into).collect()))
    }

    pub(super) fn allows(&self, origin: &str) -> bool {
        let Some(origins) = &self.0 else { return true };
        origin != "null" && origins.iter().any(|allowed| allowed == origin)
    }

    /// Adds the headers that allow a page to see the answer or, in a preflight, to call.
    pub(super) fn mark(&self, head: &RequestHead, answer: &mut Answer) {
        let headers = answer.headers_mut();
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let origin = head.get(&ORIGIN).filter(|origin| self.allows(origin));
        let Some(Ok(origin)) = origin.map(HeaderValue::from_str) else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if head.method() == "OPTIONS" {
            headers
                .insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST"));
            let wanted = head.get(&ACCESS_CONTROL_REQUEST_HEADERS);
            if let Some(Ok(wanted)) = wanted.map(HeaderValue::from_str) {
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted);
            }
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE.into());
        }
    }
}
