//! The command that submits durable requests and looks at them.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args, Subcommand};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::jobs_server::{JobsServer, object, time};
use crate::printable::one_line;
use crate::schedules::ScheduleCommand;

/// How long an answer may take beyond the time that a result is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Submit durable requests, and look at them.
#[derive(Clone, Debug, Args)]
pub struct JobsOptions {
    /// The end point of a server: http://127.0.0.1:8080/ftn/, or ws:// for WebSocket.
    #[arg(value_name = "URL")]
    url: String,

    #[command(subcommand)]
    command: JobsCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum JobsCommand {
    /// Store a request and print its uid: it runs to an end from then on.
    Submit {
        /// The function, with interface and version: demo.shop:1.0:order.
        function: String,

        /// The parameters, as JSON.
        #[arg(default_value = "{}")]
        params: String,

        /// The same key again returns the first request instead of a second one.
        #[arg(long)]
        key: Option<String>,

        /// What it does if an earlier request has the key: return, rerun_failed or reject.
        #[arg(long)]
        policy: Option<String>,

        /// Names by which it is listed.
        #[arg(long = "tag")]
        tags: Vec<String>,
    },
    /// Print the status of a request.
    Status {
        /// The uid of the request.
        uid: String,
    },
    /// Print how a request ended; fail if it failed, or has not ended in time.
    Result {
        /// The uid of the request.
        uid: String,

        /// Seconds that it may take; less if the server limits requests to less.
        #[arg(long, value_name = "SECONDS", default_value_t = 5)]
        wait: u32,
    },
    /// Cancel a request: its steps are undone.
    Cancel {
        /// The uid of the request.
        uid: String,
    },
    /// Send a signal to a request, for the step that waits for it now or later.
    Signal {
        /// The uid of the request.
        uid: String,

        /// The name by which the step waits.
        name: String,

        /// The value for the step, as JSON.
        #[arg(default_value = "null")]
        value: String,

        /// The same id again is the same signal: 32 hexadecimal digits.
        #[arg(long)]
        id: Option<String>,
    },
    /// Print requests, the oldest first.
    List {
        /// Only those in this state: new, ready, running, parked, suspect, paused, dead or ended.
        #[arg(long)]
        state: Option<String>,

        /// Only requests to this function.
        #[arg(long)]
        function: Option<String>,

        /// Only requests of the user with this local id.
        #[arg(long)]
        user: Option<String>,

        /// Only requests with this key of a caller.
        #[arg(long)]
        key: Option<String>,

        /// Only requests with this tag.
        #[arg(long)]
        tag: Option<String>,

        /// Only those that were submitted at this time or after it: 2026-11-26T20:00:00Z.
        #[arg(long, value_name = "TIME")]
        from: Option<Timestamp>,

        /// Only those that were submitted before this time.
        #[arg(long, value_name = "TIME")]
        before: Option<Timestamp>,

        /// The entities as well.
        #[arg(long)]
        entities: bool,
    },
    /// Print the requests that wait for an operator.
    Dead,
    /// Pause a request: its bodies are dropped where they wait, nothing is undone, and it waits to be resumed.
    Pause {
        /// The uid of the request.
        uid: String,
    },
    /// Let a request go on that waits for an operator.
    Resume {
        /// The uid of the request.
        uid: String,

        /// Begin anew instead of where it was. Refused if the request did anything that is not undone:
        /// cancel it then, which undoes, and submit it again.
        #[arg(long)]
        again: bool,
    },
    /// Decide about a step that a paused request has begun, and let the request go on.
    Settle {
        /// The uid of the request.
        uid: String,

        /// The path of the step, as the reason of the pause names it.
        path: String,

        /// kept: its effect stays; undone: it is undone already; result: it ended with the JSON behind it.
        #[arg(value_parser = ["kept", "undone", "result"])]
        how: String,

        /// The result of the step, as JSON.
        #[arg(required_if_eq("how", "result"))]
        result: Option<String>,

        /// For what reason; it is recorded with the name of the operator.
        #[arg(long)]
        why: Option<String>,
    },
    /// Have the program undo a step that a paused request has begun, out of turn, and let the request go on.
    Undo {
        /// The uid of the request.
        uid: String,

        /// The path of the step, as the reason of the pause names it.
        path: String,

        /// For what reason; it is recorded with the name of the operator.
        #[arg(long)]
        why: Option<String>,
    },
    #[command(flatten)]
    OfSchedules(ScheduleCommand),
    /// Remove what is recorded about a user or under a key, of requests that have ended; print what is left.
    #[command(group(ArgGroup::new("whose").required(true)))]
    Erase {
        /// The local id of the user.
        #[arg(long, group = "whose")]
        user: Option<String>,

        /// The key of a caller.
        #[arg(long, group = "whose")]
        key: Option<String>,
    },
}

impl JobsOptions {
    /// Carries out the command; returns the text to print.
    ///
    /// # Errors
    /// If the server says no or does not answer, or if a request has failed.
    pub async fn run(&self) -> anyhow::Result<String> {
        let wait = if let JobsCommand::Result { wait, .. } = self.command { wait } else { 0 };
        let patience = PATIENCE + Duration::from_secs(wait.into());
        let server = JobsServer::new(&self.url, patience)?;
        match &self.command {
            JobsCommand::Submit { function, params, key, policy, tags } => {
                let params = object(params)?;
                let submission = json!({
                    "function": function, "params": params, "key": key, "policy": policy, "tags": tags,
                });
                server.submit(submission).await
            }
            JobsCommand::Status { uid } => {
                let status = server.call("status", json!({ "uid": uid })).await?;
                Ok(format!("{status:#}"))
            }
            JobsCommand::Result { uid, wait } => server.result(uid, *wait).await,
            JobsCommand::Cancel { uid } => {
                match server.call("cancel", json!({ "uid": uid })).await?.as_str() {
                    Some("requested") => Ok(format!("{uid} is being cancelled")),
                    _ => bail!("too late: {uid} has ended, or is committed; its result says how"),
                }
            }
            JobsCommand::Signal { uid, name, value, id } => {
                let value: Value = serde_json::from_str(value)
                    .with_context(|| format!("the value is no JSON: {value}"))?;
                let signal = json!({ "uid": uid, "name": name, "value": value, "id": id });
                server.call("signal", signal).await?;
                Ok(format!("{uid} has the signal {name}"))
            }
            JobsCommand::List { state, function, user, key, tag, from, before, entities } => {
                let [from, before] = [from, before].map(|time| time.map(Timestamp::as_millisecond));
                let which = json!({
                    "state": state, "function": function, "user": user, "key": key, "tag": tag,
                    "from": from, "before": before, "entities": entities,
                });
                Ok(JobTable(server.list("list", which).await?).to_string())
            }
            JobsCommand::Dead => {
                Ok(JobTable(server.list("deadLetters", json!({})).await?).to_string())
            }
            JobsCommand::Pause { uid } => server.pause(uid).await,
            JobsCommand::Resume { uid, again } => server.resume(uid, *again).await,
            JobsCommand::Settle { uid, path, how, result, why } => {
                let settled = json!({
                    "uid": uid, "path": path, "how": how, "result": result, "why": why,
                });
                server.call("settle", settled).await?;
                Ok(format!("{path} is settled: {uid} goes on"))
            }
            JobsCommand::Undo { uid, path, why } => {
                server.call("undo", json!({ "uid": uid, "path": path, "why": why })).await?;
                Ok(format!("{path} is to be undone: {uid} goes on"))
            }
            JobsCommand::Erase { user, key } => {
                server.erase(json!({ "user": user, "key": key })).await
            }
            JobsCommand::OfSchedules(command) => command.run(&server).await,
        }
    }
}

#[derive(Deserialize)]
struct EndedJob {
    state: String,
    result: Value,
    error: String,
    text: String,
}

#[derive(Deserialize)]
struct JobsPage {
    jobs: Vec<JobRow>,
    next: u64,
}

#[derive(Deserialize)]
struct JobRow {
    uid: String,
    function: String,
    state: String,
    created: f64,
    due: Option<f64>,
    ended: Option<f64>,
    outcome: Option<String>,
    user: Option<String>,
    key: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ErasedJobs {
    removed: u64,
    schedules: Vec<String>,
    unread: Vec<String>,
    open: u64,
    uids: Vec<String>,
}

impl JobsServer {
    async fn pause(&self, uid: &str) -> anyhow::Result<String> {
        self.call("pause", json!({ "uid": uid })).await?;
        Ok(format!("{uid} is being paused"))
    }

