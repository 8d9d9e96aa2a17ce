//! Requests that begin again and again, at the times of a cron expression.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_executor::Caller;
use asyncsteps_executor::security::User;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{
    CallerKey, FirstOwner, FlowInfo, ReadSchedule, StoredSchedule, Submit,
};
use asyncsteps_journal::{Timestamp, Uid, Value, ValueError};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller;
use crate::submit::NotSubmitted;

/// When requests of a function begin again and again, for [`Durable::schedule`](crate::Durable::schedule).
///
/// The expression has the five fields of cron: minute, hour, day of the month, month, day of the week (0 and 7 are
/// Sunday); or it is one of `@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`, and `@yearly` or `@annually`. A
/// field is `*` or a list of numbers and ranges; `*` and ranges may have a step: `*/15`, `9-17/2`. Months and days of the
/// week have names as well: `JAN`, `mon-fri`. Nothing else is known: `L`, `W`, `#` and `?` of other programs are refused.
///
/// If the day of the month and the day of the week are both restricted, a day matches one of them, as vixie's cron has
/// it: `0 0 1,15 * 1` is on the 1st, on the 15th and on each Monday. A field that begins with `*` restricts nothing in
/// this sense, and a day matches both: `0 0 */2 * 1` is on Mondays that are odd days of the month.
///
/// Times are in UTC, unless a [time zone](Self::time_zone) is named. Where its clocks go forward, a fixed time that is
/// left out comes at once after the gap; where they go back, a fixed time comes once.
#[derive(Clone, derive_more::Debug)]
#[debug("Schedule {{ name: {name:?}, cron: {:?}, .. }}", cron.as_str())]
#[must_use = "it is given to `Durable::schedule`"]
pub struct Schedule {
    name: String,
    cron: Cron,
    zone: TimeZone,
    caller: Caller,
    overlap: Overlap,
    catch_up: Option<Duration>,
    jitter: Duration,
}

/// What happens at a time of a schedule at which an earlier request of it has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Overlap {
    /// Nothing begins: the request of that time ends with the error [`SKIPPED`].
    #[default]
    Skip,
    /// One request waits for the end of the earlier one; of further times nothing begins.
    BufferOne,
    /// The request begins beside the earlier ones, unless these are as many as the requests of a caller that
    /// [may wait](crate::Durable::waiting_per_caller), up to 1,000: then nothing begins.
    Allow,
}

/// The code of the error of a request that a schedule did not begin at its time: because an earlier one had not ended, it
/// was too late, or the schedule was paused, replaced or removed.
pub const SKIPPED: &str = "Skipped";

/// Longest name of a schedule, in bytes.
const LONGEST_NAME: usize = 255;

/// An error of a [`Schedule`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongSchedule {
    /// The name is empty or too long.
    #[error("the name of a schedule has 1 to {LONGEST_NAME} bytes, not {0}")]
    Name(usize),
    /// The expression cannot be read.
    #[error(
        "the schedule {name} has no cron expression of five fields, but `{expression}`: {reason}"
    )]
    Expression {
        /// The name of the schedule.
        name: String,
        /// Its expression.
        expression: String,
        /// The error in it.
        reason: String,
    },
    /// No time zone has this name.
    #[error("the schedule {name} names the time zone `{zone}`, which is not known")]
    TimeZone {
        /// The name of the schedule.
        name: String,
        /// The time zone that it names.
        zone: String,
    },
}

impl Schedule {
    /// A schedule of this name, of 1 to 255 bytes. The name distinguishes its requests from those of other schedules: it
    /// stays the same from deploy to deploy.
    ///
    /// # Errors
    /// If the name is too long, the expression cannot be read, or no time is meant by it.
    pub fn new(name: impl Into<String>, expression: &str) -> Result<Self, WrongSchedule> {
        let name = name.into();
        match unknown_part(expression) {
            None => Self::read(name, expression),
            Some(part) => {
                let reason = format!("`{part}` is no number, range, list or step of this field");
                Err(WrongSchedule::Expression { name, expression: expression.to_owned(), reason })
            }
        }
    }

