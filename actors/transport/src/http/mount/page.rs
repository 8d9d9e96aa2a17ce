//! Services of tower inside of an actix-web application.

use std::future::poll_fn;
use std::io;

use actix_web::body::{BodyStream, BoxBody, SizedStream};
use actix_web::{HttpRequest, HttpResponse, Route, web};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::{Request, Response};
use http_body_util::BodyDataStream;
use tower_service::Service;

use super::status;
use asyncsteps_server::BoxError;

/// Serves a path of an actix-web application with a [tower](https://docs.rs/tower) service that reads no
/// body, as [`Server::page`](super::super::Server::page) does: for the services of `asyncsteps-observe`
/// and the console. The address of the client is in the extensions of the
/// request, as a [`SocketAddr`](std::net::SocketAddr). An error of the service is logged and answered
/// with 500.
///
/// ```
/// use actix_web::App;
/// use asyncsteps_executor::Executor;
/// use asyncsteps_observe::health;
/// use asyncsteps_transport::http;
///
/// # let executor = Executor::builder().build()?;
/// let [alive, ready] = health::HealthService::PATHS;
/// let app = App::new()
///     .service(http::service("/ftn/", executor.clone()))
///     .route(alive, http::page(health::service(&executor)))
///     .route(ready, http::page(health::service(&executor)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn page<S, B>(service: S) -> Route
where
    S: Service<Request<()>, Response = Response<B>> + Clone + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    web::route().to(move |http: HttpRequest| {
        let service = service.clone();
        async move { answer(service, &http).await }
    })
}

async fn answer<S, B>(mut service: S, http: &HttpRequest) -> HttpResponse
where
    S: Service<Request<()>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let Some(request) = request(http) else { return HttpResponse::BadRequest().finish() };
    let answered = match poll_fn(|cx| service.poll_ready(cx)).await {
        Ok(()) => service.call(request).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(answer) => response(answer),
        Err(error) => {
            let error = error.into();
            tracing::error!(error = &*error as &dyn std::error::Error, "a service failed");
            HttpResponse::InternalServerError().finish()
        }
    }
}

/// The same request in the types of tower's services; `None` if they do not take it.
fn request(http: &HttpRequest) -> Option<Request<()>> {
    let mut request = Request::builder().method(http.method().as_str());
    for (name, value) in http.headers() {
        request = request.header(name.as_str(), value.as_bytes());
    }
    let mut request = request.uri(http.uri().to_string()).body(()).ok()?;
    if let Some(peer) = http.peer_addr() {
        request.extensions_mut().insert(peer);
    }
    Some(request)
}

fn response<B>(answer: Response<B>) -> HttpResponse
where
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    let (head, body) = answer.into_parts();
    let mut response = HttpResponse::build(status(head.status));
    for (name, value) in &head.headers {
        response.append_header((name.as_str(), value.as_bytes()));
    }
    let length = body.size_hint().exact();
    let chunks = BodyDataStream::new(body).map_err(io::Error::other);
    response.body(match length {
        Some(length) => BoxBody::new(SizedStream::new(length, Box::pin(chunks))),
        None => BoxBody::new(BodyStream::new(Box::pin(chunks))),
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use actix_web::test::{TestRequest, call_service, init_service, read_body};
    use actix_web::{App, http::StatusCode};
    use http_body_util::Full;

    use super::*;

    /// A service that says who asked for what.
    async fn echo(request: Request<()>) -> Result<Response<Full<Bytes>>, BoxError> {
        let path = request.uri().path().to_owned();
        let peer = request.extensions().get::<SocketAddr>().ok_or("no address")?;
        let answer = Response::builder().status(202).header("x-method", request.method().as_str());
        Ok(answer.body(format!("{path} for {peer}").into())?)
    }

    #[actix::test]
    async fn a_service_of_tower_answers_in_an_application() {
        let route = page(tower::service_fn(echo));
        let app = init_service(App::new().route("/page", route)).await;
        let peer = ([192, 0, 2, 1], 7).into();
        let request = TestRequest::put().uri("/page").peer_addr(peer).to_request();
        let answer = call_service(&app, request).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        assert_eq!(answer.headers().get("x-method").map(|it| it.as_bytes()), Some(&b"PUT"[..]));
        assert_eq!(read_body(answer).await, "/page for 192.0.2.1:7");
        let failed = call_service(&app, TestRequest::get().uri("/page").to_request()).await;
        assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(read_body(failed).await.is_empty(), "the reason is for the log");
    }
}
