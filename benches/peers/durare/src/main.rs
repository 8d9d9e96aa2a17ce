//! Durable workflows of durare on SQLite, at its own setting (`synchronous=NORMAL`).
//!
//! `durare-peer FILE FLOWS STEPS`: for each line of the input, so many workflows run at the same time, each
//! with so many steps, and a line is printed when all have ended.

use std::env;
use std::io::{self, BufRead, Write};

use durare::{DurableContext, DurableEngine, Result, WorkflowOptions};

#[durare::step]
async fn receipt(_ctx: &DurableContext) -> Result<String> {
    Ok("a receipt".to_owned())
}

#[durare::workflow]
async fn order(ctx: DurableContext, steps: u32) -> Result<()> {
    for _ in 0..steps {
        receipt(&ctx).await?;
    }
    Ok(())
}

async fn orders(engine: &DurableEngine, flows: u32, steps: u32, round: u32) -> Result<()> {
    let mut handles = Vec::new();
    for flow in 0..flows {
        let options = WorkflowOptions::with_id(format!("{round}-{flow}"));
        handles.push(engine.start_with(Order, steps, options).await?);
    }
    for handle in handles {
        handle.await?;
    }
    Ok(())
}

async fn serve(file: &str, flows: u32, steps: u32) -> Result<()> {
    let engine = DurableEngine::connect(&format!("sqlite://{file}?mode=rwc")).await?.build().await?;
    for (round, _) in (0..).zip(io::stdin().lock().lines()) {
        orders(&engine, flows, steps, round).await?;
        println!("done");
        // whoever reads may have gone
        let _ = io::stdout().flush();
    }
    Ok(())
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let [file, flows, steps] = &args[..] else { panic!("durare-peer FILE FLOWS STEPS") };
    let number = |text: &str| text.parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(serve(file, number(flows), number(steps))).expect("durare works");
}