    /// The same with an expression that may be stored, also by a program that took more than this one.
    fn read(name: String, expression: &str) -> Result<Self, WrongSchedule> {
        if !(1..=LONGEST_NAME).contains(&name.len()) {
            return Err(WrongSchedule::Name(name.len()));
        }
        let wrong = |reason: String| WrongSchedule::Expression {
            name: name.clone(),
            expression: expression.to_owned(),
            reason,
        };
        // croner takes `*` alone for a field without a restriction
        let mut fields = expression.split_whitespace().skip(2).step_by(2);
        let is_open = fields.any(|field| field.starts_with('*'));
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
        let midnight = expression.trim().eq_ignore_ascii_case("@midnight");
        let cron = parser.dom_and_dow(is_open).build();
        let cron = cron.parse(if midnight { "@daily" } else { expression });
        let cron = cron.map_err(|error| wrong(error.to_string()))?;
        let schedule = Self {
            name: name.clone(),
            cron,
            zone: TimeZone::UTC,
            caller: Caller::anonymous(),
            overlap: Overlap::default(),
            catch_up: None,
            jitter: Duration::ZERO,
        };
        match schedule.next_after(Timestamp::default()) {
            Some(_) => Ok(schedule),
            None => Err(wrong("there is no such day".to_owned())),
        }
    }

    /// The same in the time of a place, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// If no time zone has this name.
    pub fn time_zone(self, zone: &str) -> Result<Self, WrongSchedule> {
        match TimeZone::get(zone) {
            Ok(zone) => Ok(Self { zone, ..self }),
            Err(_) => Err(WrongSchedule::TimeZone { name: self.name, zone: zone.to_owned() }),
        }
    }

    /// The user that the requests act for; by default it is anonymous.
    pub fn caller(self, caller: impl Into<Caller>) -> Self {
        Self { caller: caller.into(), ..self }
    }

    /// What happens at a time at which an earlier request has not ended; [`Overlap::Skip`] unless set.
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// How late a request may begin because no node ran at its time; however late, unless set. Of several times at which
    /// no node ran one request begins: for the first of them, or if that is too late, for the last one.
    pub fn catch_up(self, within: Duration) -> Self {
        Self { catch_up: Some(within), ..self }
    }

    /// Spreads the requests: each begins up to so much later than its time, in whole milliseconds. How much follows from
    /// the name and the time, so it is the same on all nodes and in each run.
    pub fn jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// The caller that its requests have.
    pub(crate) const fn caller_of_requests(&self) -> &Caller {
        &self.caller
    }

    fn zoned(&self, time: Timestamp) -> Option<Zoned> {
        let time = jiff::Timestamp::from_millisecond(i64::try_from(time.as_millis()).ok()?).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }

    /// The first time after this one.
    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let next = self.cron.find_next_occurrence(&self.zoned(time)?, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
    }

    /// The last time that is not after this one.
    fn last_until(&self, time: Timestamp) -> Option<Timestamp> {
        let last = self.cron.find_previous_occurrence(&self.zoned(time)?, true).ok()?;
        u64::try_from(last.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
    }
}

/// A part of an expression that vixie's cron does not have in its field.
fn unknown_part(expression: &str) -> Option<&str> {
    const MONTHS: &str = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC";
    const DAYS: &str = "SUN MON TUE WED THU FRI SAT";
    let is_number = |value: &str| !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
    let is_value = |value: &str, names: &str| {
        is_number(value) || names.split(' ').any(|name| name.eq_ignore_ascii_case(value))
    };
    let is_part = |part: &str, names: &str| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        is_number(step) && (range == "*" || is_value(from, names) && is_value(to, names))
    };
    let fields = expression.split_whitespace().zip(["", "", "", MONTHS, DAYS]);
    fields
        .filter(|(field, _)| !field.starts_with('@'))
        .flat_map(|(field, names)| field.split(',').map(move |part| (part, names)))
        .find_map(|(part, names)| (!is_part(part, names)).then_some(part))
}

