//! The interfaces under `tests/ifaces`, implemented as their descriptions say, as far as the
//! executor has what they need.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use asyncsteps::{StepResult, Template, codes};
use asyncsteps_actors::executor::{Executor, ExecutorHandle, Functions, RequestSteps, builtin};
use asyncsteps_actors::iface::{Definition, Loader, Source};
use serde::Serialize;
use serde_json::json;

/// An executor with all of them.
#[must_use]
pub fn executor() -> ExecutorHandle {
    let mut loader = loader();
    let mut load =
        |id: &str| loader.load(&id.parse().expect("a name")).expect("a definition under ifaces");
    let hello = hello();
    Executor::builder()
        .interface(load("conform.main:1.2"), main)
        .interface(load("conform.derived:1.1"), |functions| {
            functions.add("hello", &hello).add("bye", &replies("bye"));
        })
        .interface(load("conform.secret:1.0"), |functions| {
            functions.add("priv", &replies(json!({ "ok": true })));
        })
        .interface(load("conform.secure:1.0"), |functions| {
            functions.add("hello", &replies("hello"));
        })
        .interface(load("conform.signed:1.0"), |functions| {
            functions.add("sum", &replies(json!({ "sum": 3, "seclvl": "Info" })));
        })
        .interface(load("conform.bidi:1.0"), |functions| {
            functions.add("acks", &replies(json!({ "sum": 0 })));
        })
        .interface(load("futoin.anonping:1.0"), |functions| {
            functions.add("ping", &builtin::ping());
        })
        .build()
        .expect("the definitions have these functions")
}

/// The definition of one of them.
#[must_use]
pub fn definition(id: &str) -> Arc<Definition> {
    loader().load(&id.parse().expect("a name")).expect("a definition under ifaces")
}

fn loader() -> Loader {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../ifaces");
    Loader::new([Source::folder(folder)])
}

fn main(functions: &mut Functions) {
    let echo = Template::build(|asi| {
        asi.add(|asi, ()| {
            let params = asi.request()?.params().clone();
            asi.reply(params)
        });
    });
    let types = Template::build(|asi| {
        asi.add(|asi, ()| {
            let got = asi.request()?.params().clone();
            asi.reply(json!({ "got": got }))
        });
    });
    functions
        .add("echo", &echo)
        .add("types", &types)
        .add("variant", &echo)
        .add("shortcut", &echo)
        .add("fail", &fail())
        .add("crash", &crash())
        .add("big", &big())
        .add("bigIn", &big_in())
        .add("answer", &replies(42))
        .add("zero", &replies(0))
        .add("nope", &replies(false))
        .add("blank", &replies(""))
        .add("words", &replies(["ab", "cd"]))
        .add("badResult", &bad_result())
        .add("priv", &replies(json!({ "ok": true })));
    let last = Arc::new(AtomicI64::new(0));
    functions.add("notify", &notify(&last)).add("lastNotify", &last_notify(&last));
}

/// A function that always answers the same.
fn replies<T: Serialize + Send + Sync + 'static>(result: T) -> Template {
    Template::build(|asi| {
        asi.add(move |asi, ()| asi.reply(&result));
    })
}

fn hello() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let (name, lang): (String, String) = (asi.param("name")?, asi.param("lang")?);
            asi.reply(json!({ "greeting": format!("Hello, {name}"), "lang": lang }))
        });
    })
}

fn fail() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let (code, later): (String, bool) = (asi.param("code")?, asi.param("later")?);
            let info = format!("Details of {code}");
            if later {
                asi.relinquish();
                asi.add(move |asi, ()| asi.error(code, info));
                return Ok(());
            }
            asi.error(code, info)
        });
    })
}

fn crash() -> Template {
    Template::build(|asi| {
        asi.add(|_, ()| -> StepResult { panic!("a secret of the handler") });
    })
}

fn big() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let size = asi.param("size")?;
            asi.reply("x".repeat(size))
        });
    })
}

fn big_in() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let data: String = asi.param("data")?;
            asi.reply(json!({ "len": data.len() }))
        });
    })
}

fn bad_result() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| match asi.param::<String>("kind")?.as_str() {
            "missing" => asi.reply(json!({})),
            "extra" => asi.reply(json!({ "a": 1, "b": 2 })),
            "type" => asi.reply(json!({ "a": "text" })),
            other => asi.error(codes::INVALID_REQUEST, other.to_owned()),
        });
    })
}

fn notify(last: &Arc<AtomicI64>) -> Template {
    let last = Arc::clone(last);
    Template::build(|asi| {
        asi.add(move |asi, ()| {
            let v = asi.param("v")?;
            if v < 0 {
                return asi.error(codes::INVALID_REQUEST, "negative");
            }
            last.store(v, Ordering::Release);
            Ok(())
        });
    })
}

fn last_notify(last: &Arc<AtomicI64>) -> Template {
    let last = Arc::clone(last);
    Template::build(|asi| {
        asi.add(move |asi, ()| asi.reply(json!({ "v": last.load(Ordering::Acquire) })));
    })
}
