//! The same as `notify.rs` with actix-web and futures.

use actix_web::web;
use futures_util::{StreamExt as _, stream};

use super::world::{Failed, Notify, Post};

pub(crate) struct App {
    pub(crate) post: Post,
}

pub(crate) async fn notify(
    app: web::Data<App>,
    params: web::Json<Notify>,
) -> web::Json<Vec<Failed>> {
    let sent = stream::iter(&params.customers).map(|customer| async {
        let sent = app.post.send(customer, &params.text).await;
        sent.err().map(|error| Failed { customer: customer.clone(), error: error.to_string() })
    });
    web::Json(sent.buffered(8).filter_map(std::future::ready).collect().await)
}
