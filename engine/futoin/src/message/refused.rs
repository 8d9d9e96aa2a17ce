//! Messages that are refused as they are read.

use std::borrow::Cow;

use super::coding::Coding;
use super::malformed::Malformed;
use super::response::Response;
use super::rid::Rid;
use crate::iface::{INVALID_REQUEST, NameError};
use crate::refusal::Refusal;

/// The text for bytes that are not a request.
pub(super) const NO_FUNCTION: &str = "Missing req.f";

/// The text for parameters that are no object.
pub(super) const NO_PARAMS: &str = "Invalid message: p";

pub(super) const TOO_DEEP: &str = "Invalid message: nested too deep";

/// A message refused with InvalidRequest (FTN3 §1.9.1) before it was a request, with what its answer
/// needs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{refusal}")]
pub struct RefusedMessage {
    refusal: Refusal,
    rid: Option<Rid>,
    coding: Coding,
    defect: Option<Box<str>>,
}

impl RefusedMessage {
    pub(super) fn new(refusal: Refusal, rid: Option<Rid>, coding: Coding) -> Self {
        Self { refusal, rid, coding, defect: None }
    }

    /// A refusal of bytes that are not a message. Nothing in them is relied on, not even an id.
    pub(super) fn malformed(coding: Coding, malformed: Malformed) -> Self {
        let (text, defect) = match malformed {
            Malformed::Syntax => (NO_FUNCTION, Some(format!("not {coding:?}"))),
            Malformed::Json(defect) => (NO_FUNCTION, Some(defect)),
            Malformed::Depth => (TOO_DEEP, None),
        };
        let defect = defect.map(String::into_boxed_str);
        Self { defect, ..Self::new(invalid(text), None, coding) }
    }

    /// The code, always InvalidRequest, and the text of the answer.
    #[must_use]
    pub fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// The defect of bytes that are not a message, for logs: clients see only the text of the refusal,
    /// which does not name it. It has nothing of the message.
    #[must_use]
    pub fn defect(&self) -> Option<&str> {
        self.defect.as_deref()
    }

    /// The request's id, if it could be read.
    #[must_use]
    pub fn rid(&self) -> Option<&Rid> {
        self.rid.as_ref()
    }

    /// The coding of the answer.
    #[must_use]
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The answer to send.
    #[must_use]
    pub fn into_response(self) -> Response {
        let text = self.refusal.to_string();
        Response::error(self.refusal.code(), Some(&text)).with_rid(self.rid.as_ref())
    }
}

impl From<Refusal> for RefusedMessage {
    /// A refusal of a call that came in another form than a message: without id, in JSON.
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal, None, Coding::Json)
    }
}

/// InvalidRequest with `text`.
pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(INVALID_REQUEST, text)
}

/// The refusal of a text that is not the name of a function.
pub(crate) fn invalid_name(error: NameError) -> Refusal {
    let is_version = error == NameError::Version;
    invalid(if is_version { "Invalid req.f (version)" } else { "Invalid req.f" })
}
