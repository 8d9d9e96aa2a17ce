//! The caller of a flow, as it is stored.

use std::net::IpAddr;

use asyncsteps_executor::Caller;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::net::Scope;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_journal::request::{CallerGroup, CallerQuota};
use serde::{Deserialize, Serialize};

/// The fields of `obf` (FTN3 §1.6): who the flow acts for.
#[derive(Serialize, Deserialize)]
struct StoredUser {
    lid: String,
    gid: String,
    slvl: String,
}

/// The stored form of a caller; `None` for an anonymous one.
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

/// How names of callers without a user begin.
const ANONYMOUS: &str = "anonymous callers ";

/// How many times as many requests callers without a user have together: ten addresses have to be taken to keep all
/// others out, and addresses beyond these bring a caller nothing.
const ADDRESSES: u64 = 10;

/// The address that a request came from, if its transport knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin(Option<IpAddr>);

impl Origin {
    pub(crate) fn of(channel: &Channel) -> Self {
        Self(channel.peer().map(|peer| peer.ip()))
    }
}

/// The quota of a request; `None` if it is one of the system.
pub(crate) fn quota(caller: &Caller, Origin(address): Origin, most: u64) -> Option<CallerQuota> {
    let Some(user) = caller.user() else {
        let from = match address {
            Some(address) => format!("at {}", Scope::default().of(address)),
            None => "of unknown address".to_owned(),
        };
        let most_of_all = most.saturating_mul(ADDRESSES);
        let group = Some(CallerGroup { prefix: ANONYMOUS.to_owned(), most: most_of_all });
        return Some(CallerQuota { caller: format!("{ANONYMOUS}{from}"), most, group });
    };
    if user.level() == SecurityLevel::System {
        return None;
    }
    // quoted, so that no user has the name of another one
    let caller = match user.global_id() {
        "" => format!("the user {:?}", user.local_id()),
        global => format!("the user {:?} of {global:?}", user.local_id()),
    };
    Some(CallerQuota { caller, most, group: None })
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
