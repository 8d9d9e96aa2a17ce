//! The user that a call acts for, as a field of its message.

use asyncsteps_executor::Caller;
use serde_json::{Value, json};

/// The field `obf` for a caller (FTN3 §1.6); `None` for an anonymous one.
pub(crate) fn on_behalf_of(caller: &Caller) -> Option<Value> {
    let user = caller.user()?;
    let mut obf = json!({ "lid": user.local_id(), "slvl": user.level().name() });
    if !user.global_id().is_empty() {
        obf["gid"] = user.global_id().into();
    }
    Some(obf)
}
