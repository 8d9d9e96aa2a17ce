//! `conform.main`: parameters, results, errors, time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use asyncsteps_core::{AsyncSteps, StepResult, Template, codes};
use asyncsteps_executor::{Functions, RequestSteps};
use serde_json::json;

use super::{replies, template};

/// How much later `fail` fails when it is asked to.
const LATER: Duration = Duration::from_millis(5);

/// Gives the functions of `conform.main` but those that need a channel or raw data.
pub(super) fn define(functions: &mut Functions) {
    let echo = template(|asi| {
        let params = asi.request_mut()?.take_params();
        asi.reply(params)
    });
    let types = template(|asi| {
        let got = asi.request_mut()?.take_params();
        asi.reply(json!({ "got": got }))
    });
    functions
        .add("echo", &echo)
        .add("types", &types)
        .add("variant", &echo)
        .add("shortcut", &echo)
        .add("fail", &template(fail))
        .add("crash", &template(|_| panic!("a secret of the handler")))
        .add("priv", &replies(json!({ "ok": true })))
        .add("big", &template(big))
        .add("bigIn", &template(big_in))
        .add("answer", &replies(42))
        .add("zero", &replies(0))
        .add("nope", &replies(false))
        .add("blank", &replies(""))
        .add("words", &replies(["ab", "cd"]))
        .add("badResult", &template(bad_result));
    let last = Arc::new(AtomicI64::new(0));
    functions.add("notify", &notify(&last)).add("lastNotify", &last_notify(&last));
    let jobs = Arc::new(Jobs::default());
    let slow = jobs.slow();
    functions.add("slow", &slow).add("slowHeavy", &slow).add("stats", &jobs.stats());
}

fn fail(asi: &mut AsyncSteps) -> StepResult {
    let (code, later): (String, bool) = (asi.param("code")?, asi.param("later")?);
    let info = format!("Details of {code}");
    if !later {
        return asi.error(code, info);
    }
    asi.sleep(LATER);
    asi.add(move |asi, ()| asi.error(code, info));
    Ok(())
}

fn big(asi: &mut AsyncSteps) -> StepResult {
    let size: i64 = asi.param("size")?;
    asi.reply("x".repeat(usize::try_from(size).unwrap_or(0).min(MAX_BIG)))
}

/// More than any answer may have, so that a caller cannot ask for all memory.
const MAX_BIG: usize = 4 << 20;

fn big_in(asi: &mut AsyncSteps) -> StepResult {
    let data: String = asi.param("data")?;
    asi.reply(json!({ "len": data.encode_utf16().count() }))
}

fn bad_result(asi: &mut AsyncSteps) -> StepResult {
    match asi.param::<String>("kind")?.as_str() {
        "missing" => asi.reply(json!({})),
        "extra" => asi.reply(json!({ "a": 1, "b": 2 })),
        "type" => asi.reply(json!({ "a": "text" })),
        other => asi.error(codes::INVALID_REQUEST, other.to_owned()),
    }
}

fn notify(last: &Arc<AtomicI64>) -> Template {
    let last = Arc::clone(last);
    template(move |asi| {
        last.store(asi.param("v")?, Ordering::SeqCst);
        Ok(())
    })
}

fn last_notify(last: &Arc<AtomicI64>) -> Template {
    let last = Arc::clone(last);
    template(move |asi| asi.reply(json!({ "v": last.load(Ordering::SeqCst) })))
}

/// What became of the calls of `slow` and `slowHeavy`.
#[derive(Default)]
struct Jobs {
    started: AtomicI64,
    done: AtomicI64,
    cancelled: AtomicI64,
}

impl Jobs {
    fn slow(self: &Arc<Self>) -> Template {
        let jobs = Arc::clone(self);
        template(move |asi| {
            let ms: i64 = asi.param("ms")?;
            let (on_cancel, on_end) = (Arc::clone(&jobs), Arc::clone(&jobs));
            jobs.started.fetch_add(1, Ordering::SeqCst);
            asi.set_cancel(move |_| {
                on_cancel.cancelled.fetch_add(1, Ordering::SeqCst);
            });
            asi.sleep(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            asi.add(move |asi, ()| {
                on_end.done.fetch_add(1, Ordering::SeqCst);
                asi.reply(json!({ "waited": ms }))
            });
            Ok(())
        })
    }

    fn stats(self: &Arc<Self>) -> Template {
        let jobs = Arc::clone(self);
        template(move |asi| {
            let count = |counter: &AtomicI64| counter.load(Ordering::SeqCst);
            asi.reply(json!({
                "started": count(&jobs.started),
                "done": count(&jobs.done),
                "cancelled": count(&jobs.cancelled),
            }))
        })
    }
}
