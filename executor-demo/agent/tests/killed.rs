//! The agent as those who ask it meet it: the program, which is killed while it works, and a world that stands for a model
//! and its tools.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{env, fs, process, thread};

use asyncsteps::http::{self, Server};
use asyncsteps::typed::Interface;
use asyncsteps::{BodyResult, Cx, Executor, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

type TestResult = Result<(), Box<dyn Error>>;

/// What the model was asked and what the tools did, by the keys of steps, in order.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(&'static str, String)>>>);

impl Service for World {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Complete {
    talk: Vec<String>,
    key: String,
}

#[derive(Serialize, JsonSchema)]
struct Turn {
    text: String,
    tool: String,
}

#[derive(Deserialize, JsonSchema)]
struct Use {
    tool: String,
    key: String,
}

#[derive(Deserialize, JsonSchema)]
struct Undo {
    key: String,
}

impl World {
    fn log(&self) -> MutexGuard<'_, Vec<(&'static str, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self, of: &str) -> Vec<String> {
        self.log().iter().filter(|(what, _)| *what == of).map(|(_, key)| key.clone()).collect()
    }

    /// Books a room in five towns, and has answered then; asked for more, it has one more town each time.
    async fn complete(cx: &Cx<Self, Complete>) -> BodyResult<Turn> {
        cx.log().push(("model", cx.params.key.clone()));
        let (towns, talk) = (cx.params.talk.len(), cx.params.talk.concat());
        let has_all = towns > 5 && !talk.contains("all towns");
        let tool = if has_all { String::new() } else { format!("book town {towns}") };
        Ok(Turn { text: format!("after {} words", talk.split(' ').count()), tool })
    }

    async fn apply(cx: &Cx<Self, Use>) -> BodyResult<String> {
        cx.log().push(("use", cx.params.key.clone()));
        Ok(format!("done: {}", cx.params.tool))
    }

    async fn undo(cx: &Cx<Self, Undo>) -> BodyResult<()> {
        cx.log().push(("undo", cx.params.key.clone()));
        Ok(())
    }

    /// Serves it; returns where.
    fn serve(&self) -> Result<String, Box<dyn Error>> {
        let mut interface = Interface::new("acme.world:1.0".parse()?);
        interface.allow_anonymous();
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            functions.on("complete", Self::complete).on("use", Self::apply).on("undo", Self::undo);
        });
        let executor = executor.build()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/ftn/", listener.local_addr()?);
        thread::spawn(move || {
            actix_rt::System::new().block_on(async {
                let server = Server::new(http::service("/ftn/", executor)).listen(listener)?;
                server.run().await
            })
        });
        Ok(url)
    }
}

/// The program while it runs.
struct Agent(Child, String);

impl Agent {
    fn start(journal: &Path, world: &str) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command.args(["127.0.0.1:0".as_ref(), journal.as_os_str(), world.as_ref()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("its output is read here")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").and_then(|it| it.strip_suffix('/'));
        Ok(Self(child, address.ok_or(line.as_str())?.to_owned()))
    }

    /// Asks it, and reads up to so many events behind this one: the number of each, and what it says; 0 for the end.
    fn ask(
        &self,
        question: &str,
        (last, most): (u64, usize),
    ) -> Result<Vec<(u64, Value)>, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.1)?;
        let body = json!({ "question": question }).to_string();
        write!(
            stream,
            "POST /ftn/acme.agent/1.0/ask HTTP/1.1\r\nhost: agent\r\ncontent-type: application/json\r\naccept: \
             text/event-stream\r\nidempotency-key: {}\r\nlast-event-id: {last}\r\ncontent-length: {}\r\n\r\n{body}",
            question.replace(' ', "-"),
            body.len()
        )?;
        let (mut events, mut number) = (Vec::new(), 0);
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if let Some(id) = line.strip_prefix("id: ") {
                number = id.parse()?;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                events.push((number, serde_json::from_str(data)?));
                if number == 0 || events.len() == most {
                    break;
                }
                number = 0;
            }
        }
        Ok(events)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill(); // as kill -9 does
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_that_is_killed_goes_on_where_it_was() -> TestResult {
    let world = World::default();
    let url = world.serve()?;
    let folder = env::temp_dir().join(format!("agent-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let journal = folder.join("journal");
    // killed behind each of its events in turn, it is asked with the key that it was asked with before
    let (mut events, question) = (BTreeMap::new(), "rooms in five towns");
    let answer = loop {
        let agent = Agent::start(&journal, &url)?;
        let last = events.last_key_value().map_or(0, |(number, _)| *number);
        let mut read = agent.ask(question, (last, 1))?;
        let (number, event) = read.pop().ok_or("an event or the end")?;
        if number == 0 {
            break event;
        }
        assert!(events.insert(number, event).is_none(), "{number} comes once");
    };
    assert_eq!(answer, json!({ "r": "after 19 words" }));
    assert!(
        events.keys().copied().eq(1..=11),
        "six turns of the model and five of tools: {events:?}"
    );
    for (what, count) in [("model", 6), ("use", 5), ("undo", 0)] {
        let mut keys = world.keys(what);
        keys.sort();
        keys.dedup(); // a call that was cut is repeated with its key
        assert_eq!(keys.len(), count, "{what}: {:?}", world.log());
    }

    // one that comes to no end returns everything, the last thing first
    let agent = Agent::start(&journal, &url)?;
    let failed = agent.ask("rooms in all towns", (0, usize::MAX))?;
    assert_eq!(failed.last().map(|(_, error)| &error["e"]), Some(&json!("InternalError")));
    let (used, mut undone) = (world.keys("use"), world.keys("undo"));
    undone.reverse();
    assert_eq!(undone.len(), 20, "{undone:?}");
    assert!(used.ends_with(&undone), "{used:?} {undone:?}");
    fs::remove_dir_all(&folder)?;
    Ok(())
}
