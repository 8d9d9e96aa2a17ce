//! The promise: the dashboard and the alert rules ask for what `/metrics` has, and are what Prometheus
//! takes them for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs, io, process};

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{Template, sync};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::observe::{HostFigures, HostMetric, MetricKind};
use asyncsteps_executor::{Executor, RequestSteps as _};
use asyncsteps_observe::Locks;
use asyncsteps_observe::metrics::Metrics;
use futures_util::future::{BoxFuture, ready};
use serde_json::{Value, json};

const DASHBOARD: &str = include_str!("../../monitoring/dashboard.json");

const ALERTS: &str = include_str!("../../monitoring/alerts.yml");

const DEFINITION: &str = r#"{
    "iface": "test.till", "version": "1.0", "ftn3rev": "1.9",
    "funcs": {
        "pay": { "params": { "cents": "integer" }, "result": "boolean", "throws": [ "Declined" ] }
    },
    "requires": [ "AllowAnonymous" ]
}"#;

/// The figures of a journal; `asyncsteps-durable` tests that it has these.
struct Journal;

impl HostFigures for Journal {
    fn figures(&self) -> BoxFuture<'_, Vec<HostMetric>> {
        use MetricKind::{Bytes, Gauge, Seconds, Total};
        let metrics: [(_, _, &[&str]); 13] = [
            ("asyncsteps_durable_journal_up", Gauge, &[]),
            ("asyncsteps_durable_requests", Gauge, &["function", "state"]),
            ("asyncsteps_durable_oldest", Seconds, &["function", "state"]),
            ("asyncsteps_durable_queue_head", Seconds, &["function"]),
            ("asyncsteps_durable_schedule_lag", Seconds, &["function"]),
            ("asyncsteps_durable_stored", Bytes, &[]),
            ("asyncsteps_durable_log", Bytes, &[]),
            ("asyncsteps_durable_oldest_body", Seconds, &["function"]),
            ("asyncsteps_durable_lease_age", Seconds, &["node"]),
            ("asyncsteps_durable_lease_renewals", Total, &[]),
            ("asyncsteps_durable_leases_lost", Total, &[]),
            ("asyncsteps_durable_entities", Gauge, &[]),
            ("asyncsteps_durable_entity_calls_queued", Gauge, &[]),
        ];
        let metrics = metrics.map(|(name, kind, labels)| {
            let labels = labels.iter().map(|label| (*label, "some".to_owned())).collect();
            HostMetric { name, help: "Some", kind, samples: vec![(labels, 1.0)] }
        });
        Box::pin(ready(metrics.into()))
    }
}

/// The figures of a service that has had requests, errors and waits, and has a journal.
async fn page() -> String {
    let source = Source::texts([("test.till-1.0-iface.json", DEFINITION)]);
    let till = Loader::new([source]).load(&"test.till:1.0".parse().expect("a name"));
    let pay = Template::build(|asi| {
        asi.add(|asi, ()| match asi.param("cents")? {
            0 => asi.error("Declined", "nothing to pay"),
            _ => asi.reply(true),
        });
    });
    let builder = Executor::builder().interface(till.expect("a definition"), |functions| {
        functions.add("pay", &pay);
    });
    let executor = builder.build().expect("a right configuration");
    let _address = executor.address();
    for (function, cents) in [("till", 7), ("till", 0), ("shop", 7)] {
        let function = format!("test.{function}:1.0:pay");
        let _ = executor.call_as_system::<Value>(&function, json!({ "cents": cents })).await;
    }
    let stock = Mutex::named("stock", sync::mutex::Options::default());
    let held = stock.lock().await.expect("it is free");
    let (waited, ()) = tokio::join!(stock.lock(), async { drop(held) });
    drop(waited);
    let _dependency = executor.depends_on(|| true);
    let journal: Arc<dyn HostFigures> = Arc::new(Journal);
    executor.shows(&journal);
    Metrics::with_locks(&executor, Locks::new().mutex(&stock)).text().await
}

/// The samples of a page: name, labels as they are written, value.
fn samples(page: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    page.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let sample = line.split(" # ").next().unwrap_or(line);
        let (series, value) = sample.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        (name, labels.trim_end_matches('}'), value)
    })
}

/// The labels of each metric of a page, and those that Prometheus adds.
fn known(page: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut known = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (name, labels, _) in samples(page) {
        let names = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0));
        known.entry(name).or_default().extend(names.chain(["job", "instance"]));
    }
    known
}

