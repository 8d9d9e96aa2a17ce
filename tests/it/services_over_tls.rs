//! The promise: services elsewhere are called over TLS where their URLs say so, and only those that show a
//! certificate that is trusted.

use std::path::Path;

use asyncsteps_fabric::http::{ClientConfig, Config, HttpFabric, Remote};
use asyncsteps_fabric::{Call, Fabric, Outcome};
use asyncsteps_support::conform;
use asyncsteps_support::server::TestServer;
use asyncsteps_support::stream::{CERTIFICATE, KEY, client_config};
use asyncsteps_transport::http::{ServerLimits, tls_from_pem};

/// Calls a function that needs a secure channel.
async fn hello(config: Config, url: String) -> Result<String, (String, Outcome)> {
    let fabric = HttpFabric::new(config).expect("a fabric");
    let remote = Remote::new(url).definition(conform::definition("conform.secure:1.0"));
    fabric.register("conform.secure:1.0".parse().expect("a name"), remote).expect("it is secure");
    let call = Call::new("conform.secure:1.0:hello", ()).expect("it is a call");
    let answer = fabric.call(call).await;
    answer
        .map(|response| response.into_value().to_string())
        .map_err(|error| (error.to_string(), error.outcome()))
}

fn trusting(tls: ClientConfig) -> Config {
    Config::new().tls(tls)
}

#[actix::test]
async fn services_are_called_over_tls() {
    let tls = tls_from_pem(Path::new(CERTIFICATE), Path::new(KEY)).expect("they fit");
    let secure = TestServer::start_with(
        1,
        ServerLimits::default(),
        Some(tls),
        conform::executor,
        |service| service,
    );
    let plain = TestServer::start(1, conform::executor);
    for scheme in ["https", "wss"] {
        let url = |server: &TestServer| format!("{scheme}://{}/ftn/", server.address);
        let answer = hello(trusting(client_config()), url(&secure)).await;
        assert_eq!(answer, Ok("\"secure\"".to_owned()), "{scheme}");
        // the system does not know who signed the certificate
        let (error, outcome) = hello(Config::new(), url(&secure)).await.expect_err("a stranger");
        assert!(error.starts_with("ConnectError: ") && error.contains("certificate"), "{error}");
        assert_eq!(outcome, Outcome::NotCarriedOut);
        let (error, outcome) =
            hello(trusting(client_config()), url(&plain)).await.expect_err("it has no TLS");
        assert!(error.starts_with("ConnectError: "), "{error}");
        assert_eq!(outcome, Outcome::NotCarriedOut);
    }
    // a network that is secure itself: the caller believes it, and the service does not
    let url = format!("secure+http://{}/ftn/", plain.address);
    let refused = ("SecurityError: Insecure channel".to_owned(), Outcome::Answered);
    assert_eq!(hello(Config::new(), url).await, Err(refused));
}
