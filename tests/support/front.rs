//! What serves an executor over HTTP: the promises of the wire hold for both.

use std::any::Any;

use actix_web::dev::Extensions;
use actix_web::rt::net::TcpStream;
use actix_web::{App, HttpServer};
use asyncsteps_executor::Executor;
use asyncsteps_transport::http;

use crate::PATIENCE;
use crate::server::TestServer;

/// What serves an executor over HTTP.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "there are these two")]
pub enum Front {
    /// The server of this project.
    Own,
    /// The server of actix-web, with an application that mounts the service.
    Mounted,
}

/// Makes two tests of each function that takes a [`Front`]: `own::name` and `mounted::name`.
#[macro_export]
macro_rules! on_both_fronts {
    ($($test:ident),+ $(,)?) => {
        mod own {
            use asyncsteps_support::front::Front;
            $(#[test] fn $test() { super::$test(Front::Own); })+
        }
        mod mounted {
            use asyncsteps_support::front::Front;
            $(#[test] fn $test() { super::$test(Front::Mounted); })+
        }
    };
}

impl Front {
    /// Serves the executor that `make` gives inside of the new actix system.
    #[must_use]
    pub fn start(
        self,
        workers: usize,
        make: impl FnOnce() -> Executor + Send + 'static,
    ) -> TestServer {
        self.start_as(workers, make, |service| service)
    }

    /// The same with a service that is set up by `set_up`.
    #[must_use]
    pub fn start_as(
        self,
        workers: usize,
        make: impl FnOnce() -> Executor + Send + 'static,
        set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static,
    ) -> TestServer {
        match self {
            Self::Own => TestServer::start_as(workers, make, set_up),
            Self::Mounted => mounted(workers, make, set_up),
        }
    }
}

fn mounted(
    workers: usize,
    make: impl FnOnce() -> Executor + Send + 'static,
    set_up: impl FnOnce(http::Service) -> http::Service + Send + 'static,
) -> TestServer {
    TestServer::run(make, set_up, async move |service, listener, connections, stopped| {
        let server = HttpServer::new(move || App::new().service(service.clone()))
            .workers(workers)
            .on_connect(move |stream: &dyn Any, data: &mut Extensions| {
                let stream = stream.downcast_ref::<TcpStream>().expect("a plain connection");
                data.insert(connections.opened(stream.nodelay().expect("a socket option")));
            })
            // as its documentation says
            .tcp_nodelay(true)
            .h1_allow_half_closed(false)
            // a loaded machine may take longer than usual
            .keep_alive(PATIENCE)
            .client_request_timeout(PATIENCE)
            .disable_signals()
            .listen(listener)
            .expect("a listener")
            .run();
        let handle = server.handle();
        actix_web::rt::spawn(async move {
            // dropped with the test's handle, or told by it
            let _ = stopped.await;
            handle.stop(false).await;
        });
        server.await.expect("no error of the server");
    })
}
