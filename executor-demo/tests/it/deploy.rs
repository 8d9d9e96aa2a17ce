//! The promise: what the page on running a service says of the command line and of limits is true, and the files in
//! `deploy` are right as far as this machine can say.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use asyncsteps::http::ServerLimits;
use asyncsteps::pool::UNDO_GRACE;
use asyncsteps_support::npm;
use asyncsteps_support::shop::{Data, Shop};
use clap::{CommandFactory as _, Parser as _};
use executor_demo::{Config, LogFormat};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../actors/asyncsteps/src/docs/deploy.md");
const DOCKERFILE: &str = include_str!("../../deploy/Dockerfile");
const UNIT: &str = include_str!("../../deploy/shop.service");

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

#[test]
fn the_page_shows_the_files() {
    for (language, file) in [("dockerfile", DOCKERFILE), ("ini", UNIT)] {
        assert!(PAGE.contains(&format!("```{language}\n{file}```")), "{file}");
    }
}

/// The list that follows on the line of the Dockerfile that begins with this.
fn words(begin: &str) -> Vec<String> {
    let found = DOCKERFILE.lines().find_map(|line| line.trim().strip_prefix(begin));
    serde_json::from_str(found.expect("there is such a line")).expect("the form of a list")
}

#[test]
fn the_health_check_says_whether_the_program_serves() {
    let data = Data::new();
    let shop = Shop::start(&data);
    let address = shop.address.to_string();
    let check = || {
        let words = words("CMD ");
        let args = words.iter().skip(1).map(|word| word.replace("127.0.0.1:8080", &address));
        let mut program = Command::new(env!("CARGO_BIN_EXE_executor-demo"));
        program.args(args).output().expect("the program runs").status.success()
    };
    assert!(check());
    let _ = shop.stop();
    assert!(!check());
}

/// Lets a program see the folder `$1` as its root, read-only but for `/data`, as a user without rights.
const CONFINED: &str = "
    set -e
    mount --bind $1 $1
    mount --bind $2 $1/data
    mount -o remount,bind,ro $1
    root=$1
    shift 2
    exec unshare --user --map-user=10001 --map-group=10001 --root=$root \"$@\"
";

fn confined(root: &Path, data: &Path, words: impl IntoIterator<Item = String>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", CONFINED, "sh"]);
    command.arg(root).arg(data).args(words);
    command
}

/// A process that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The root of the image, with the program of the tests, which has libraries.
fn image_root(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    fs::create_dir_all(root.join("data")).expect("a folder of tests");
    let program = env!("CARGO_BIN_EXE_executor-demo");
    fs::copy(program, root.join("executor-demo")).expect("a file");
    let libraries = Command::new("ldd").arg(program).output().expect("ldd runs").stdout;
    let libraries = String::from_utf8(libraries).expect("a text");
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(&library[1..]);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder of tests");
        fs::copy(library, copy).expect("a file");
    }
    root
}

