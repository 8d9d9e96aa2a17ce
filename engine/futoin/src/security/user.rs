//! Authenticated users.

use serde_json::{Map, Value};

use super::level::SecurityLevel;

/// An authenticated user (FTN8 §2.5), and what else its provider knows of it.
///
/// ```
/// use asyncsteps_futoin::security::{SecurityLevel, User};
///
/// let ann = User::new("ann", SecurityLevel::SafeOps)
///     .with_global_id("ann@example.com")
///     .with_detail("tenant", "acme");
/// assert_eq!(ann.details()["tenant"], "acme");
/// ```
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
// details may be personal data, which a log must not have
pub struct User {
    local_id: String,
    global_id: String,
    level: SecurityLevel,
    level_is_final: bool,
    #[debug(skip)]
    details: Map<String, Value>,
}

impl User {
    /// A user whose global id is its local one.
    #[must_use]
    pub fn new(local_id: impl Into<String>, level: SecurityLevel) -> Self {
        let local_id = local_id.into();
        Self {
            global_id: local_id.clone(),
            local_id,
            level,
            level_is_final: false,
            details: Map::new(),
        }
    }

    /// The same with a global id, usually an address of electronic mail.
    #[must_use]
    pub fn with_global_id(self, global_id: impl Into<String>) -> Self {
        Self { global_id: global_id.into(), ..self }
    }

    /// The same with a level that signing in again does not raise, because it follows from what the user
    /// may do, such as its roles. A function of a higher level answers Unauthorized to such a user; others
    /// get PleaseReauth (FTN3 §1.12).
    #[must_use]
    pub fn with_final_level(self) -> Self {
        Self { level_is_final: true, ..self }
    }

    /// The same with a detail, such as a name, a tenant, roles, or the client's token: data that the
    /// provider has read anyway and functions need. It replaces a detail of the same name.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
    }

    /// The id that this service uses.
    #[must_use]
    pub fn local_id(&self) -> &str {
        &self.local_id
    }

    /// The id that all services use.
    #[must_use]
    pub fn global_id(&self) -> &str {
        &self.global_id
    }

    /// The details that the provider provided with the user (FTN6 §2.3 `details`); none for a user
    /// that a message names with `obf`. A function that needs costly details should look them up
    /// itself.
    #[must_use]
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    /// How well the user is known by this request.
    #[must_use]
    pub fn level(&self) -> SecurityLevel {
        self.level
    }

    /// Whether the level is [final](Self::with_final_level).
    #[must_use]
    pub fn has_final_level(&self) -> bool {
        self.level_is_final
    }
}
