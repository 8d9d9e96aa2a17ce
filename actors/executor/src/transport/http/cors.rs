//! Cross-origin requests (the Fetch standard, "CORS protocol").

use actix_web::http::Method;
use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue, ORIGIN, VARY,
};
use actix_web::{HttpRequest, HttpResponse};

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

    pub(super) fn allows(&self, origin: &HeaderValue) -> bool {
        let Some(origins) = &self.0 else { return true };
        origin != "null" && origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
    }

    /// Adds the headers that allow a page to see the response or, in a preflight, to call.
    pub(super) fn mark(&self, http: &HttpRequest, response: &mut HttpResponse) {
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("Origin"));
        let Some(origin) = http.headers().get(ORIGIN).filter(|origin| self.allows(origin)) else {
            return;
        };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if *http.method() == Method::OPTIONS {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
            if let Some(wanted) = http.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE.into());
        }
    }
}