#[test]
fn the_image_needs_nothing_but_its_files_and_writes_to_its_volume_only() {
    // not every machine lets its users have namespaces
    let probe = Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return;
    }
    let folder = folder("deploy-image");
    // it is there after a run of the tests
    let _ = fs::remove_dir_all(folder.join("data"));
    let (root, data) = (image_root(&folder), folder.join("data"));
    fs::create_dir(&data).expect("a folder of tests");
    let entry = words("ENTRYPOINT ").into_iter();
    let entry = entry.map(|word| word.replace("0.0.0.0:8080", "127.0.0.1:0"));
    let mut server = confined(&root, &data, entry);
    let mut server = Killed(server.stdout(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    let output = server.0.stdout.take().expect("it has an output");
    BufReader::new(output).read_line(&mut line).expect("it prints");
    let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/'));
    let address = address.unwrap_or_else(|| panic!("it prints {line:?}")).0;
    let check = words("CMD ").into_iter().map(|word| word.replace("127.0.0.1:8080", address));
    assert_success(&confined(&root, &data, check).output().expect("the check runs"));
    assert!(data.join("shop.db").is_file());
}

/// A folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder of tests");
    folder
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

fn assert_success(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

#[test]
fn systemd_accepts_the_unit() {
    // not every machine has it
    let Some(systemd) = npm::find("systemd-analyze") else { return };
    let unit = folder("deploy-systemd").join("shop.service");
    // the program has to be there
    let program = env!("CARGO_BIN_EXE_executor-demo");
    fs::write(&unit, UNIT.replace("/usr/local/bin/executor-demo", program)).expect("a file");
    let verify = |unit: &Path| {
        let output = Command::new(&systemd).arg("verify").arg(unit).output();
        output.expect("systemd-analyze runs")
    };
    let output = verify(&unit);
    assert_success(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("shop.service"), "{said}");
    // it would say what is wrong
    let wrong = unit.with_file_name("wrong.service");
    fs::write(&wrong, UNIT.replace("CapabilityBoundingSet=", "CapabilitySet=")).expect("a file");
    assert!(String::from_utf8_lossy(&verify(&wrong).stderr).contains("CapabilitySet"));
}

#[test]
fn prometheus_accepts_its_configuration() {
    // `tests/run` installs it where it can, and says so where it cannot
    let Some(promtool) = npm::find("promtool") else { return };
    let file = deploy().join("prometheus.yml");
    let checked =
        Command::new(promtool).args(["check", "config", "--syntax-only"]).arg(file).output();
    assert_success(&checked.expect("promtool runs"));
}

#[test]
fn compose_and_kubernetes_fit_their_schemas_and_the_program() {
    let text = |path: PathBuf| path.into_os_string().into_string().expect("a text");
    let work = text(folder("deploy-kubernetes"));
    let files = npm::summary("deploy.js", &[&text(deploy()), &work]);

    let shop = &files["compose"]["services"]["shop"];
    let command = shop["command"].as_array().expect("a list").iter();
    let command = command.map(|word| word.as_str().expect("a text").to_owned());
    let arguments = words("ENTRYPOINT ").into_iter().chain(command);
    let node = Config::try_parse_from(arguments).expect("options of the program");
    assert!(node.node.nats.nats.is_some());
    // a node ends the requests of other nodes first
    let most = stop_time(&node) + Duration::from_secs(node.grace.into());
    assert!(seconds(&shop["stop_grace_period"]) > most);
    let options = Config::command();
    let variables = options.get_arguments().filter_map(clap::Arg::get_env);
    let variables: Vec<_> = variables.filter_map(|name| name.to_str()).collect();
    for name in shop["environment"].as_object().expect("a map").keys() {
        assert!(name == "RUST_LOG" || variables.contains(&&**name), "{name}");
    }

    let pod = &files["kubernetes"][1]["spec"]["template"]["spec"];
    let grace = pod["terminationGracePeriodSeconds"].as_u64().expect("a number");
    assert!(Duration::from_secs(grace) > stop_time(&container()));
    let program = &pod["containers"][0];
    let probe = |path: &str, period: u32| json!({ "httpGet": { "path": path, "port": "http" }, "periodSeconds": period, "timeoutSeconds": 3 });
    assert_eq!(program["livenessProbe"], probe("/health", 10));
    assert_eq!(program["readinessProbe"], probe("/ready", 5));
    assert!(container().drain_delay >= 2 * 5);
    let user = pod["securityContext"]["runAsUser"].to_string();
    assert!(DOCKERFILE.contains(&format!("\nUSER {user}:{user}\n")));
}

/// A time such as `45s`.
fn seconds(time: &Value) -> Duration {
    let number = time.as_str().and_then(|time| time.strip_suffix('s')).map(str::parse);
    Duration::from_secs(number.expect("it has a unit").expect("a number"))
}
