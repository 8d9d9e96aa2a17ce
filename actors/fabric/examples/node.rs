//! Nodes that share calls, and calls of them.
//!
//! ```text
//! nats-server &
//! cargo run --example node -- serve nats://127.0.0.1:4222 one &
//! cargo run --example node -- serve nats://127.0.0.1:4222 two &
//! cargo run --example node -- call nats://127.0.0.1:4222 demo.node:1.0:name '{}'
//! ```
//!
//! A node that gets Ctrl-C, SIGTERM or an order to drain takes no more calls, finishes those under way, and
//! ends.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is what it is for")]

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use actix_rt::signal::unix::{SignalKind, signal};
use asyncsteps_core::Template;
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::{Executor, RequestSteps};
use asyncsteps_fabric::nats::{Config, NatsFabric};
use asyncsteps_fabric::{Call, Endpoint, Fabric};
use serde_json::{Value, json};

/// How long calls may take to finish when the node ends.
const GRACE: Duration = Duration::from_secs(10);

const USAGE: &str = "node serve URL NAME [MINOR] | node call URL FUNCTION PARAMS";

#[actix::main]
async fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(|arg| &**arg).collect();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &[&str]) -> Result<(), Box<dyn Error>> {
    match *args {
        ["serve", url, name] => serve(url, name, "0").await,
        ["serve", url, name, minor] => serve(url, name, minor).await,
        ["call", url, function, params] => call(url, function, params).await,
        _ => Err(USAGE.into()),
    }
}

async fn serve(url: &str, name: &str, minor: &str) -> Result<(), Box<dyn Error>> {
    let executor = executor(name, minor)?;
    let fabric = NatsFabric::connect(Config::new(url).node(name.parse()?)).await?;
    let guard = fabric.serve(Endpoint::all(&executor), executor.clone()).await?;
    println!("{name} serves");
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = actix_rt::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
        () = fabric.drain_ordered() => {}
    }
    guard.drain(GRACE).await;
    executor.close(GRACE).await;
    fabric.close().await;
    Ok(())
}

async fn call(url: &str, function: &str, params: &str) -> Result<(), Box<dyn Error>> {
    let fabric = NatsFabric::connect(Config::new(url)).await?;
    let params: Value = serde_json::from_str(params)?;
    let response = fabric.call(Call::new(function, params)?).await?;
    println!("{}", response.into_value());
    Ok(())
}

fn executor(name: &str, minor: &str) -> Result<Executor, Box<dyn Error>> {
    let name: Arc<str> = name.into();
    let to_pause = Arc::clone(&name);
    let tell = Template::build(move |asi| {
        let name = Arc::clone(&name);
        asi.add(move |asi, ()| asi.reply(&*name));
    });
    let pause = Template::build(move |asi| {
        let name = Arc::clone(&to_pause);
        asi.add(|asi, ()| {
            let millis: u64 = asi.param("millis")?;
            asi.sleep(Duration::from_millis(millis));
            Ok(())
        });
        asi.add(move |asi, ()| asi.reply(&*name));
    });
    let executor = Executor::builder().interface(interface(minor)?, |functions| {
        functions.add("name", &tell).add("pause", &pause);
    });
    Ok(executor.build()?)
}

/// What the nodes serve.
fn interface(minor: &str) -> Result<Arc<Definition>, Box<dyn Error>> {
    let version = format!("1.{minor}");
    let definition = json!({
        "iface": "demo.node", "version": version, "ftn3rev": "1.9",
        "funcs": {
            "name": { "result": "string" },
            "pause": { "params": { "millis": "integer" }, "result": "string" },
        },
        "requires": ["AllowAnonymous"],
    });
    let file = format!("demo.node-{version}-iface.json");
    let source = Source::texts([(file, definition.to_string())]);
    Ok(Loader::new([source]).load(&format!("demo.node:{version}").parse()?)?)
}
