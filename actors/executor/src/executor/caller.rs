//! The caller of a function (FTN3 §1.11, FTN6 §1.4).

use std::sync::{Arc, LazyLock};

use asyncsteps_core::codes;
use serde_json::Value;

use super::refused::Refused;
use crate::security::{Grant, SecurityLevel, Signer, User};

/// The caller of a function: a user with a level, or an anonymous one (FTN3 §1.11).
///
/// [`RequestInfo::caller`](super::RequestInfo::caller) returns the caller of a request. It can be
/// sent to other threads, so that what a request starts there can act for the same user.
#[derive(Clone, Default, derive_more::Debug)]
pub struct Caller {
    user: Option<Arc<User>>,
    /// The message had a signature, or never left the process.
    #[debug(skip)]
    signed: bool,
    #[debug(skip)]
    signer: Option<Arc<dyn Signer>>,
}

/// The fields of `obf` (FTN3 §1.6).
const OBF: [&str; 3] = ["lid", "gid", "slvl"];

/// The user that represents this process itself (FTN6 §1.4).
static INTERNAL: LazyLock<Arc<User>> =
    LazyLock::new(|| Arc::new(User::new("-internal", SecurityLevel::System)));

impl Caller {
    /// A caller without a user.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default().within()
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.user.is_none()
    }

    /// Whether the message that it sent was signed, or never left the process (FTN3 §2.4
    /// `MessageSignature`).
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.signed
    }

    /// The same, of a message that was not signed.
    #[must_use]
    pub fn without_signature(self) -> Self {
        Self { signed: false, ..self }
    }

    pub(crate) fn level(&self) -> SecurityLevel {
        self.user().map_or(SecurityLevel::Anonymous, User::level)
    }

    pub(super) fn signer(&self) -> Option<&Arc<dyn Signer>> {
        self.signer.as_ref()
    }

    /// The user; `None` for an anonymous caller.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.user.as_deref()
    }

    /// The caller that a security provider admits.
    pub(super) fn granted(grant: &Grant) -> Self {
        let user = Some(Arc::new(grant.user().clone()));
        Self { user, signed: false, signer: grant.signer().cloned() }
    }

    /// The same caller, of a message with or without a signature.
    pub(super) fn with_signature(self, signed: bool) -> Self {
        Self { signed, ..self }
    }

    /// The same for what its request contains: only the answer to the request itself is signed.
    pub(super) fn without_signer(&self) -> Self {
        Self { signer: None, ..self.clone() }
    }

    /// The same for calls that the request makes: they stay in the process, where
    /// no message can be changed, and their answers are not signed.
    pub(super) fn within(&self) -> Self {
        Self { user: self.user.clone(), signed: true, signer: None }
    }

    /// This process itself.
    #[must_use]
    pub fn system() -> Self {
        Self { user: Some(Arc::clone(&INTERNAL)), signed: true, signer: None }
    }

    /// Acts for another user, as `obf` says (FTN3 §1.11): only callers of
    /// the level System may.
    pub(super) fn on_behalf(mut self, obf: &Value) -> Result<Self, Refused> {
        if self.level() < SecurityLevel::System {
            return Err(Refused::new(codes::SECURITY_ERROR, "On-behalf-of is not allowed"));
        }
        let invalid = || Refused::new(codes::INVALID_REQUEST, "Invalid message: obf");
        let fields = obf.as_object().ok_or_else(invalid)?;
        if fields.iter().any(|(name, value)| !OBF.contains(&&**name) || !value.is_string()) {
            return Err(invalid());
        }
        let field = |name: &str| fields.get(name).and_then(Value::as_str);
        let level = field("slvl").map(str::parse).transpose();
        let (Some(local), Ok(level)) = (field("lid"), level) else {
            return Err(invalid());
        };
        let user = User::new(local, level.unwrap_or_default());
        self.user = Some(Arc::new(match field("gid") {
            Some(global) => user.with_global_id(global),
            None => user,
        }));
        Ok(self)
    }
}

impl From<User> for Caller {
    fn from(user: User) -> Self {
        Self { user: Some(Arc::new(user)), signed: true, signer: None }
    }
}

impl From<&User> for Caller {
    fn from(user: &User) -> Self {
        user.clone().into()
    }
}