    async fn resume(&self, uid: &str, again: bool) -> anyhow::Result<String> {
        let how = if again { "again" } else { "continue" };
        self.call("resume", json!({ "uid": uid, "how": how })).await?;
        Ok(format!("{uid} goes on"))
    }

    async fn submit(&self, submission: Value) -> anyhow::Result<String> {
        let submitted = self.call("submit", submission).await?;
        let uid = submitted["uid"].as_str().context("the server gives no uid")?;
        Ok(uid.to_owned())
    }

    async fn result(&self, uid: &str, wait: u32) -> anyhow::Result<String> {
        let asked = json!({ "uid": uid, "wait": f64::from(wait) * 1000.0 });
        let ended: EndedJob = serde_json::from_value(self.call("result", asked).await?)?;
        match (&*ended.error, &*ended.text) {
            _ if ended.state != "ended" => bail!("{uid} has not ended: {}", ended.state),
            ("", _) => Ok(ended.result.to_string()),
            (code, "") => bail!("{code}"),
            (code, text) => bail!("{code}: {text}"),
        }
    }

    async fn erase(&self, whose: Value) -> anyhow::Result<String> {
        let erased: ErasedJobs = serde_json::from_value(self.call("erase", whose).await?)?;
        Ok(erased.to_string())
    }

