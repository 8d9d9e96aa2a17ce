//! The same echo written by hand on actix-web and on hyper: baselines of benches.

use std::net::{IpAddr, TcpListener};

use actix_web::HttpResponse;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// Serves connections on hyper, each by a handler of its own, which `handler` makes for the address of the client.
pub(crate) async fn serve_hyper<H, F>(listener: TcpListener, handler: impl Fn(IpAddr) -> H)
where
    H: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = Result<Response<Full<Bytes>>, hyper::Error>> + 'static,
{
    listener.set_nonblocking(true).expect("a socket option");
    let listener = actix_rt::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, peer)) = listener.accept().await {
        stream.set_nodelay(true).expect("a socket option");
        let service = service_fn(handler(peer.ip()));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        actix_rt::spawn(connection);
    }
}

pub(crate) async fn hyper_echo(
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let Ok(mut message) = serde_json::from_slice::<Value>(&body) else {
        let mut refused = Response::new(Full::default());
        *refused.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(refused);
    };
    let answer = json!({ "r": message["p"].take() });
    let mut response = Response::new(Full::new(answer.to_string().into()));
    let media = HeaderValue::from_static("application/futoin+json");
    response.headers_mut().insert(CONTENT_TYPE, media);
    Ok(response)
}

/// A handler of actix-web.
pub(crate) async fn bare(body: Bytes) -> HttpResponse {
    let Ok(mut message) = serde_json::from_slice::<Value>(&body) else {
        return HttpResponse::BadRequest().finish();
    };
    let answer = json!({ "r": message["p"].take() });
    HttpResponse::Ok().content_type("application/futoin+json").body(answer.to_string())
}