/// A schedule with what its requests are.
#[derive(Debug)]
pub(crate) struct ScheduledRequests {
    schedule: Schedule,
    template: String,
    parameters: Value,
    /// Which of the stored schedules of its name it is, one after another; a program's schedule has none, so that
    /// programs that are deployed one after another begin each request once.
    revision: Option<String>,
    /// Its requests do not begin. Of a schedule of the program, the journal says it.
    is_paused: AtomicBool,
    /// The next time as it was found last: for a rare one, that takes a millisecond.
    next: Mutex<Option<NextTime>>,
}

/// The first time after another one, if there is any.
#[derive(Clone, Copy, Debug)]
struct NextTime {
    from: Timestamp,
    at: Option<Timestamp>,
}

/// A schedule as the journal keeps it.
#[derive(Serialize, Deserialize)]
struct StoredForm {
    function: String,
    cron: String,
    time_zone: String,
    user: Option<String>,
    parameters: serde_json::Value,
    #[serde(default)]
    revision: Option<String>,
    #[serde(default)]
    overlap: Overlap,
    #[serde(default)]
    catch_up: Option<Duration>,
    #[serde(default)]
    jitter: Duration,
    #[serde(default)]
    is_paused: bool,
    /// The program declares it: this says only whether it is paused.
    #[serde(default)]
    is_of_program: bool,
}

impl StoredForm {
    fn read(stored: &ReadSchedule) -> Result<Self, String> {
        let value = stored.value.as_ref().map_err(String::clone)?;
        value.decode().map_err(|error| error.to_string())
    }
}

impl ScheduledRequests {
    pub(crate) fn new(schedule: Schedule, template: String, parameters: Value) -> Self {
        let (is_paused, next) = Default::default();
        Self { schedule, template, parameters, revision: None, is_paused, next }
    }

    /// The same as one that is stored in place of others: its requests have other keys than theirs.
    pub(crate) fn revised(self) -> Result<Self, NotSubmitted> {
        let revision = Uid::random().map_err(NotSubmitted::NoRandom)?;
        Ok(Self { revision: Some(revision.to_string()), ..self })
    }

    /// The same for the journal, in which a schedule of the program is stored as one that is paused or not.
    pub(crate) fn write(
        &self,
        is_paused: bool,
        is_of_program: bool,
    ) -> Result<StoredSchedule, ValueError> {
        // what acts for a user is erased with it, and a pause is not
        let user = caller::write(&self.schedule.caller).filter(|_| !is_of_program);
        let form = StoredForm {
            function: self.template.clone(),
            cron: self.expression().to_owned(),
            time_zone: self.time_zone().to_owned(),
            user,
            parameters: self.parameters.decode()?,
            revision: self.revision.clone(),
            overlap: self.schedule.overlap,
            catch_up: self.schedule.catch_up,
            jitter: self.schedule.jitter,
            is_paused,
            is_of_program,
        };
        Ok(StoredSchedule { name: self.name().to_owned(), value: Value::encode_json(&form)? })
    }

    /// What the journal keeps, and whether that is of a schedule of the program.
    pub(crate) fn read(stored: &ReadSchedule) -> Result<(Self, bool), String> {
        let form = StoredForm::read(stored)?;
        let mut schedule = Schedule::read(stored.name.clone(), &form.cron)
            .and_then(|schedule| schedule.time_zone(&form.time_zone))
            .map_err(|error| error.to_string())?
            .caller(caller::read(form.user.as_deref())?)
            .overlap(form.overlap)
            .jitter(form.jitter);
        schedule.catch_up = form.catch_up;
        let parameters = Value::encode_json(&form.parameters).map_err(|error| error.to_string())?;
        let is_paused = AtomicBool::new(form.is_paused);
        let read = Self::new(schedule, form.function, parameters);
        Ok((Self { revision: form.revision, is_paused, ..read }, form.is_of_program))
    }

