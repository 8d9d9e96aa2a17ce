//! What the functions of `functions.rs` do, in an axum router: a route, JSON both ways and a time limit.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::error_handling::HandleErrorLayer;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use crate::functions::{Charge, Charged, Payments, charged, pay, payments};

async fn charge(
    State(payments): State<Arc<Payments>>,
    Json(charge): Json<Charge>,
) -> Result<Json<Charged>, StatusCode> {
    let tx = pay(&payments, charge.amount).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(Json(charged(&charge, &tx)))
}

/// So many requests, without a network.
pub(crate) fn requests(requests: u32) {
    const CHARGE: &str = r#"{"customer":"ann","amount":7}"#;
    let in_time = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |_: BoxError| StatusCode::GATEWAY_TIMEOUT))
        .timeout(Duration::from_secs(30));
    let router = Router::new().route("/charge", post(charge)).layer(in_time);
    let mut service = router.with_state(Arc::new(payments())).into_service::<Body>();
    actix_rt::System::new().block_on(async {
        for _ in 0..requests {
            let request = Request::post("/charge").header("content-type", "application/json");
            let request = request.body(Body::from(CHARGE)).expect("a request");
            let answer = service.ready().await.expect("it is ready").call(request).await;
            let answer = answer.expect("it cannot fail").into_body();
            let answer = to_bytes(answer, 1_000).await.expect("a body");
            assert_eq!(black_box(answer), r#"{"charge":"ann-EUR7","cents":700}"#);
        }
    });
}
