//! Serves an interface whose functions are steps in C, or whatever can call C: a library with the
//! Executor, HTTP and the binary interface in it. `serve.h` documents it.
#![expect(unsafe_code, reason = "exported, and called with pointers")]

use std::convert::Infallible;
use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use asyncsteps_actors::ffi::BinaryStep;
use asyncsteps_actors::ffi::abi::{Execute, HandleError, Scheduled};
use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_transport::http::{self, Server, ServerLimits};
use serde_json::Value;
use tokio::sync::oneshot;

/// How long a request may take, and its message: one that waits for the next order may wait for a while.
const PATIENCE: Duration = Duration::from_secs(60);

type Fallible<T> = Result<T, Box<dyn Error>>;

/// An interface and its functions; the server, once it is started.
#[derive(Debug)]
pub struct Serve {
    folder: String,
    interface: String,
    functions: Vec<(String, Template)>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    /// Closed when no function is left.
    in_use: (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>),
}

/// The business logic of a function: parameters and result are JSON texts to the foreign step.
fn logic(step: &BinaryStep, in_use: mpsc::Sender<Infallible>) -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let params = asi.request_mut()?.take_params();
            asi.success(Value::Object(params).to_string())
        });
        step.add_to(asi);
        asi.add(move |asi, result: String| {
            // dropped after the step
            let _in_use = &in_use;
            let result: Value = serde_json::from_str(&result)?;
            asi.reply(result)
        });
    })
}

impl Serve {
    fn start(&mut self, port: u16) -> Fallible<u16> {
        let source = Source::folder(self.folder.as_str());
        let definition = Loader::new([source]).load(&self.interface.parse()?)?;
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        let executor = Executor::builder()
            .interface(definition, |functions| {
                functions.others_not_implemented();
                for (name, logic) in &self.functions {
                    functions.add(name, logic);
                }
            })
            .request_timeout(PATIENCE)
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let served = actix_rt::System::new().block_on(serve(listener, executor, stopped));
            report(served);
        });
        self.running = Some((stop, thread));
        Ok(port)
    }
}

/// Serves until it is told to stop; requests in flight are cancelled then.
async fn serve(
    listener: TcpListener,
    executor: Executor,
    stopped: oneshot::Receiver<()>,
) -> Fallible<()> {
    let limits = ServerLimits { head_timeout: PATIENCE, ..ServerLimits::default() };
    let server = Server::new(http::service("/ftn/", executor)).limits(limits).grace(Duration::ZERO);
    let server = server.workers(NonZeroUsize::MIN.saturating_add(1)).listen(listener)?;
    server
        .run_until(async {
            // told, or dropped
            let _ = stopped.await;
        })
        .await?;
    Ok(())
}

/// What went wrong goes to standard error.
#[expect(clippy::print_stderr, reason = "an example keeps it simple")]
fn report<T>(result: Fallible<T>) -> Option<T> {
    result.inspect_err(|error| eprintln!("serve: {error}")).ok()
}

/// # Safety
/// `text` ends with NUL.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller's promise
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// See `serve.h`.
///
/// # Safety
/// Both are texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn serve_new(folder: *const c_char, interface: *const c_char) -> *mut Serve {
    // SAFETY: the caller's promise
    let folder = unsafe { text(folder) };
    // SAFETY: the caller's promise
    let interface = unsafe { text(interface) };
    let (functions, running, in_use) = (Vec::new(), None, mpsc::channel());
    Box::into_raw(Box::new(Serve { folder, interface, functions, running, in_use }))
}

/// See `serve.h`.
///
/// # Safety
/// `serve` comes from `serve_new`, `name` is a text, and the callbacks follow FTN12 §2.7.2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn serve_function(
    serve: *mut Serve,
    name: *const c_char,
    step: Execute,
    on_error: Option<HandleError>,
    data: *mut c_void,
    destroy: Option<Scheduled>,
) {
    // SAFETY: the caller's promise
    let serve = unsafe { &mut *serve };
    // SAFETY: the caller's promise
    let name = unsafe { text(name) };
    // SAFETY: the caller's promise
    let step = unsafe { BinaryStep::new(step, on_error, data, destroy) };
    serve.functions.push((name, logic(&step, serve.in_use.0.clone())));
}

/// See `serve.h`.
///
/// # Safety
/// `serve` comes from `serve_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn serve_start(serve: *mut Serve, port: u16) -> c_int {
    // SAFETY: the caller's promise
    let serve = unsafe { &mut *serve };
    report(serve.start(port)).map_or(-1, c_int::from)
}

/// See `serve.h`.
///
/// # Safety
/// `serve` comes from `serve_new`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn serve_stop(serve: *mut Serve) {
    // SAFETY: the caller's promise
    let Serve { functions, running, in_use, .. } = *unsafe { Box::from_raw(serve) };
    if let Some((stop, thread)) = running {
        // a server that failed is gone
        let _ = stop.send(());
        report(thread.join().map_err(|_| "the server panicked".into()));
    }
    drop(functions);
    let (sender, in_use) = in_use;
    drop(sender);
    // threads of the server may take a moment to end
    let _ = in_use.recv();
}
