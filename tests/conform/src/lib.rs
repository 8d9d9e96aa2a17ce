//! The interfaces `conform.*`, with which clients and executors of FutoIn are tested: each function
//! shows one thing that an executor must be able to do. The program serves them.
#![forbid(unsafe_code)]

mod calls;
mod channel;
mod raw;

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{StepResult, Template};
use asyncsteps_executor::iface::{Definition, LoadError, Loader, NameError, Source};
use asyncsteps_executor::message::Data;
use asyncsteps_executor::security::{PasswordHash, PasswordHashError, Secret, StaticUsers};
use asyncsteps_executor::{ConfigError, Executor, Functions, RequestSteps, builtin};
use serde::Serialize;
use serde_json::json;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The same for functions declared `heavy`.
const HEAVY_TIMEOUT: Duration = Duration::from_secs(3);

/// Why the interfaces cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConformError {
    /// An interface definition is wrong.
    #[error("cannot load an interface")]
    Interface(#[from] LoadError),
    /// The name of an interface is wrong.
    #[error("cannot name an interface")]
    Name(#[from] NameError),
    /// The executor cannot be built.
    #[error("cannot build the executor")]
    Executor(#[from] ConfigError),
    /// A password cannot be hashed.
    #[error("cannot hash a password")]
    Password(#[from] PasswordHashError),
}

/// The executor with all of them and its users: `user` with the password `pass`, `hmacuser` with
/// the key `MyLongTestSecretKey`.
///
/// # Errors
/// [`ConformError`] if a definition is wrong or there are no random bytes.
pub fn executor() -> Result<Executor, ConformError> {
    let mut loader = Loader::new([definitions(), Source::builtin()]);
    let mut load =
        |name: &str| -> Result<Arc<Definition>, ConformError> { Ok(loader.load(&name.parse()?)?) };
    let users = StaticUsers::new()
        .with_password("user", PasswordHash::new(&Secret::new("pass"))?)
        .with_mac_key("hmacuser", b"MyLongTestSecretKey");
    let events = load("conform.events:1.0")?;
    let executor = Executor::builder()
        .request_timeout(REQUEST_TIMEOUT)
        .heavy_timeout(HEAVY_TIMEOUT)
        .security(users)
        .interface(load("conform.main:1.2")?, |functions| {
            calls::define(functions);
            channel::define(functions);
            raw::define(functions);
            // what callers hear of a function that a service leaves out
            functions.not_implemented("missingImpl");
        })
        .interface(load("conform.derived:1.1")?, derived)
        .interface(load("conform.secret:1.0")?, secret)
        .interface(load("conform.secure:1.0")?, |functions| {
            functions.add("hello", &replies("secure"));
        })
        .interface(load("conform.signed:1.0")?, |functions| {
            functions.add("sum", &template(sum));
        })
        .interface(load("conform.bidi:1.0")?, |functions| channel::bidi(functions, &events))
        .interface(load("conform.bin:1.0")?, |functions| {
            functions.add("reverse", &template(reverse));
        })
        .interface(load("futoin.burst:0.1")?, builtin::burst)
        .interface(load("futoin.anonping:1.0")?, |functions| {
            functions.add("ping", &builtin::ping());
        })
        .build()?;
    Ok(executor)
}

/// The definitions of the interfaces.
#[must_use]
pub fn definitions() -> Source {
    macro_rules! files {
        ($($name:literal),+ $(,)?) => {
            [$(($name, include_str!(concat!("../ifaces/", $name)))),+]
        };
    }
    Source::texts(files![
        "conform.base-1.0-iface.json",
        "conform.bidi-1.0-iface.json",
        "conform.bin-1.0-iface.json",
        "conform.derived-1.1-iface.json",
        "conform.events-1.0-iface.json",
        "conform.main-1.2-iface.json",
        "conform.secret-1.0-iface.json",
        "conform.secure-1.0-iface.json",
        "conform.signed-1.0-iface.json",
        "conform.types-1.0-iface.json",
    ])
}

/// A function of one step.
fn template(
    step: impl Fn(&mut asyncsteps_core::AsyncSteps) -> StepResult + Send + Sync + 'static,
) -> Template {
    Template::build(|asi| {
        asi.add(move |asi, ()| step(asi));
    })
}

/// A function that always answers the same.
fn replies(result: impl Serialize + Send + Sync + 'static) -> Template {
    template(move |asi| asi.reply(&result))
}

fn derived(functions: &mut Functions) {
    let hello = template(|asi| {
        let name: String = asi.param("name")?;
        if name == "nobody" {
            return asi.error("NameError", "No such name");
        }
        let result = asi.request_mut()?.result_mut();
        result.insert("greeting".into(), format!("Hello, {name}").into());
        // a caller of conform.base:1.0:hello knows nothing of it
        let lang: String = asi.param("lang")?;
        asi.success((json!({ "lang": lang }),))
    });
    functions.add("hello", &hello).add("bye", &replies("Bye"));
}

fn secret(functions: &mut Functions) {
    let whoami = template(|asi| {
        let info = asi.request()?;
        let (user, level) = (info.user(), info.level());
        let lid = user.map(|user| user.local_id().to_owned());
        let gid = user.map(|user| user.global_id().to_owned());
        asi.reply(json!({ "lid": lid, "gid": gid, "seclvl": level.name() }))
    });
    functions.add("whoami", &whoami).add("priv", &replies(json!({ "ok": true })));
}

fn sum(asi: &mut asyncsteps_core::AsyncSteps) -> StepResult {
    let (a, b): (i64, i64) = (asi.param("a")?, asi.param("b")?);
    let seclvl = asi.request()?.level().name();
    asi.reply(json!({ "sum": a + b, "seclvl": seclvl }))
}

fn reverse(asi: &mut asyncsteps_core::AsyncSteps) -> StepResult {
    let Data(mut blob) = asi.param("blob")?;
    blob.reverse();
    let len = blob.len();
    asi.reply(json!({ "blob": Data(blob), "len": len }))
}
