//! A signed message verifies, any other one does not, and random credentials fit no user.
#![no_main]

use asyncsteps_executor::security::StaticUsers;
use asyncsteps_futoin::message::Request;
use asyncsteps_futoin::net::{Cidr, TrustedProxies};
use asyncsteps_futoin::security::{
    Attempt, Client, Credentials, MacAlgorithm, MacKey, SecurityProvider, Verdict,
};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const ALGORITHMS: [(&str, MacAlgorithm); 5] = [
    ("MD5", MacAlgorithm::Md5),
    ("SHA224", MacAlgorithm::Sha224),
    ("HS256", MacAlgorithm::Sha256),
    ("HS384", MacAlgorithm::Sha384),
    ("SHA512", MacAlgorithm::Sha512),
];

fn check(users: &StaticUsers, request: &Request) -> Option<bool> {
    let credentials = Credentials::parse(request.sec()?).ok()?;
    let (signed, client) = (request.signed_fields(), Client::default());
    match users.check(&Attempt::new(&credentials, &signed, &client)) {
        Verdict::Known(result) => Some(result.is_ok()),
        // a password is slow to check and has nothing to do with the message
        Verdict::Compute(_) | Verdict::Wait(_) => None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = Credentials::from_header(text);
        let _ = text.parse::<Cidr>();
        if let Ok(everybody) = "0.0.0.0/0".parse() {
            let peer = std::net::Ipv4Addr::LOCALHOST.into();
            let _ = TrustedProxies::new([everybody]).client(peer, text.lines());
        }
    }
    let Ok(request) = Request::parse(bytes) else { return };
    let users = StaticUsers::new().with_mac_key("u", b"a key that is not guessed");
    assert_ne!(check(&users, &request), Some(true));
    let base = request.signed_fields().base();
    let (name, algorithm) = ALGORITHMS[base.len() % ALGORITHMS.len()];
    let mac = MacKey::new(b"a key that is not guessed").sign(algorithm, &base);
    let signed = request.with_sec(json!(format!("-smac:u:{name}:{mac}")));
    assert_eq!(check(&users, &signed), Some(true));
    let wrong = signed.with_sec(json!(format!("-smac:u:{name}:{}", &mac[4..])));
    assert_ne!(check(&users, &wrong), Some(true));
});
