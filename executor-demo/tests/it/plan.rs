//! The promise: the program prints what the requests of its functions go through, without data and without a server.

use std::fs;
use std::process::{Command, Output};

use asyncsteps_support::shop::Data;
use clap::Parser as _;
use executor_demo::{Config, executor};
use expect_test::expect_file;

/// What `executor-demo plan` says, in a folder of its own.
fn plan(arguments: &[&str]) -> Output {
    let data = Data::new();
    let file = data.file();
    let folder = file.parent().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_executor-demo"))
        .arg("plan")
        .args(arguments)
        // a collector of the shell it is started from is not sent anything
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")
        .current_dir(folder)
        .output()
        .expect("the program starts");
    let left = fs::read_dir(folder).expect("the folder").count();
    assert_eq!(left, 0, "it leaves no files");
    output
}

fn printed(arguments: &[&str]) -> String {
    let output = plan(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn all_functions_are_listed_and_each_is_printed() {
    let listed = printed(&[]);
    let functions: Vec<_> = listed.lines().filter_map(|line| line.split_once(": ")).collect();
    let names: Vec<_> = functions.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted(), "{listed}");
    assert!(
        names.contains(&"demo.shop:1.0:order") && names.contains(&"demo.bank:1.0:capture"),
        "{listed}"
    );
    assert!(
        functions.contains(&("futoin.ping:1.0:ping", "a template, which has no plan")),
        "{listed}"
    );
    for (name, what) in functions {
        let text = printed(&[name]);
        assert_eq!(text.lines().next(), Some(format!("{name}: {what}").as_str()));
        let count: usize =
            what.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or_default();
        assert_eq!(text.lines().count(), 1 + count, "{text}");
        let drawing = printed(&[name, "--mermaid"]);
        assert!(
            drawing.starts_with("flowchart TD\n    n0([\"") && drawing.contains(name),
            "{drawing}"
        );
    }
}

#[test]
fn an_unknown_function_is_an_error() {
    let output = plan(&["demo.shop:1.0:steal\u{1b}"]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).expect("text");
    let expected = "there is no function demo.shop:1.0:steal\\u{1b}; without a name, `plan` lists all functions\n";
    assert_eq!(told, expected);
    assert_eq!(plan(&["--mermaid"]).status.code(), Some(2));
}

#[actix_rt::test]
async fn the_plans_have_so_many_steps_of_each_kind() {
    let config = Config::parse_from(["executor-demo", "--data", ":memory:"]);
    let plans = executor(&config).expect("a right configuration").plans();
    let line = |plan: &asyncsteps::plan::Plan| {
        format!("{} {:?} {:?}\n", plan.function, plan.kind, plan.counts())
    };
    let lines: String = plans.iter().map(|plan| line(plan)).collect();
    expect_file!["plans.txt"].assert_eq(&lines);
}
