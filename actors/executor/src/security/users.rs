//! A provider with a fixed list of users.

use std::{collections::HashMap, sync::Arc};

use super::mac_signer::MacSigner;
use super::{
    Attempt, AuthOutcome, Credentials, Grant, MacKey, MemoryOptions, PasswordHash, PasswordMemory,
    Refusal, SecurityLevel, SecurityProvider, User,
};

/// Users with passwords and keys that are set at start: for tests and small services.
///
/// A password yields [`SafeOps`](SecurityLevel::SafeOps), a signature
/// [`PrivilegedOps`](SecurityLevel::PrivilegedOps) (FTN8.1 §2.1.4, §2.2.4). A user may have both. Right
/// passwords are [remembered](PasswordMemory) for a while.
#[derive(Debug, Clone, Default)]
pub struct StaticUsers {
    users: HashMap<Box<str>, Secrets>,
    memory: PasswordMemory,
}

#[derive(Debug, Clone, Default)]
struct Secrets {
    password: Option<PasswordHash>,
    key: Option<Arc<MacKey>>,
    global_id: Option<Box<str>>,
}

impl StaticUsers {
    /// No users yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or changes the password of a user.
    #[must_use]
    pub fn with_password(mut self, user: &str, password: PasswordHash) -> Self {
        self.user(user).password = Some(password);
        self
    }

    /// How right passwords are remembered; [`MemoryOptions::default`] unless set.
    #[must_use]
    pub fn remember(mut self, options: MemoryOptions) -> Self {
        self.memory = PasswordMemory::new(options);
        self
    }

    /// Adds or changes the key that a user signs with, in raw bytes.
    ///
    /// **Warning:** this is FutoIn's own protocol of before FTN8. A signed message can be sent again by
    /// anyone who reads it, and different parameters can have the same signature, because the signed
    /// text does not distinguish a value with `;` and `:` from several fields. Use it over TLS only,
    /// for functions that may be called twice, and with parameters that are checked by their types.
    #[must_use]
    pub fn with_mac_key(mut self, user: &str, key: &[u8]) -> Self {
        self.user(user).key = Some(Arc::new(MacKey::new(key)));
        self
    }

    /// Sets the global id of a user, which else is the local one.
    #[must_use]
    pub fn with_global_id(mut self, user: &str, global_id: &str) -> Self {
        self.user(user).global_id = Some(global_id.into());
        self
    }

    fn user(&mut self, name: &str) -> &mut Secrets {
        self.users.entry(name.into()).or_default()
    }

    fn granted(&self, name: &str, level: SecurityLevel) -> User {
        let user = User::new(name, level);
        match self.users.get(name).and_then(|user| user.global_id.as_deref()) {
            Some(global_id) => user.with_global_id(global_id),
            None => user,
        }
    }
}

impl SecurityProvider for StaticUsers {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        match attempt.credentials() {
            Credentials::Password { user, password } => {
                let known = self.users.get(user.as_str()).and_then(|user| user.password.clone());
                let user = known.is_some().then(|| self.granted(user, SecurityLevel::SafeOps));
                let hash = known.unwrap_or_else(PasswordHash::dummy);
                if self.memory.knows(&hash, password) {
                    return AuthOutcome::Known(
                        user.map(Grant::new).ok_or_else(Refusal::credentials),
                    );
                }
                let (memory, password) = (self.memory.clone(), password.clone());
                AuthOutcome::compute(move || {
                    let is_right = memory.verify(&hash, &password);
                    user.filter(|_| is_right).map(Grant::new).ok_or_else(Refusal::credentials)
                })
            }
            Credentials::Mac { user, algorithm, mac } => {
                let known = self.users.get(user.as_str()).and_then(|user| user.key.clone());
                let base = attempt.signed().base();
                let is_known = known.is_some();
                // an unknown user costs the same
                let key = known.unwrap_or_else(|| Arc::new(MacKey::new(&[])));
                let is_right = key.verify(*algorithm, &base, mac);
                AuthOutcome::Known(if is_known && is_right {
                    let signer = MacSigner::new(key, *algorithm);
                    let user = self.granted(user, SecurityLevel::PrivilegedOps);
                    Ok(Grant::signed(user, Arc::new(signer)))
                } else {
                    Err(Refusal::credentials())
                })
            }
            Credentials::Internal => AuthOutcome::Known(Err(Refusal::not_internal())),
            // kinds of credentials that this provider does not know
            _ => AuthOutcome::Known(Err(Refusal::credentials())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Client, MacAlgorithm, Secret};
    use super::*;
    use asyncsteps_futoin::message::{Coding, Request, Response};

    /// The outcome of a request; work is done here and now.
    fn checked(users: &StaticUsers, request: &Request) -> Result<Grant, Refusal> {
        let credentials = Credentials::parse(request.sec().unwrap())?;
        let (signed, client) = (request.signed_fields(), Client::default());
        match users.check(&Attempt::new(&credentials, &signed, &client)) {
            AuthOutcome::Known(result) => {
                assert!(credentials.is_signature() || credentials == Credentials::Internal);
                result
            }
            AuthOutcome::Compute(work) => {
                assert!(matches!(credentials, Credentials::Password { .. }));
                work()
            }
            AuthOutcome::Wait(_) => unreachable!("nobody to wait for"),
        }
    }

