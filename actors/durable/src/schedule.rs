//! Requests that begin again and again, at the times of a cron expression.

use asyncsteps_executor::Caller;
use asyncsteps_executor::security::User;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{CallerKey, FirstOwner, ReadSchedule, StoredSchedule, Submit};
use asyncsteps_journal::{Timestamp, Uid, Value, ValueError};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
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
}

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
        let schedule =
            Self { name: name.clone(), cron, zone: TimeZone::UTC, caller: Caller::anonymous() };
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

    /// The caller that its requests have.
    pub(crate) const fn caller_of_requests(&self) -> &Caller {
        &self.caller
    }

    /// The first time after this one.
    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let millis = i64::try_from(time.as_millis()).ok()?;
        let now = jiff::Timestamp::from_millisecond(millis).ok()?;
        let now: Zoned = now.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&now, false).ok()?;
        u64::try_from(next.timestamp().as_millisecond()).ok().map(Timestamp::from_millis)
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
}

impl StoredForm {
    fn read(stored: &ReadSchedule) -> Result<Self, String> {
        let value = stored.value.as_ref().map_err(String::clone)?;
        value.decode().map_err(|error| error.to_string())
    }
}

impl ScheduledRequests {
    pub(crate) fn new(schedule: Schedule, template: String, parameters: Value) -> Self {
        Self { schedule, template, parameters, revision: None, next: Mutex::default() }
    }

    /// The same as one that is stored in place of others: its requests have other keys than theirs.
    pub(crate) fn revised(self) -> Result<Self, NotSubmitted> {
        let revision = Uid::random().map_err(NotSubmitted::NoRandom)?;
        Ok(Self { revision: Some(revision.to_string()), ..self })
    }

    /// The same for the journal.
    pub(crate) fn write(&self) -> Result<StoredSchedule, ValueError> {
        let form = StoredForm {
            function: self.template.clone(),
            cron: self.expression().to_owned(),
            time_zone: self.time_zone().to_owned(),
            user: caller::write(&self.schedule.caller),
            parameters: self.parameters.decode()?,
            revision: self.revision.clone(),
        };
        Ok(StoredSchedule { name: self.name().to_owned(), value: Value::encode_json(&form)? })
    }

    /// What the journal keeps.
    pub(crate) fn read(stored: &ReadSchedule) -> Result<Self, String> {
        let StoredForm { function, cron, time_zone, user, parameters, revision } =
            StoredForm::read(stored)?;
        let schedule = Schedule::read(stored.name.clone(), &cron)
            .and_then(|schedule| schedule.time_zone(&time_zone))
            .map_err(|error| error.to_string())?
            .caller(caller::read(user.as_deref())?);
        let parameters = Value::encode_json(&parameters).map_err(|error| error.to_string())?;
        Ok(Self { revision, ..Self::new(schedule, function, parameters) })
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

    /// The key of the request that begins at this time.
    pub(crate) fn key_at(&self, at: Timestamp) -> String {
        match &self.revision {
            Some(revision) => format!("{} {revision}", at.as_millis()),
            None => at.as_millis().to_string(),
        }
    }

    /// The request that begins at this time, of a program with this version.
    pub(crate) fn request_at(&self, at: Timestamp, version: u32) -> Result<Submit, NotSubmitted> {
        let started = Started {
            template: self.template.clone(),
            version,
            parameters: self.parameters.clone(),
            user: caller::write(&self.schedule.caller),
            deadline: None,
            trace: None,
            schedule: Some(self.schedule.name.clone()),
        };
        // no caller has a scope like this one
        let scope = format!("schedule {}", self.schedule.name);
        let key = Some(CallerKey { scope, key: self.key_at(at) });
        let uid = Uid::random().map_err(NotSubmitted::NoRandom)?;
        Ok(Submit { uid, started, key, owner: FirstOwner::AnyFrom(at), quota: None })
    }
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
        assert_eq!(read.expect("it is opened").expression(), "0 0 L * *");
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