    /// Whom the requests of a stored schedule act for, also if this program cannot begin them.
    pub(crate) fn caller_of(stored: &ReadSchedule) -> Result<Caller, String> {
        caller::read(StoredForm::read(stored)?.user.as_deref())
    }

    /// Its cron expression, of five fields.
    pub(crate) fn expression(&self) -> &str {
        self.schedule.cron.as_str()
    }

    /// The name of its time zone.
    pub(crate) fn time_zone(&self) -> &str {
        self.schedule.zone.iana_name().unwrap_or("UTC")
    }

    /// The user that its requests act for.
    pub(crate) fn user(&self) -> Option<&User> {
        self.schedule.caller.user()
    }

    pub(crate) fn name(&self) -> &str {
        &self.schedule.name
    }

    /// The function, by its name in the journal.
    pub(crate) fn template(&self) -> &str {
        &self.template
    }

    pub(crate) fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// The first time after this one.
    pub(crate) fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let mut next = self.next.lock();
        let found = next.filter(|it| it.from <= time && it.at.is_none_or(|at| time < at));
        let found =
            found.unwrap_or_else(|| NextTime { from: time, at: self.schedule.next_after(time) });
        *next = Some(found);
        found.at
    }

    /// The last time that is not after this one.
    pub(crate) fn last_until(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.last_until(time)
    }

    pub(crate) const fn overlap(&self) -> Overlap {
        self.schedule.overlap
    }

    pub(crate) const fn catch_up(&self) -> Option<Duration> {
        self.schedule.catch_up
    }

    pub(crate) const fn jitter(&self) -> Duration {
        self.schedule.jitter
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// The journal says whether it is paused.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// When the request of this time begins: later by what is drawn from both (FNV-1a, the high bits).
    pub(crate) fn due(&self, at: Timestamp) -> Timestamp {
        let most = u64::try_from(self.schedule.jitter.as_millis()).unwrap_or(u64::MAX);
        let text = format!("{} {}", at.as_millis(), self.name());
        let drawn = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let spread = (u128::from(drawn) * (u128::from(most) + 1)) >> 64;
        at.after(Duration::from_millis(u64::try_from(spread).unwrap_or(most)))
    }

    /// The scope of the keys of its requests.
    pub(crate) fn scope(&self) -> String {
        scope_of(self.name())
    }

    /// The key of the request that begins at this time.
    pub(crate) fn key_at(&self, at: Timestamp) -> String {
        match &self.revision {
            Some(revision) => format!("{} {revision}", at.as_millis()),
            None => at.as_millis().to_string(),
        }
    }

    /// The request that begins at this time, of a program with this version.
    pub(crate) fn request_at(
        &self,
        at: Timestamp,
        version: u32,
        (owner, is_asked_for): (FirstOwner, bool),
    ) -> Result<Submit, NotSubmitted> {
        let started = Started {
            template: self.template.clone(),
            version,
            parameters: self.parameters.clone(),
            user: caller::write(&self.schedule.caller),
            deadline: None,
            trace: None,
            schedule: Some(self.schedule.name.clone()),
            is_asked_for,
            parent: None,
        };
        let key = Some(CallerKey { scope: self.scope(), key: self.key_at(at) });
        let uid = Uid::random().map_err(NotSubmitted::NoRandom)?;
        Ok(Submit { key, ..Submit::new(uid, started, owner) })
    }
}

/// The scope of the keys of the requests of a schedule: no caller has one like it.
pub(crate) fn scope_of(schedule: &str) -> String {
    format!("schedule {schedule}")
}

