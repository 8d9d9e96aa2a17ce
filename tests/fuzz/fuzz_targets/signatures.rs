//! A signature verifies its own message only, and no credentials are right by chance.
#![no_main]

use asyncsteps_futoin::message::Request;
use asyncsteps_futoin::net::{Cidr, TrustedProxies};
use asyncsteps_futoin::security::{Credentials, MacAlgorithm, MacKey};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const ALGORITHMS: [(&str, MacAlgorithm); 5] = [
    ("MD5", MacAlgorithm::Md5),
    ("SHA224", MacAlgorithm::Sha224),
    ("HS256", MacAlgorithm::Sha256),
    ("HS384", MacAlgorithm::Sha384),
    ("SHA512", MacAlgorithm::Sha512),
];

const KEY: &[u8] = b"a key that is not guessed";

/// Whether the request is signed by the user `u`; `None` without credentials.
fn check(request: &Request) -> Option<bool> {
    match Credentials::parse(request.sec()?).ok()? {
        Credentials::Mac { user, algorithm, mac } => {
            let base = request.signed_fields().base();
            Some(user == "u" && MacKey::new(KEY).verify(algorithm, &base, &mac))
        }
        _ => Some(false),
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
    assert_ne!(check(&request), Some(true));
    let base = request.signed_fields().base();
    let (name, algorithm) = ALGORITHMS[base.len() % ALGORITHMS.len()];
    let mac = MacKey::new(KEY).sign(algorithm, &base);
    let signed = request.with_sec(json!(format!("-smac:u:{name}:{mac}")));
    assert_eq!(check(&signed), Some(true));
    let wrong = signed.with_sec(json!(format!("-smac:u:{name}:{}", &mac[4..])));
    assert_ne!(check(&wrong), Some(true));
});