/// The metrics that a query names.
fn names(query: &str) -> BTreeSet<&str> {
    let words = query.split(|c: char| !c.is_ascii_lowercase() && c != '_');
    words.filter(|word| word.starts_with("asyncsteps_")).collect()
}

/// The labels that a query names in selectors and groups, and those of templates of its text.
fn labels(query: &str) -> BTreeSet<&str> {
    let groups = query.split("by (").skip(1).filter_map(|rest| rest.split_once(')'));
    let groups = groups.flat_map(|(labels, _)| labels.split(',')).map(str::trim);
    let selectors = query.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
    let selectors = selectors.flat_map(|(pairs, _)| pairs.split(','));
    let selected = selectors.filter_map(|pair| Some(pair.split_once(['=', '!'])?.0.trim()));
    let templates = query.split("$labels.").skip(1);
    let templates = templates.filter_map(|rest| rest.split([' ', '}']).next());
    groups.chain(selected).chain(templates).collect()
}

/// The queries of the dashboard, with their legends.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    targets.map(|target| (text(&target["expr"]), text(&target["legendFormat"]))).collect()
}

fn assert_known(query: &str, used: &BTreeSet<&str>, known: &BTreeMap<&str, BTreeSet<&str>>) {
    let mut of_query = BTreeSet::new();
    for name in names(query) {
        let found = known.get(name);
        of_query.extend(found.unwrap_or_else(|| panic!("no metric {name}, in {query}")));
    }
    let others: Vec<_> = used.difference(&of_query).collect();
    assert!(others.is_empty(), "no labels {others:?}, in {query}");
}

#[actix::test]
async fn the_queries_name_metrics_and_labels_of_the_page() {
    let page = page().await;
    let known = known(&page);
    let queries = queries();
    assert!(queries.len() > 20, "{queries:?}");
    for (query, legend) in &queries {
        let shown = legend.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
        assert_known(query, &labels(query).into_iter().chain(shown).collect(), &known);
    }
    for rule in ALERTS.split("- alert:").skip(1) {
        assert!(!names(rule).is_empty(), "{rule}");
        assert_known(rule, &labels(rule), &known);
    }
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        let query = variable["query"].as_str().expect("a query");
        let asked = query.strip_suffix(')').and_then(|query| query.rsplit_once(", "));
        assert_known(query, &asked.into_iter().map(|(_, label)| label).collect(), &known);
    }
}

/// A folder that is removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = env::temp_dir().join(format!("asyncsteps-monitoring-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Asks promtool, which is content.
///
/// # Errors
/// It is not there.
fn promtool(folder: &Path, arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("promtool").args(arguments).current_dir(folder).output()?;
    let told = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&told));
    Ok(())
}

#[test]
fn the_alerts_fire_when_they_should_and_not_otherwise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("monitoring");
    let tests = fs::read_to_string(folder.join("alerts_test.yml")).expect("a text");
    for alert in ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let mentions = tests.matches(&format!("alertname: {alert}")).count();
        assert!(mentions >= 2, "{alert} fires in one test and not in another");
    }
    let checked = promtool(&folder, &["check", "rules", "alerts.yml"]);
    if let Err(missing) =
        checked.and_then(|()| promtool(&folder, &["test", "rules", "alerts_test.yml"]))
    {
        eprintln!("not checked: promtool: {missing}");
    }
}

/// A test for promtool: the samples of a page, growing, and each query gives something.
fn rules_test(page: &str) -> String {
    let mut test = "tests:\n- interval: 1m\n  input_series:\n".to_owned();
    for (name, labels, value) in samples(page) {
        let labels = labels.trim_end_matches(',');
        let series =
            format!(r#"{name}{{{labels}{}job="a"}}"#, if labels.is_empty() { "" } else { "," });
        let _ = writeln!(test, "  - series: '{series}'\n    values: '{value}+1x20'");
    }
    test.push_str("  promql_expr_test:\n");
    for (query, _) in queries() {
        let query = query
            .replace("$__rate_interval", "5m")
            .replace("$job", ".*")
            .replace("$function", ".*");
        let _ = writeln!(test, "  - expr: '(count({query}) > bool 0) or vector(0)'");
        test.push_str("    eval_time: 10m\n    exp_samples: [{ labels: '{}', value: 1 }]\n");
    }
    test
}

#[actix::test]
async fn each_query_of_the_dashboard_finds_something_on_a_real_page() {
    let folder = Folder::new();
    fs::write(folder.0.join("dashboard.yml"), rules_test(&page().await)).expect("a file");
    if let Err(missing) = promtool(&folder.0, &["test", "rules", "dashboard.yml"]) {
        eprintln!("not checked: promtool: {missing}");
    }
}
