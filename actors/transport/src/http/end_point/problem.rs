//! Problem details (RFC 9457): errors of calls by URL, for clients that know HTTP and not FutoIn.

use std::sync::Arc;

use asyncsteps_core::codes;
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::{Message, RefusalReason};
use asyncsteps_futoin::message::Response;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

/// The media type of problem details.
pub(super) const MEDIA: &str = "application/problem+json";

/// The status of a call by URL that is too large: its parameters are in the head, and the server answers a head that is
/// too large with the same.
pub(super) const TOO_LARGE: StatusCode = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;

/// The statuses of an application's own, by error code.
pub(in crate::http) type StatusOf = Arc<dyn Fn(&str) -> Option<u16> + Send + Sync>;

/// The status of an error code: what the application says, if that is an error's, or the usual one.
pub(in crate::http) fn status(code: &str, own: &StatusOf) -> StatusCode {
    let own = own(code).and_then(|status| StatusCode::from_u16(status).ok());
    own.filter(|own| own.is_client_error() || own.is_server_error()).unwrap_or(match code {
        codes::INVALID_REQUEST => StatusCode::BAD_REQUEST,
        codes::SECURITY_ERROR | codes::PLEASE_REAUTH => StatusCode::UNAUTHORIZED,
        codes::UNAUTHORIZED => StatusCode::FORBIDDEN,
        codes::UNKNOWN_INTERFACE | codes::NOT_SUPPORTED_VERSION => StatusCode::NOT_FOUND,
        codes::DEFENSE_REJECTED => StatusCode::TOO_MANY_REQUESTS,
        codes::INTERNAL_ERROR | codes::INVOKER_ERROR => StatusCode::INTERNAL_SERVER_ERROR,
        codes::NOT_IMPLEMENTED => StatusCode::NOT_IMPLEMENTED,
        codes::CONNECT_ERROR => StatusCode::SERVICE_UNAVAILABLE,
        codes::COMM_ERROR => StatusCode::BAD_GATEWAY,
        codes::TIMEOUT | OUTCOME_UNKNOWN => StatusCode::GATEWAY_TIMEOUT,
        // the request was understood, and the function does not carry it out
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    })
}

/// How the errors of a call by URL are answered.
pub(super) struct Problems<'a> {
    pub(super) own: &'a StatusOf,
    /// The schemes of credentials that the caller may try. Without one, 401 would promise what cannot
    /// be: it is 403 then.
    pub(super) schemes: &'a [&'a str],
}

impl Problems<'_> {
    /// The status and the body for a message; `None` for a result.
    pub(super) fn of_message(
        &self,
        message: &Message,
        too_large: StatusCode,
    ) -> Option<(StatusCode, Vec<u8>)> {
        let code = message.response().code()?;
        let own = match (message.refusal_reason(), code) {
            (Some(RefusalReason::TooLarge), _) => too_large,
            // a function that its interface does not have
            (Some(RefusalReason::Unknown), codes::INVALID_REQUEST) => StatusCode::NOT_FOUND,
            _ => status(code, self.own),
        };
        Some(self.of(own, message.response()))
    }

    /// The same for an error with this status.
    pub(super) fn of(&self, status: StatusCode, error: &Response) -> (StatusCode, Vec<u8>) {
        let status = match status {
            StatusCode::UNAUTHORIZED if self.schemes.is_empty() => StatusCode::FORBIDDEN,
            status => status,
        };
        let mut problem = json!({
            "title": status.canonical_reason(), "status": status.as_u16(), "code": error.code(),
        });
        if let Err(error) = error.clone().into_result()
            && let Some(detail) = error.description
        {
            problem["detail"] = detail.into();
        }
        if let Some(sec) = error.sec() {
            problem["sec"] = sec.clone();
        }
        (status, problem.to_string().into_bytes())
    }

    /// Asks for credentials, as an answer with 401 must (RFC 9110 §11.6.1).
    pub(super) fn challenge(&self, headers: &mut HeaderMap) {
        for scheme in self.schemes {
            let charset =
                if scheme.eq_ignore_ascii_case("basic") { ", charset=\"UTF-8\"" } else { "" };
            let challenge = format!("{scheme} realm=\"FutoIn\"{charset}");
            headers.extend(HeaderValue::try_from(challenge).ok().map(|it| (WWW_AUTHENTICATE, it)));
        }
    }
}
