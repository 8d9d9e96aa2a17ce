//! Many customers are told something, at most eight at once; the failures are collected.

use asyncsteps_executor::{Returns, Service, Steps};

use super::world::{Failed, Notify, Post};

pub(crate) struct News {
    pub(crate) post: Post,
}

impl Service for News {
    type Errors = ();
}

pub(crate) fn notify(steps: &Steps<News, Notify>) -> Returns<Vec<Failed>> {
    steps
        .each(
            "notify",
            |cx, ()| cx.params.customers.clone(),
            |customer| {
                customer.run("send", async |cx, customer| {
                    let sent = cx.post.send(&customer, &cx.params.text).await;
                    Ok(sent.err().map(|error| Failed { customer, error: error.to_string() }))
                })
            },
        )
        .at_once(8)
        .then("failures", async |_, results| Ok(results.into_iter().flatten().collect()))
        .returns()
}
