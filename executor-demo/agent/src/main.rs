//! An agent that survives its process. A language model says what comes next, tools do it, and each step of both is
//! recorded: killed at any moment, it goes on where it was without asking the model again. An agent that fails or is
//! cancelled returns what its tools have taken, the last thing first. Who asks it sees each step as it comes.
//!
//! Model and tools are functions of `acme.world:1.0` at a URL. Each call has the key of its step, so that the other side
//! carries it out once.

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps::durable::Durable;
use asyncsteps::fabric::Client;
use asyncsteps::fabric::http::{Config, HttpFabric, Remote};
use asyncsteps::http::{self, Server};
use asyncsteps::journal::sqlite::{self, Sqlite};
use asyncsteps::typed::Interface;
use asyncsteps::{
    BodyResult, Cx, Emits, Executor, Retry, Returns, Service, Steps, TypedCall, observe,
};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tower::service_fn;

/// How often the model may be asked for one question.
const TURNS: usize = 20;

#[derive(Deserialize, JsonSchema)]
struct Ask {
    question: String,
}

/// What who asks sees meanwhile.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Progress {
    /// What the model or the tool says.
    text: String,
    /// The tool; empty for the model.
    tool: String,
}

impl Emits for Ask {
    type Event = Progress;
}

/// What was said so far, the question first.
type Talk = Vec<String>;

/// What the model says.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Turn {
    text: String,
    /// The tool that is to be used next; empty if the text is the answer.
    tool: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Complete {
    talk: Talk,
    key: String,
}

impl TypedCall for Complete {
    type Result = Turn;
    type Errors = Infallible;
    const FUNCTION: &'static str = "acme.world:1.0:complete";
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Use {
    tool: String,
    key: String,
}

impl TypedCall for Use {
    type Result = String;
    type Errors = Infallible;
    const FUNCTION: &'static str = "acme.world:1.0:use";
}

/// Takes back what a tool has done under this key, if it has done anything.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Undo {
    key: String,
}

impl TypedCall for Undo {
    type Result = ();
    type Errors = Infallible;
    const FUNCTION: &'static str = "acme.world:1.0:undo";
}

struct Agent;

impl Service for Agent {
    type Errors = ();
}

impl Agent {
    fn ask(steps: &Steps<Self, Ask>) -> Returns<String> {
        steps
            .run("begin", async |cx, ()| Ok(vec![cx.params.question.clone()]))
            .repeatable()
            .then_repeat("turns", |turn| {
                turn.run("model", Self::complete)
                    .recorded()
                    .timeout(Duration::from_secs(60)) // each attempt
                    .retry(Retry::attempts(5).backoff(Duration::from_secs(1)))
                    .then("tool", Self::apply)
                    .recorded()
                    .retry(Retry::attempts(5).backoff(Duration::from_secs(1)))
                    .undo(async |cx, _| {
                        let undo = Undo { key: cx.key().to_owned() };
                        Ok(cx.request().client().call(undo).await?)
                    })
                    .then("next", async |_, (talk, answer): (Talk, Option<String>)| {
                        Ok(answer.map_or(ControlFlow::Continue(talk), ControlFlow::Break))
                    })
                    .repeatable()
            })
            .recorded_with_input()
            .returns()
    }

    /// The model says what comes next.
    async fn complete(cx: &Cx<Self, Ask>, talk: Talk) -> BodyResult<(Talk, Turn)> {
        if talk.len() > TURNS {
            return Err("the model does not come to an end".into());
        }
        let complete = Complete { talk: talk.clone(), key: cx.key().to_owned() };
        let turn = cx.request().client().call(complete).await?;
        cx.emit(&Progress { text: turn.text.clone(), tool: String::new() }).await?;
        Ok((talk, turn))
    }

    /// A tool does it. Without one the model has answered.
    async fn apply(
        cx: &Cx<Self, Ask>,
        (mut talk, Turn { text, tool }): (Talk, Turn),
    ) -> BodyResult<(Talk, Option<String>)> {
        if tool.is_empty() {
            return Ok((talk, Some(text)));
        }
        let apply = Use { tool: tool.clone(), key: cx.key().to_owned() };
        let said = cx.request().client().call(apply).await?;
        cx.emit(&Progress { text: said.clone(), tool }).await?;
        talk.push(said);
        Ok((talk, None))
    }
}

/// The page on which an agent is asked.
async fn page<B>(_: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(include_str!("page.html"))))
}

#[actix_rt::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let _log = observe::init()?;
    let mut arguments = env::args().skip(1);
    let mut argument = |or: &str| arguments.next().unwrap_or(or.to_owned());
    let listener = TcpListener::bind(argument("127.0.0.1:8080"))?;
    let durable =
        Durable::new(Sqlite::open(argument("agent.journal"), sqlite::Options::new("agent 1.0"))?);
    let services = HttpFabric::new(Config::new())?;
    services
        .register("acme.world:1.0".parse()?, Remote::new(argument("http://127.0.0.1:8081/ftn/")))?;
    let mut interface = Interface::new("acme.agent:1.0".parse()?);
    interface.allow_anonymous();
    let executor = Executor::builder()
        .invoker(Client::new(Arc::new(services)))
        .service(interface, Agent, |functions| _ = durable.on(functions, "ask", Agent::ask))
        .build()?;
    let node = durable.start(&executor).await?;
    println!("http://{}/", listener.local_addr()?);
    let server = Server::new(http::service("/ftn/", executor)).page("/", service_fn(page));
    server.listen(listener)?.run().await?;
    node.stop().await;
    Ok(())
}
