//! The commands of `executor-demo jobs` about schedules.

use anyhow::{Context as _, bail};
use clap::Subcommand;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::jobs_server::{JobsServer, object, time};
use crate::printable::one_line;

/// A command about schedules.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Print the schedules, by name.
    Schedules,
    /// Store a schedule, in place of one of its name, and print when its next request begins.
    Schedule {
        /// The name of the schedule.
        name: String,

        /// The five fields of cron, as one argument, or @hourly, @daily, @weekly, @monthly, @yearly.
        cron: String,

        /// The function, with interface and version: demo.shop:1.0:order.
        function: String,

        /// The parameters, as JSON.
        #[arg(default_value = "{}")]
        params: String,

        /// The place whose time it is, such as Europe/Berlin; UTC unless given.
        #[arg(long)]
        time_zone: Option<String>,

        /// What happens at a time at which an earlier request has not ended.
        #[arg(long, value_parser = ["skip", "bufferOne", "allow"], default_value = "skip")]
        overlap: String,

        /// How many seconds late a request may begin because no node ran at its time.
        #[arg(long, value_name = "SECONDS")]
        catch_up: Option<u64>,

        /// By how many seconds each request may begin later than its time.
        #[arg(long, value_name = "SECONDS", default_value = "0")]
        jitter: u64,
    },
    /// Begin no requests of a schedule until it is resumed; the times that pass meanwhile are lost.
    PauseSchedule {
        /// The name of the schedule.
        name: String,
    },
    /// Let a schedule go on, from its next time.
    ResumeSchedule {
        /// The name of the schedule.
        name: String,
    },
    /// Begin a request of a schedule now, and print its uid.
    TriggerSchedule {
        /// The name of the schedule.
        name: String,
    },
    /// Begin the requests of a schedule that were lost in a range of times, and print the uids of all in the range.
    BackfillSchedule {
        /// The name of the schedule.
        name: String,

        /// The first time: 2026-11-26T20:00:00Z.
        from: Timestamp,

        /// The last time.
        until: Timestamp,
    },
    /// Remove a schedule, and cancel its next request, which is stored already, unless that has begun.
    Unschedule {
        /// The name of the schedule.
        name: String,
    },
}

impl ScheduleCommand {
    /// Carries out the command; returns the text to print.
    pub(crate) async fn run(&self, server: &JobsServer) -> anyhow::Result<String> {
        match self {
            Self::Schedule {
                name,
                cron,
                function,
                params,
                time_zone,
                overlap,
                catch_up,
                jitter,
            } => {
                let schedule = json!({
                    "name": name, "cron": cron, "function": function, "params": object(params)?,
                    "time_zone": time_zone, "overlap": overlap, "catch_up": catch_up.map(|it| it * 1000),
                    "jitter": jitter * 1000,
                });
                server.schedule(schedule).await
            }
            Self::Unschedule { name } => server.of_schedule("unschedule", name, "is removed").await,
            Self::PauseSchedule { name } => {
                server.of_schedule("pauseSchedule", name, "is paused").await
            }
            Self::ResumeSchedule { name } => {
                server.of_schedule("resumeSchedule", name, "goes on").await
            }
            Self::TriggerSchedule { name } => {
                let begun = server.call("triggerSchedule", json!({ "name": name })).await?;
                Ok(begun["uid"].as_str().context("the server gives no uid")?.to_owned())
            }
            Self::BackfillSchedule { name, from, until } => {
                let [from, until] = [from, until].map(|time| time.as_millisecond());
                let range = json!({ "name": name, "from": from, "until": until });
                let begun = server.call("backfillSchedule", range).await?["uids"].take();
                let uids: Vec<String> = serde_json::from_value(begun)?;
                Ok(uids.join("\n"))
            }
            Self::Schedules => server.schedules().await,
        }
    }
}

#[derive(Deserialize)]
struct SchedulesPage {
    schedules: Vec<ScheduleRow>,
    next: String,
}

#[derive(Deserialize)]
struct ScheduleRow {
    name: String,
    function: String,
    cron: String,
    time_zone: String,
    user: Option<String>,
    times: Vec<f64>,
    paused: bool,
    last: Option<f64>,
    skipped: u32,
    by_program: bool,
}

impl JobsServer {
    async fn of_schedule(&self, function: &str, name: &str, done: &str) -> anyhow::Result<String> {
        self.call(function, json!({ "name": name })).await?;
        Ok(format!("{name} {done}"))
    }

    async fn schedule(&self, schedule: Value) -> anyhow::Result<String> {
        let stored = self.call("schedule", schedule).await?["schedule"].take();
        Ok(schedule_line(&serde_json::from_value(stored)?))
    }

    /// All schedules, a line each.
    async fn schedules(&self) -> anyhow::Result<String> {
        let (mut lines, mut after) = (Vec::new(), String::new());
        loop {
            let which = json!({ "after": after });
            let page: SchedulesPage = serde_json::from_value(self.call("schedules", which).await?)?;
            lines.extend(page.schedules.iter().map(schedule_line));
            if page.next.is_empty() {
                return Ok(lines.join("\n"));
            }
            if page.next <= after {
                bail!("the server sends its schedules again, after {after:?}");
            }
            after = page.next;
        }
    }
}

/// A schedule as one line.
fn schedule_line(schedule: &ScheduleRow) -> String {
    let ScheduleRow { name, function, cron, time_zone, user, times, .. } = schedule;
    let times: Vec<_> = times.iter().filter_map(|at| time(*at)).map(|at| at.to_string()).collect();
    let next = match (schedule.paused, times.join(", ")) {
        (true, _) => "paused".to_owned(),
        (false, times) if times.is_empty() => "next never".to_owned(),
        (false, times) => format!("next {times}"),
    };
    let last = schedule.last.and_then(time).map_or(String::new(), |last| format!(", last {last}"));
    let skipped = Some(schedule.skipped).filter(|skipped| *skipped > 0);
    let skipped = skipped.map_or(String::new(), |it| format!(", {it} skipped since"));
    let user = user.as_ref().map_or(String::new(), |user| format!(" for {user}"));
    let by = if schedule.by_program { ", by the program" } else { "" };
    one_line(&format!("{name}: {function}{user}, {cron} {time_zone}, {next}{last}{skipped}{by}"))
}
