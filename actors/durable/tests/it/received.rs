//! The promise: a durable function does not see what came with its request, which is gone when it goes on elsewhere.

use asyncsteps_core::BodyResult;
use asyncsteps_durable::Durable;
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor};

async fn language(cx: &Cx<(), ()>) -> BodyResult<String> {
    let received = cx.request().received()?;
    Ok(received.header("accept-language").unwrap_or("none").to_owned())
}

async fn upload(cx: &Cx<(), ()>) -> BodyResult<()> {
    cx.raw_input()?;
    Ok(())
}

async fn message(cx: &Cx<(), ()>) -> BodyResult<String> {
    Ok(cx.request().raw_request().await?.f().to_owned())
}

#[actix::test]
async fn what_came_with_a_request_is_for_functions_that_end_with_their_process() {
    tokio::time::pause();
    let durable = Durable::new(Memory::default());
    let interface = Interface::new("test.received:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "language", language);
        durable.on(functions, "upload", upload);
        durable.on(functions, "message", message);
        functions.on("inMemory", language);
    });
    let executor = builder.build().expect("it is complete");
    let _node = durable.start(&executor).await.expect("a lease");
    for function in ["language", "upload", "message"] {
        let called = executor.call_as_system::<()>(&format!("test.received:1.0:{function}"), ());
        let refused = called.await.expect_err(function);
        let shown = (refused.code(), refused.info());
        assert_eq!(shown, ("InternalError", Some("Not expected error")), "{function}");
    }
    let called = executor.call_as_system::<String>("test.received:1.0:inMemory", ());
    assert_eq!(called.await.expect("it has its request"), "none");
}
