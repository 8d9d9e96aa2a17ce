//! The functions for tools that do not know FutoIn: their OpenAPI document, and Swagger UI to try calls; the page that
//! says what else there is.

use asyncsteps::http::{self, OpenApi};
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode, body::Bytes};
use serde_json::json;
use swagger_ui_redist::{SwaggerUi, SwaggerUiStaticFile};

/// What there is at this address.
const INDEX: &str = r#"<!DOCTYPE html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<meta name=color-scheme content="light dark"><title>AsyncSteps demo</title>
<body style="max-width: 36rem; margin: 4rem auto; padding: 0 1rem; font: 16px/1.7 system-ui, sans-serif">
<h1>AsyncSteps demo</h1><p>A shop and its bank, whose functions are at <code>/ftn/</code>.</p><ul>
<li><a href=/console>Console</a>: what runs, what waits, for what, since when (unless it is switched off)
<li><a href=/docs>Functions</a> to try out, described in <a href=/openapi.json>openapi.json</a>
<li><a href=/docs/order>An order</a> that is watched while it is carried out
<li>Tools of language models, by the Model Context Protocol at <code>/mcp</code>
<li><a href=/metrics>Metrics</a> for Prometheus; <a href=/health>health</a> and <a href=/ready>ready</a> for probes
</ul>
"#;

/// The page that starts Swagger UI.
const PAGE: &str = r#"<!DOCTYPE html>
<html lang=en><meta charset=utf-8><title>Shop: try calls</title>
<link rel=stylesheet href=/docs/swagger-ui.css>
<div id=docs></div>
<script src=/docs/swagger-ui-bundle.js></script>
<script src=/docs/start.js></script>
"#;

/// Nothing is asked of other servers.
const START: &str = "SwaggerUIBundle({ url: '/openapi.json', dom_id: '#docs', tryItOutEnabled: true, validatorUrl: null });\n";

/// Swagger UI sets styles in attributes, and has its pictures in itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The functions as a document.
pub(crate) fn openapi(service: &http::Service) -> OpenApi {
    let items = json!([{ "sku": "apple", "qty": 3 }]);
    http::openapi(service, "Shop", env!("CARGO_PKG_VERSION"))
        .example("demo.shop:1.0:restock", json!({ "sku": "apple", "count": 10, "price": 30 }))
        .example("demo.shop:1.0:stock", json!({ "sku": "apple" }))
        .example("demo.shop:1.0:order", json!({ "customer": "ann", "items": items }))
        .example("demo.shop:1.0:get", json!({ "order": 1 }))
        .example("demo.shop:1.0:list", json!({ "customer": "ann" }))
}

/// The file of Swagger UI at this path.
pub(crate) fn file(method: &Method, path: &str) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(method) {
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let dist = |file| {
        let mut files = SwaggerUi::static_files().iter();
        files.find(|(name, _)| *name == file).map_or(&b""[..], |(_, bytes)| bytes)
    };
    let (media, bytes) = match path {
        "/" => ("text/html", INDEX.as_bytes()),
        "/docs" | "/docs/" => ("text/html", PAGE.as_bytes()),
        "/docs/order" => ("text/html", include_str!("order.html").as_bytes()),
        "/docs/order.js" => ("text/javascript", include_str!("order.js").as_bytes()),
        "/docs/start.js" => ("text/javascript", START.as_bytes()),
        "/docs/swagger-ui.css" => ("text/css", dist(SwaggerUiStaticFile::Css)),
        "/docs/swagger-ui-bundle.js" => ("text/javascript", dist(SwaggerUiStaticFile::Js)),
        _ => {
            let mut answer = Response::new("There is nothing here".into());
            *answer.status_mut() = StatusCode::NOT_FOUND;
            return answer;
        }
    };
    let mut answer = Response::new(Full::from(bytes));
    for (name, value) in [
        (CONTENT_TYPE, media),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
