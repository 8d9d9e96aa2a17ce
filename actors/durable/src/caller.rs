//! The caller of a flow, as it is stored.

use asyncsteps_executor::Caller;
use asyncsteps_executor::security::{SecurityLevel, User};
use serde::{Deserialize, Serialize};

/// The fields of `obf` (FTN3 §1.6): who the flow acts for.
#[derive(Serialize, Deserialize)]
struct StoredUser {
    lid: String,
    gid: String,
    slvl: String,
}

/// What is stored of a caller; `None` for an anonymous one.
pub(crate) fn write(caller: &Caller) -> Option<String> {
    let user = caller.user()?;
    let stored = StoredUser {
        lid: user.local_id().to_owned(),
        gid: user.global_id().to_owned(),
        slvl: user.level().name().to_owned(),
    };
    serde_json::to_string(&stored).ok()
}

/// The caller that was stored.
pub(crate) fn read(stored: Option<&str>) -> Result<Caller, String> {
    let Some(stored) = stored else { return Ok(Caller::anonymous()) };
    let unreadable = |error| format!("the user cannot be read: {error}");
    let user: StoredUser = serde_json::from_str(stored).map_err(unreadable)?;
    let level: SecurityLevel =
        user.slvl.parse().map_err(|_| format!("there is no security level {}", user.slvl))?;
    Ok((&User::new(user.lid, level).with_global_id(user.gid)).into())
}

/// Whether two stored callers are one user, at whatever level. Callers without a user are one.
pub(crate) fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let user = |stored: &str| {
        let user: StoredUser = serde_json::from_str(stored).ok()?;
        Some((user.lid, user.gid))
    };
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => user(one).is_some() && user(one) == user(other),
        (None, Some(_)) | (Some(_), None) => false,
    }
}
