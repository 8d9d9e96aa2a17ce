//! Documents at URLs.

use std::error::Error;
use std::pin::Pin;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use super::config::Config;
use super::connector::Connector;
use super::error::HttpError;

type BoxError = Box<dyn Error + Send + Sync>;

/// A document that is being read.
pub type Fetching = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;

/// Makes a function that reads the text at a URL, `http://` or `https://`, such as the keys of an issuer of tokens: with the
/// TLS, the time limit and the largest message of the configuration. It follows no redirects, and another status than 200
/// is an error.
///
/// ```
/// use asyncsteps_fabric::http::{self, Config};
///
/// let fetch = http::fetch(&Config::new())?;
/// // JwtProvider::discover("https://id.acme.com/", "acme.letters", fetch)
/// # let _ = fetch;
/// # Ok::<(), asyncsteps_fabric::http::HttpError>(())
/// ```
///
/// # Errors
/// [`HttpError`] if TLS cannot be used.
pub fn fetch(
    config: &Config,
) -> Result<impl Fn(String) -> Fetching + Clone + Send + Sync + 'static, HttpError> {
    // none is kept: the next document may be wanted on another thread, or in an hour
    let mut client = Client::builder(TokioExecutor::new());
    let client: Client<_, Empty<Bytes>> =
        client.pool_max_idle_per_host(0).build(Connector::new(config)?);
    let (limit, most) = (config.call_timeout, config.max_message);
    Ok(move |url: String| -> Fetching {
        let client = client.clone();
        let reads = async move {
            let answer = client.request(Request::get(url).body(Empty::new())?).await?;
            if answer.status() != StatusCode::OK {
                return Err(format!("the answer is {}", answer.status()).into());
            }
            let body = Limited::new(answer.into_body(), most).collect().await?;
            Ok(String::from_utf8(body.to_bytes().into())?)
        };
        Box::pin(async move { timeout(limit, reads).await? })
    })
}
