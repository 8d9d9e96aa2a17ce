//! Which nodes may act for users.

use std::sync::LazyLock;

use async_nats::HeaderMap;
use asyncsteps_executor::Caller;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{MacAlgorithm, MacKey, Secret, SecurityLevel, User};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::headers::{MAC, NODE, UID, UNSIGNED, text};
use crate::node::NodeId;

/// Which nodes may make calls on behalf of users (FTN3 §1.11, field `obf`).
///
/// A call acts for the user of the request that it is a part of, and that user was checked by the node that
/// took the request. So a node that is believed can act as any user, up to a
/// [level](Self::up_to). A call on behalf of a user from a node that is not believed is refused with
/// SecurityError.
#[derive(Clone, Debug)]
#[must_use = "a configuration has it"]
pub struct Trust {
    proof: Proof,
    highest: SecurityLevel,
}

#[derive(Clone, Debug)]
enum Proof {
    /// Nodes are not believed.
    None,
    /// Being there is enough.
    Account,
    /// A MAC of the call.
    Mac(MacKey),
}

/// A node that may act for others.
static NODE_CALLER: LazyLock<Caller> =
    LazyLock::new(|| Caller::from(&User::new("-internal", SecurityLevel::System)));

impl Trust {
    /// In no node: all calls are anonymous, or have credentials of their own. The default.
    pub const fn none() -> Self {
        Self::by(Proof::None)
    }

    /// In everything that can publish calls in the account of the NATS server. Its permissions say what
    /// that is.
    pub const fn account() -> Self {
        Self::by(Proof::Account)
    }

    /// In nodes that know a secret, with which each call on behalf of a user is signed (HMAC-SHA256).
    /// What can read the messages of the account could send one again: keep them private with permissions
    /// and TLS.
    pub fn secret(secret: &Secret) -> Self {
        Self::by(Proof::Mac(MacKey::new(secret.expose().as_bytes())))
    }

    /// The highest level that they may act with; ExceptionalOps unless set, the highest of users. With
    /// System they may act as the service itself
    /// ([`call_as_system`](asyncsteps_executor::Executor::call_as_system)).
    pub fn up_to(self, highest: SecurityLevel) -> Self {
        Self { proof: self.proof, highest }
    }

    const fn by(proof: Proof) -> Self {
        Self { proof, highest: SecurityLevel::ExceptionalOps }
    }

    /// Proves that a call on behalf of a user comes from this node.
    pub(super) fn sign(&self, headers: &mut HeaderMap, node: &NodeId, payload: &[u8]) {
        if let Proof::Mac(key) = &self.proof {
            headers.insert(NODE, node.as_str());
            let mac = key.sign(MacAlgorithm::Sha256, &base(headers, payload));
            headers.insert(MAC, mac);
        }
    }

    /// The caller of a request on behalf of a user, if its node is believed that much.
    pub(super) fn caller(
        &self,
        request: &Request,
        headers: &HeaderMap,
        payload: &[u8],
    ) -> Option<Caller> {
        let level = request.obf()?.get("slvl").and_then(Value::as_str).unwrap_or_default();
        let is_allowed = level.is_empty() || level.parse().is_ok_and(|level| self.highest >= level);
        let is_signed = text(headers, UNSIGNED).is_empty();
        (is_allowed && self.believes(headers, payload)).then(|| match is_signed {
            true => NODE_CALLER.clone(),
            false => NODE_CALLER.clone().without_signature(),
        })
    }

    fn believes(&self, headers: &HeaderMap, payload: &[u8]) -> bool {
        match &self.proof {
            Proof::None => false,
            Proof::Account => true,
            Proof::Mac(key) => STANDARD
                .decode(text(headers, MAC))
                .is_ok_and(|mac| key.verify(MacAlgorithm::Sha256, &base(headers, payload), &mac)),
        }
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self::none()
    }
}

/// What is signed: the node, what is asked for, whether its user signed it, and the message. No header has a
/// line break.
fn base(headers: &HeaderMap, payload: &[u8]) -> Vec<u8> {
    let head = [NODE, UID, UNSIGNED].map(|name| text(headers, name));
    let size = head.iter().map(|part| part.len() + 1).sum::<usize>() + payload.len();
    let mut base = Vec::with_capacity(size);
    for part in head {
        base.extend_from_slice(part.as_bytes());
        base.push(b'\n');
    }
    base.extend_from_slice(payload);
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_behalf::on_behalf_of;

    fn call(level: SecurityLevel) -> (Request, Vec<u8>) {
        let caller = Caller::from(&User::new("ann", level));
        let obf = on_behalf_of(&caller).expect("she is known");
        let request = Request::new("a.b:1.0:f", serde_json::Map::new()).with_obf(obf);
        let mut payload = Vec::new();
        request.write(request.coding(), None, &mut payload);
        (request, payload)
    }

    fn is_believed(
        by: &Trust,
        level: SecurityLevel,
        signer: &Trust,
        change: fn(&mut Vec<u8>),
    ) -> bool {
        let (request, mut payload) = call(level);
        let mut headers = HeaderMap::new();
        headers.insert(UID, "u1");
        signer.sign(&mut headers, &"n1".parse().expect("a name"), &payload);
        change(&mut payload);
        by.caller(&request, &headers, &payload).is_some()
    }

    #[test]
    fn a_node_is_believed_that_proves_itself() {
        let secret = Trust::secret(&Secret::new("s1"));
        let other = Trust::secret(&Secret::new("s2"));
        let level = SecurityLevel::SafeOps;
        assert!(is_believed(&secret, level, &secret, |_| ()));
        assert!(!is_believed(&secret, level, &secret, |payload| payload[9] ^= 1));
        assert!(!is_believed(&secret, level, &other, |_| ()));
        assert!(!is_believed(&secret, level, &Trust::none(), |_| ()));
        assert!(!is_believed(&Trust::none(), level, &secret, |_| ()));
        assert!(is_believed(&Trust::account(), level, &Trust::none(), |_| ()));
    }

    #[test]
    fn a_node_is_believed_up_to_a_level() {
        let account = Trust::account;
        for (highest, level, expected) in [
            (account(), SecurityLevel::ExceptionalOps, true),
            (account(), SecurityLevel::System, false),
            (account().up_to(SecurityLevel::System), SecurityLevel::System, true),
            (account().up_to(SecurityLevel::Info), SecurityLevel::SafeOps, false),
        ] {
            assert_eq!(is_believed(&highest, level, &account(), |_| ()), expected, "{level:?}");
        }
    }
}
