//! What an executor hosts, as a page and as JSON.

use actix_web::HttpResponse;

use crate::executor::ExecutorHandle;

pub(super) fn answer(executor: &ExecutorHandle, accept: &str) -> HttpResponse {
    let _ = (executor, accept);
    HttpResponse::NotFound().finish()
}
