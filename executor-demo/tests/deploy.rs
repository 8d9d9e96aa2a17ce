//! The promise: what the page on running a service says of the command line and of limits is true.

use std::time::Duration;

use asyncsteps_executor::transport::http::ServerLimits;
use clap::{CommandFactory as _, Parser as _};
use executor_demo::{Config, LogFormat};

const PAGE: &str = include_str!("../../actors/executor/src/docs/deploy.md");

/// What the server gives the last answers after the grace.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What the last traces get after that.
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

#[test]
fn the_command_lines_are_those_of_the_program() {
    let unit =
        Config::try_parse_from(line("ExecStart=").split(' ')).expect("options of the program");
    assert!(unit.listen.ip().is_loopback());
    assert_eq!(unit.grace, 10);
    assert!(unit.data.starts_with("/var/lib/shop"));

    let entry: Vec<String> = serde_json::from_str(line("ENTRYPOINT ")).expect("the form of a list");
    let container = Config::try_parse_from(entry).expect("options of the program");
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
    let grace = Duration::from_secs(default.grace.into());
    for stop in ["TimeoutStopSec=", "--stop-timeout ", "terminationGracePeriodSeconds: "] {
        assert!(Duration::from_secs(number(stop)) > grace + LAST_ANSWERS + LAST_TRACES, "{stop}");
    }
    let connections = ServerLimits::default().connections as u64;
    for files in ["LimitNOFILE=", "nofile="] {
        assert!(number(files) > connections, "{files}");
    }
}