/// The time of a request of a schedule, and the revision of the schedule, as its key has them.
pub(crate) fn time_of(flow: &FlowInfo) -> Option<(Timestamp, Option<&str>)> {
    let key = flow.key.as_deref()?;
    let (millis, revision) = match key.split_once(' ') {
        Some((millis, revision)) => (millis, Some(revision)),
        None => (key, None),
    };
    Some((Timestamp::from_millis(millis.parse().ok()?), revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
        let from: jiff::Timestamp = from.parse().expect("a time");
        let from =
            Timestamp::from_millis(u64::try_from(from.as_millisecond()).expect("after 1970"));
        let next = |time: &Timestamp| schedule.next_after(*time);
        let times = std::iter::successors(next(&from), next).take(count);
        times
            .map(|time| {
                let millis = i64::try_from(time.as_millis()).expect("a near time");
                jiff::Timestamp::from_millisecond(millis).expect("a time").to_string()
            })
            .collect()
    }

    #[test]
    fn times_are_those_of_the_place() {
        let daily = Schedule::new("daily", "30 2 * * *").expect("it is right");
        assert_eq!(times(&daily, "2026-03-28T02:30:00Z", 1), ["2026-03-29T02:30:00Z"]);
        let berlin = daily.time_zone("Europe/Berlin").expect("it is known");
        // there is no half past two on the 29th of March, and there are two on the 25th of October
        let spring = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
        assert_eq!(times(&berlin, "2026-03-27T12:00:00Z", 3), spring);
        let autumn = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        assert_eq!(times(&berlin, "2026-10-23T12:00:00Z", 3), autumn);
    }

    #[test]
    fn days_of_month_and_week_follow_the_rule_of_vixie() {
        for (expression, days) in [
            // one of both
            ("0 0 13 * 5", ["2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27", "2026-03-06"]),
            // a field that begins with `*` restricts nothing: both
            ("0 0 */2 * 1", ["2026-02-09", "2026-02-23", "2026-03-09", "2026-03-23", "2026-04-13"]),
            (
                "0 0 13 * */5",
                ["2026-02-13", "2026-03-13", "2026-09-13", "2026-11-13", "2026-12-13"],
            ),
            ("0 0 13 * *", ["2026-02-13", "2026-03-13", "2026-04-13", "2026-05-13", "2026-06-13"]),
            ("@midnight", ["2026-02-01", "2026-02-02", "2026-02-03", "2026-02-04", "2026-02-05"]),
            (
                "0 0 * Feb,MAR mon-TUE",
                ["2026-02-02", "2026-02-03", "2026-02-09", "2026-02-10", "2026-02-16"],
            ),
        ] {
            let schedule = Schedule::new("days", expression).expect("it is right");
            let days = days.map(|day| format!("{day}T00:00:00Z"));
            assert_eq!(times(&schedule, "2026-01-31T12:00:00Z", 5), days, "{expression}");
        }
    }

    #[test]
    fn what_other_programs_than_cron_know_is_refused() {
        for (expression, part) in [
            ("0 0 L * *", "L"),
            ("0 0 15W * *", "15W"),
            ("0 0 ? * 1", "?"),
            ("0 0 * * 5#2", "5#2"),
            ("0 0 * * 5L", "5L"),
            ("0 0 1 * +1", "+1"),
            ("0 0 * * 1,,2", ""),
            ("0 0 * * JAN", "JAN"),
            ("MON 0 * * *", "MON"),
            ("0 0 * * 1MON", "1MON"),
            ("1-2-3 0 * * *", "1-2-3"),
        ] {
            let wrong = Schedule::new("other", expression).expect_err("it is refused").to_string();
            assert!(wrong.contains(&format!("`{part}` is no number")), "{wrong}");
        }
        // an earlier program has stored it
        let (function, time_zone) = ("a.b:1:f", "UTC");
        let stored = serde_json::json!({
            "function": function, "cron": "0 0 L * *", "time_zone": time_zone, "user": null, "parameters": {},
        });
        let value = Value::encode_json(&stored).map_err(|error| error.to_string());
        let read = ScheduledRequests::read(&ReadSchedule { name: "old".to_owned(), value });
        let (read, is_of_program) = read.expect("it is opened");
        assert_eq!((read.expression(), is_of_program), ("0 0 L * *", false));
        assert_eq!(
            (read.overlap(), read.catch_up(), read.is_paused()),
            (Overlap::Skip, None, false)
        );
    }

    #[test]
    fn the_next_time_is_kept_until_it_comes_or_the_clock_goes_back() {
        let hourly = Schedule::new("hourly", "@hourly").expect("it is right");
        let none = Value::encode_json(&serde_json::json!({})).expect("it is small");
        let scheduled = ScheduledRequests::new(hourly, "a.b:1:f".to_owned(), none);
        let minutes = |minutes: u64| Timestamp::from_millis(minutes * 60_000);
        for (now, next) in
            [(10, 60), (59, 60), (60, 120), (90, 120), (20, 60), (30, 60), (300, 360)]
        {
            assert_eq!(scheduled.next_after(minutes(now)), Some(minutes(next)), "{now}");
        }
    }

    #[test]
    fn the_spread_is_drawn_from_name_and_time() {
        let none = Value::encode_json(&serde_json::json!({})).expect("it is small");
        let of = |name: &str, seconds| {
            let schedule = Schedule::new(name, "@hourly").expect("it is right");
            let schedule = schedule.jitter(Duration::from_secs(seconds));
            ScheduledRequests::new(schedule, "a.b:1:f".to_owned(), none.clone())
        };
        let hours = |scheduled: &ScheduledRequests| -> Vec<u64> {
            let hours = (0..100).map(|hour| Timestamp::from_millis(hour * 3_600_000));
            hours.map(|at| scheduled.due(at).as_millis() - at.as_millis()).collect()
        };
        let (a, b) = (hours(&of("a", 600)), hours(&of("b", 600)));
        assert_eq!(a, hours(&of("a", 600)));
        assert_ne!(a, b);
        for spread in [a, b] {
            assert!(spread.iter().all(|millis| *millis <= 600_000), "{spread:?}");
            let late = spread.iter().filter(|millis| **millis > 300_000).count();
            assert!((30..70).contains(&late), "{spread:?}");
        }
        assert!(hours(&of("a", 0)).iter().all(|millis| *millis == 0));
        let stored = of("a", 600).write(true, false).expect("it is small");
        let stored = ReadSchedule { name: stored.name, value: Ok(stored.value) };
        let (read, _) = ScheduledRequests::read(&stored).expect("it is stored so");
        assert_eq!((read.jitter(), read.is_paused()), (Duration::from_secs(600), true));
    }

    #[test]
    fn wrong_schedules_are_told() {
        let wrong =
            |expression| Schedule::new("nightly", expression).expect_err("it is wrong").to_string();
        for expression in ["", "* * * *", "0 0 3 * * *", "61 * * * *", "a b c d e", "@never"] {
            let wrong = wrong(expression);
            assert!(
                wrong.contains("nightly") && wrong.contains(&format!("`{expression}`")),
                "{wrong}"
            );
        }
        let never = "the schedule nightly has no cron expression of five fields, but `0 0 30 2 *`: \
            there is no such day";
        assert_eq!(wrong("0 0 30 2 *"), never);
        for name in [String::new(), "x".repeat(256)] {
            let wrong = Schedule::new(name.clone(), "@daily").expect_err("it is wrong");
            assert_eq!(wrong, WrongSchedule::Name(name.len()));
        }
        let schedule = Schedule::new("x".repeat(255), "@daily");
        assert!(schedule.is_ok(), "{schedule:?}");
        let schedule = Schedule::new("nightly", "@daily").expect("it is right");
        let no_zone = schedule.time_zone("Europe/Atlantis").expect_err("it is not known");
        assert!(no_zone.to_string().contains("`Europe/Atlantis`"), "{no_zone}");
    }
}
