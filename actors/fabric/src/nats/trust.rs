//! Which nodes may act for users.

use std::sync::LazyLock;

use async_nats::HeaderMap;
use asyncsteps_executor::Caller;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{MacAlgorithm, MacKey, Secret, SecurityLevel, User};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::headers::{FENCE, KEY, MAC, NODE, UID, UNSIGNED, text};
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

    /// In every client that can publish calls in the account of the NATS server. The server's
    /// permissions say which these are.
    pub const fn account() -> Self {
        Self::by(Proof::Account)
    }

    /// In nodes that know a secret, with which each call on behalf of a user is signed (HMAC-SHA256). A client that can
    /// read the messages of the account could send one again: keep them private with permissions and TLS.
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
    pub(super) fn sign(
        &self,
        headers: &mut HeaderMap,
        node: &NodeId,
        subject: &str,
        payload: &[u8],
    ) {
        if let Proof::Mac(key) = &self.proof {
            headers.insert(NODE, node.as_str());
            let mac = key.sign(MacAlgorithm::Sha256, &base(headers, subject, payload));
            headers.insert(MAC, mac);
        }
    }

    /// Proves to the node that is answered at `reply`, which is used once, that this node knows the secret.
    pub(super) fn prove(&self, node: &NodeId, reply: &str) -> Option<String> {
        let Proof::Mac(key) = &self.proof else { return None };
        Some(key.sign(MacAlgorithm::Sha256, &proof_base(node.as_str(), reply)))
    }

    /// Whether this node has a secret, and another one has not proved at `reply` that it knows it.
    pub(super) fn has_other_secret(&self, node: &str, reply: &str, proof: Option<&str>) -> bool {
        let Proof::Mac(key) = &self.proof else { return false };
        let proof = proof.and_then(|proof| STANDARD.decode(proof).ok());
        !proof.is_some_and(|mac| key.verify(MacAlgorithm::Sha256, &proof_base(node, reply), &mac))
    }

    /// Whether there is a secret that other nodes have to know.
    pub(super) fn has_secret(&self) -> bool {
        matches!(self.proof, Proof::Mac(_))
    }

    /// The caller of a request on behalf of a user, if its node is believed that much.
    pub(super) fn caller(
        &self,
        request: &Request,
        headers: &HeaderMap,
        subject: &str,
        payload: &[u8],
    ) -> Option<Caller> {
        let level = request.obf()?.get("slvl").and_then(Value::as_str).unwrap_or_default();
        let is_allowed = level.is_empty() || level.parse().is_ok_and(|level| self.highest >= level);
        let is_signed = text(headers, UNSIGNED).is_empty();
        (is_allowed && self.believes(headers, subject, payload)).then(|| match is_signed {
            true => NODE_CALLER.clone(),
            false => NODE_CALLER.clone().without_signature(),
        })
    }

    fn believes(&self, headers: &HeaderMap, subject: &str, payload: &[u8]) -> bool {
        match &self.proof {
            Proof::None => false,
            Proof::Account => true,
            Proof::Mac(key) => STANDARD.decode(text(headers, MAC)).is_ok_and(|mac| {
                let base = base(headers, subject, payload);
                key.verify(MacAlgorithm::Sha256, &base, &mac)
            }),
        }
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self::none()
    }
}

/// The signed bytes: where the call goes, the node that makes it, what is asked for, the key of its caller, whether its
/// user signed it, the tokens of locks, and the message. No subject and no header has a line break.
fn base(headers: &HeaderMap, subject: &str, payload: &[u8]) -> Vec<u8> {
    let head = [NODE, UID, KEY, UNSIGNED, FENCE].map(|name| text(headers, name));
    let head = || std::iter::once(subject).chain(head);
    let size = head().map(|part| part.len() + 1).sum::<usize>() + payload.len();
    let mut base = Vec::with_capacity(size);
    for part in head() {
        base.extend_from_slice(part.as_bytes());
        base.push(b'\n');
    }
    base.extend_from_slice(payload);
    base
}

/// The bytes that a node signs to prove that it knows the secret: no call goes to a subject of one
/// word.
fn proof_base(node: &str, reply: &str) -> Vec<u8> {
    format!("proof\n{node}\n{reply}").into_bytes()
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
        let (node, subject) = ("n1".parse().expect("a name"), "ftn.v1.rpc.a-b.1.0.f");
        signer.sign(&mut headers, &node, subject, &payload);
        change(&mut payload);
        by.caller(&request, &headers, subject, &payload).is_some()
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
    fn a_node_proves_that_it_knows_the_secret() {
        let secret = |text| Trust::secret(&Secret::new(text));
        let (ours, node) = (secret("s1"), "n1".parse().expect("a name"));
        let differs = |by: Trust, reply| {
            let proof = by.prove(&node, "_INBOX.a");
            ours.has_other_secret("n1", reply, proof.as_deref())
        };
        assert!(!differs(secret("s1"), "_INBOX.a"));
        assert!(differs(secret("s1"), "_INBOX.b"), "it is for one answer");
        assert!(differs(secret("s2"), "_INBOX.a"));
        assert!(differs(Trust::account(), "_INBOX.a"));
        assert!(ours.has_other_secret("n1", "_INBOX.a", Some("no base64")));
        assert!(!Trust::none().has_other_secret("n1", "_INBOX.a", None), "there is none to know");
    }

    #[test]
    fn a_proof_is_for_one_subject() {
        let secret = Trust::secret(&Secret::new("s1"));
        let (request, payload) = call(SecurityLevel::SafeOps);
        let mut headers = HeaderMap::new();
        secret.sign(&mut headers, &"n1".parse().expect("a name"), "to.one", &payload);
        let is_believed = |subject| secret.caller(&request, &headers, subject, &payload).is_some();
        assert!(is_believed("to.one") && !is_believed("to.other"));
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