    fn request(sec: Value) -> Request {
        let params = json!({"a": 1, "b": 2});
        let message = json!({"f": "conform.signed:1.0:sum", "p": params, "rid": "C1", "sec": sec});
        Request::parse(message.to_string().as_bytes()).unwrap()
    }

    /// The hash of `pass`, with parameters that are quick even in a debug build.
    fn hash_of_pass() -> PasswordHash {
        PasswordHash::parse("$argon2id$v=19$m=8,t=1,p=1$5OED+KT9W0IyBwU2vKO6aw$PpSjKfqRcWcLbHw1x7WpiAkHFoT9JUXC4DzQj5GkUgk").unwrap()
    }

    fn users() -> StaticUsers {
        StaticUsers::new()
            .with_password("user", hash_of_pass())
            .with_mac_key("hmacuser", b"MyLongTestSecretKey")
            .with_global_id("user", "user@example.com")
    }

    #[test]
    fn a_password_is_checked_against_its_hash() {
        let users = users();
        let grant = checked(&users, &request(json!("user:pass"))).unwrap();
        let user = grant.user();
        assert_eq!((user.local_id(), user.global_id()), ("user", "user@example.com"));
        assert_eq!(user.level(), SecurityLevel::SafeOps);
        assert!(grant.signer().is_none());
        for sec in ["user:Pass", "user:", "user:pass ", "hmacuser:MyLongTestSecretKey", "-internal"]
        {
            assert!(checked(&users, &request(json!(sec))).is_err(), "{sec}");
        }
    }

    #[test]
    fn nobody_learns_which_users_exist() {
        let denied = |sec: &str| checked(&users(), &request(json!(sec))).unwrap_err();
        let wrong = denied("user:wrong");
        assert_eq!(
            (wrong.code(), wrong.to_string().as_str()),
            ("SecurityError", "Basic Auth Verification Failed")
        );
        assert_eq!(denied("nobody:wrong"), wrong);
        assert_eq!(denied("-hmac:nobody:MD5:AQ=="), wrong);
        assert_eq!(denied("-hmac:user:MD5:AQ=="), wrong);
        assert_eq!(denied("-hmac:hmacuser:MD5:AQ=="), wrong);
        let empty_key = MacKey::new(b"");
        let base = request(json!("x")).signed_fields().base();
        let forged = format!("-hmac:nobody:MD5:{}", empty_key.sign(MacAlgorithm::Md5, &base));
        assert_eq!(denied(&forged), wrong, "nobody has no key that one could guess");
    }

    #[test]
    fn a_signed_request_is_answered_signed() {
        let users = users();
        // as the npm package signs: openssl dgst -sha256 -hmac KEY over the line below
        let base = "f:conform.signed:1.0:sum;p:a:1;b:2;;rid:C1;";
        assert_eq!(request(json!("x")).signed_fields().base(), base.as_bytes());
        for (name, algorithm, mac) in [
            ("-hmac", "SHA256", "AVh5SnACwrcK2lbZs7yLWg/e7YHO8zM+DEND5N06loE="),
            ("-smac", "HS256", "AVh5SnACwrcK2lbZs7yLWg/e7YHO8zM+DEND5N06loE="),
            ("-hmac", "MD5", "YUf83ccIX9Fh76rgo3cSzg=="),
        ] {
            let sec = format!("{name}:hmacuser:{algorithm}:{mac}");
            let grant = checked(&users, &request(json!(sec))).unwrap();
            assert_eq!(grant.user().level(), SecurityLevel::PrivilegedOps);
            let rid = request(json!("x"));
            let answer = Response::success(json!({"sum": 3})).with_rid(rid.rid());
            let sec = grant.signer().unwrap().sign(&answer.signed_fields(Coding::Json, None));
            let key = MacKey::new(b"MyLongTestSecretKey");
            assert_eq!(sec, key.sign(algorithm.parse().unwrap(), b"r:sum:3;;rid:C1;"));
        }
        let changed = json!({"f": "conform.signed:1.0:sum", "p": {"a": 1, "b": 3}, "rid": "C1",
            "sec": "-hmac:hmacuser:SHA256:AVh5SnACwrcK2lbZs7yLWg/e7YHO8zM+DEND5N06loE="});
        let changed = Request::parse(changed.to_string().as_bytes()).unwrap();
        assert_eq!(checked(&users, &changed).unwrap_err(), Refusal::credentials());
    }

    #[test]
    fn no_secret_is_shown() {
        let shown = format!("{:?} {:?}", users(), Secret::new("pass"));
        assert!(!shown.contains("MyLong") && !shown.contains("pass\""), "{shown}");
        let credentials = Credentials::parse(&json!("user:hunter2")).unwrap();
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