    /// All pages of a list.
    async fn list(&self, function: &str, mut which: Value) -> anyhow::Result<Vec<JobRow>> {
        let (mut jobs, mut after) = (Vec::new(), 0);
        loop {
            let page: JobsPage = serde_json::from_value(self.call(function, which.clone()).await?)?;
            jobs.extend(page.jobs);
            match page_after(after, page.next)? {
                Some(next) => after = next,
                None => return Ok(jobs),
            }
            which["after"] = after.into();
        }
    }
}

impl JobRow {
    /// How it is or ended, until when it waits, whose it is, and why it waits.
    fn text(&self) -> String {
        let Self { state, created, due, ended, outcome, user, key, reason, .. } = self;
        let outcome = outcome.iter().map(|outcome| format!(": {outcome}"));
        let took = ended.map(|ended| format!(" in {} s", (ended - created) / 1000.0));
        let due = due.and_then(time).map(|due| format!(" until {due}"));
        let user = user.iter().map(|user| format!(", for {user}"));
        let key = key.iter().map(|key| format!(", key {key}"));
        let reason = reason.iter().map(|reason| format!(": {reason}"));
        let parts = outcome.chain(took).chain(due).chain(user).chain(key).chain(reason);
        std::iter::once(state.clone()).chain(parts).collect()
    }
}

/// Where the next page begins, behind one that began after a number; `None` if that was the last one.
fn page_after(after: u64, next: u64) -> anyhow::Result<Option<u64>> {
    match next {
        0 => Ok(None),
        next if next > after => Ok(Some(next)),
        next => {
            bail!("the server sends its pages again: after {after} it says that {next} is next")
        }
    }
}

/// Jobs as a table.
struct JobTable(Vec<JobRow>);

impl fmt::Display for JobTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions = self.0.iter().map(|job| job.function.len());
        let width = functions.max().unwrap_or_default().max("FUNCTION".len());
        write!(f, "{:32}  {:width$}  STATE", "UID", "FUNCTION")?;
        for job in &self.0 {
            // one line each
            let [uid, function, text] =
                [&job.uid, &job.function, &job.text()].map(|it| one_line(it));
            write!(f, "\n{uid}  {function:width$}  {text}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ErasedJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "requests removed: {}, not ended: {}", self.removed, self.open)?;
        // one line each
        for name in &self.schedules {
            write!(f, "\nremoved schedule: {}", one_line(name))?;
        }
        for name in &self.unread {
            write!(f, "\nschedule that cannot be opened: {}", one_line(name))?;
        }
        for uid in &self.uids {
            write!(f, "\nnot ended: {}", one_line(uid))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ErasedJobs, JobRow, JobTable, object, page_after};

    #[test]
    fn pages_that_do_not_go_on_end_the_list() {
        assert_eq!(page_after(0, 0).expect("the last page"), None);
        assert_eq!(page_after(4, 5).expect("another page"), Some(5));
        for next in [1, 5] {
            let error = page_after(5, next).expect_err("it would not end").to_string();
            assert!(error.contains(&format!("after 5 it says that {next} is next")), "{error}");
        }
    }

    #[test]
    fn a_job_is_a_line_of_what_can_be_shown() {
        let job = JobRow {
            uid: "1\n2".to_owned(),
            function: "f\u{202e}".to_owned(),
            state: "dead\r".to_owned(),
            created: 1_000.0,
            due: None,
            ended: None,
            outcome: None,
            user: None,
            key: None,
            reason: Some("\u{1b}[31m\nred".to_owned()),
        };
        let shown = JobTable(vec![job]).to_string();
        let line = "1\\n2  f\\u{202e}  dead\\r: \\u{1b}[31m\\nred";
        assert_eq!(shown.lines().skip(1).collect::<Vec<_>>(), [line]);
    }

    #[test]
    fn a_job_says_how_it_ended_and_until_when_it_waits() {
        let job = |more| {
            let mut job = json!({ "uid": "1", "function": "f", "created": 1_000.0 });
            job.as_object_mut().expect("an object").append(&mut object(more).expect("JSON"));
            serde_json::from_value::<JobRow>(job).expect("a job").text()
        };
        let ended =
            r#"{"state":"ended","ended":4400.0,"outcome":"Declined","user":"ann","key":"k"}"#;
        assert_eq!(job(ended), "ended: Declined in 3.4 s, for ann, key k");
        let parked = r#"{"state":"parked","due":86400000.0,"reason":"the bank is away"}"#;
        assert_eq!(job(parked), "parked until 1970-01-02T00:00:00Z: the bank is away");
        assert_eq!(job(r#"{"state":"running"}"#), "running");
    }

    #[test]
    fn what_was_erased_and_what_is_left_are_lines() {
        let erased = ErasedJobs {
            removed: 2,
            schedules: vec!["nightly\n".to_owned()],
            unread: vec!["yearly\t".to_owned()],
            open: 1,
            uids: vec!["7\r".to_owned()],
        };
        let lines = [
            "requests removed: 2, not ended: 1",
            "removed schedule: nightly\\n",
            "schedule that cannot be opened: yearly\\t",
            "not ended: 7\\r",
        ];
        assert_eq!(erased.to_string().lines().collect::<Vec<_>>(), lines);
    }
}
