//! Nodes that tell what happens to their requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use asyncsteps_actors::sync::{FencingToken, fences};
use asyncsteps_core::{AsyncSteps, Error, StepResult, Template};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::security::{
    Attempt, AuthOutcome, Credentials, Grant, Refusal, SecurityLevel, SecurityProvider, User,
};
use asyncsteps_executor::{Executor, IDEMPOTENCY_KEY, RequestSteps};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

/// The user and the password of a front, which may act for other users.
pub(crate) const FRONT: (&str, &str) = ("front", "secret");

/// Knows the front.
#[derive(Debug)]
struct KnowsFront;

impl SecurityProvider for KnowsFront {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let is_front = matches!(
            attempt.credentials(),
            Credentials::Password { user, password } if (&**user, password.expose()) == FRONT
        );
        let front = || Grant::new(User::new(FRONT.0, SecurityLevel::System));
        AuthOutcome::Known(is_front.then(front).ok_or_else(Refusal::credentials))
    }
}

/// A node and what its functions report.
pub(crate) struct Node {
    pub(crate) executor: Executor,
    events: mpsc::UnboundedReceiver<&'static str>,
    gate: Arc<Semaphore>,
}

impl Node {
    /// What happens next.
    pub(crate) async fn next_event(&mut self) -> &'static str {
        self.events.recv().await.expect("the functions are there")
    }

    /// Lets a call of `gate` through.
    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1);
    }
}

pub(crate) fn definition(file: &Value) -> Arc<Definition> {
    let (iface, version) = (file["iface"].as_str(), file["version"].as_str());
    let id = format!("{}:{}", iface.expect("a name"), version.expect("a version"));
    let name = format!("{}-iface.json", id.replace(':', "-"));
    let source = Source::texts([(name, file.to_string())]);
    Loader::new([source]).load(&id.parse().expect("a name")).expect("a definition")
}

/// A node that serves `test.node` in a version.
pub(crate) fn node(version: &str, name: &'static str) -> Node {
    let definition = definition(&json!({
        "iface": "test.node", "version": version, "ftn3rev": "1.9",
        "funcs": {
            "echo": {
                "params": { "text": "string" }, "result": "string",
                "maxreqsize": "4M", "maxrspsize": "4M",
            },
            "nothing": {},
            "fail": { "params": { "code": "string" }, "result": "string", "throws": ["Declared"] },
            "name": { "result": "string" },
            "place": { "params": { "key": "string" }, "result": "string" },
            "whoami": { "result": "string" },
            "fences": { "result": "string" },
            "beside": { "result": "any" },
            "wait": {},
            "gate": { "result": "string" },
            "key": { "result": "string" },
        },
        "requires": ["AllowAnonymous"],
    }));
    let (tell, events) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let executor = Executor::builder().security(KnowsFront).interface(definition, |functions| {
        let (of_wait, of_gate) = (tell.clone(), tell);
        let opened = Arc::clone(&gate);
        functions
            .add(
                "echo",
                &one_step(|asi| {
                    let text: String = asi.param("text")?;
                    asi.reply(text)
                }),
            )
            .add("nothing", &one_step(|_| Ok(())))
            .add(
                "fail",
                &one_step(|asi| {
                    let code: String = asi.param("code")?;
                    Err(Error::with_info(code, "why").into())
                }),
            )
            .add("name", &one_step(move |asi| asi.reply(name)))
            .add(
                "key",
                &one_step(|asi| {
                    let key = asi.request()?.header(IDEMPOTENCY_KEY).unwrap_or("none").to_owned();
                    asi.reply(key)
                }),
            )
            .add("place", &one_step(move |asi| asi.reply(name)))
            .add(
                "fences",
                &one_step(|asi| {
                    let tokens: Vec<String> =
                        fences(asi).iter().map(FencingToken::to_string).collect();
                    asi.reply(tokens.join(" "))
                }),
            )
            .add(
                "whoami",
                &one_step(|asi| {
                    let request = asi.request()?.handle();
                    let user = request.user().map_or("-", |user| user.local_id()).to_owned();
                    asi.reply(format!("{user} {}", request.level().name()))
                }),
            )
            .add(
                "beside",
                &one_step(|asi| {
                    let request = asi.request()?;
                    let trace = request.handle().trace().trace_id();
                    let uid = request.header("ftn-uid").map(ToOwned::to_owned);
                    let names = ["tracestate", "baggage"].into_iter();
                    let carried = names.filter_map(|name| Some((name, request.header(name)?)));
                    let carried: BTreeMap<_, _> = carried.collect();
                    let beside = json!({ "trace": trace, "uid": uid, "carried": carried });
                    asi.reply(beside)
                }),
            )
            .add(
                "wait",
                &one_step(move |asi| {
                    // a function of a node that was dropped tells nobody
                    let _ = of_wait.send("wait begins");
                    let of_cancel = of_wait.clone();
                    asi.set_cancel(move |_| {
                        let _ = of_cancel.send("wait is cancelled");
                    });
                    asi.wait_only();
                    Ok(())
                }),
            )
            .add(
                "gate",
                &one_step(move |asi| {
                    let _ = of_gate.send("gate begins");
                    let opened = Arc::clone(&opened);
                    asi.await_(async move {
                        let closed = |error| Error::caused_by("InternalError", error);
                        opened.acquire().await.map_err(closed)?.forget();
                        Ok::<_, Error>(())
                    });
                    asi.add(|asi, ()| asi.reply("through"));
                    Ok(())
                }),
            );
    });
    Node { executor: executor.build().expect("an executor"), events, gate }
}

fn one_step(
    body: impl Fn(&mut AsyncSteps) -> StepResult + Clone + Send + Sync + 'static,
) -> Template {
    Template::build(move |asi| {
        let body = body.clone();
        asi.add(move |asi, ()| body(asi));
    })
}
