//! The promise: what the page on running a service says of the command line and of limits is true.

use std::time::Duration;

use asyncsteps::http::ServerLimits;
use asyncsteps::pool::UNDO_GRACE;
use clap::{CommandFactory as _, Parser as _};
use executor_demo::{Config, LogFormat};

const PAGE: &str = include_str!("../../../actors/asyncsteps/src/docs/deploy.md");

/// What cancelled requests get after the grace, to end.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// What the last answers get after that.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What the last traces get after undos.
const LAST_TRACES: Duration = Duration::from_secs(3);

/// What follows on the line that begins with this.
fn line(begin: &str) -> &'static str {
    let found = PAGE.lines().find_map(|line| line.trim().strip_prefix(begin));
    found.unwrap_or_else(|| panic!("no line begins with {begin}"))
}

/// The number that follows the first occurrence of this.
fn number(after: &str) -> u64 {
    let (_, rest) = PAGE.split_once(after).unwrap_or_else(|| panic!("there is no {after}"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("no number after {after}"))
}

/// The program of the unit, and that of the container.
fn unit() -> Config {
    Config::try_parse_from(line("ExecStart=").split(' ')).expect("options of the program")
}

fn container() -> Config {
    let entry: Vec<String> = serde_json::from_str(line("ENTRYPOINT ")).expect("the form of a list");
    Config::try_parse_from(entry).expect("options of the program")
}

/// How long a program may take to stop.
fn stop_time(config: &Config) -> Duration {
    let seconds = config.drain_delay + config.grace;
    let after = CANCEL_GRACE + LAST_ANSWERS + UNDO_GRACE + LAST_TRACES;
    Duration::from_secs(seconds.into()) + after
}

#[test]
fn the_command_lines_are_those_of_the_program() {
    let unit = unit();
    assert!(unit.listen.ip().is_loopback());
    assert_eq!(unit.grace, 10);
    assert!(unit.data.starts_with("/var/lib/shop"));

    let container = container();
    assert!(container.listen.ip().is_unspecified());
    assert!(matches!(container.log, Some(LogFormat::Json)));
    assert!(container.data.starts_with("/data"));
}

#[test]
fn every_option_in_the_text_exists() {
    let command = Config::command();
    let options: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let named = PAGE.split("`--").skip(1).map(|rest| {
        rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default()
    });
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 5, "{named:?}");
    for option in named {
        assert!(options.contains(&option), "{option} of {options:?}");
    }
}

#[test]
fn the_limits_fit_together() {
    let default = Config::try_parse_from(["executor-demo"]).expect("all options have defaults");
    for (stop, config) in [
        ("is killed: ", &default),
        ("TimeoutStopSec=", &unit()),
        ("--stop-timeout ", &container()),
        ("terminationGracePeriodSeconds: ", &container()),
    ] {
        assert!(Duration::from_secs(number(stop)) > stop_time(config), "{stop}");
    }
    for (part, seconds) in [
        ("`--drain-delay`, ", default.drain_delay.into()),
        ("`--grace`, ", default.grace.into()),
        ("| undos | ", UNDO_GRACE.as_secs()),
    ] {
        assert_eq!(number(part), seconds, "{part}");
    }
    let probe = PAGE.split("readinessProbe:").nth(1).expect("a probe");
    let (_, period) = probe.split_once("periodSeconds: ").expect("its period");
    let period: u32 = period.split(',').next().and_then(|it| it.parse().ok()).expect("a number");
    assert!(container().drain_delay >= 2 * period);
    let connections = ServerLimits::default().connections as u64;
    for files in ["LimitNOFILE=", "nofile="] {
        assert!(number(files) > connections, "{files}");
    }
}
