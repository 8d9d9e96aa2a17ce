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
    own.filter(|own| own.is_client_error() || own.is_server_error()).unwrap_or_else(|| match code {
        codes::INVALID_REQUEST => StatusCode::BAD_REQUEST,
        codes::SECURITY_ERROR | codes::PLEASE_REAUTH => StatusCode::UNAUTHORIZED,
        codes::UNAUTHORIZED => StatusCode::FORBIDDEN,
        codes::NOT_SUPPORTED_VERSION | "NotDurable" => StatusCode::NOT_FOUND,
        // an interface, a job, or whatever the application names like this
        _ if code.starts_with("Unknown") => StatusCode::NOT_FOUND,
        // the state of a job or schedule
        "HasEnded" | "NotStopped" | "NotUndone" | "NoUndo" | "DeclaredByProgram" => {
            StatusCode::CONFLICT
        }
        codes::DEFENSE_REJECTED | "TooManySignals" => StatusCode::TOO_MANY_REQUESTS,
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
pub(in crate::http) struct Problems<'a> {
    pub(super) own: &'a StatusOf,
    /// The schemes of credentials that the caller may try. Without one, 401 would promise what cannot
    /// be: it is 403 then.
    pub(super) schemes: &'a [&'a str],
    /// Whether the request has some: who is known, and of a too low level, is refused with 403.
    pub(super) has_credentials: bool,
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
        let is_known = self.has_credentials && error.code() == Some(codes::PLEASE_REAUTH);
        let status = match status {
            StatusCode::UNAUTHORIZED if self.schemes.is_empty() || is_known => {
                StatusCode::FORBIDDEN
            }
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
