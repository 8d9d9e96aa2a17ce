//! House rules that no lint knows: layers, file sizes, what may be named where.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file, in lines before its tests: beyond it there is a second idea in the file.
const MAX_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder of the workspace, with their texts.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            if path.ends_with("target") {
                // what fuzzing builds
            } else if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("sources are text");
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

/// Fails with the lines of `folder` that contain any of `words` outside of comments.
fn forbid(folder: &str, words: &[&str], why: &str) {
    let mut broken = Vec::new();
    for (path, text) in sources(folder) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = words.iter().find(|word| code.contains(**word)) {
                broken.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "{why}:\n{}", broken.join("\n"));
}

/// The crates that one of ours needs to run, not only to be compiled, as cargo resolves them.
fn dependencies(package: &str) -> Vec<String> {
    dependencies_with(package, &["--all-features"])
}

fn dependencies_with(package: &str, features: &[&str]) -> Vec<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked"]).args(features).args([
        "-e",
        "normal,no-proc-macro",
        "--prefix",
        "none",
    ]);
    let output = tree.args(["-p", package]).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    text.lines().skip(1).filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn each_crate_knows_only_what_is_below_it() {
    let runtimes = ["actix", "actix-rt", "actix-web", "mio", "tokio"];
    let ours = "asyncsteps-";
    let containers = ["smallvec", "thin-vec"];
    let engine = |features: &str| dependencies_with("asyncsteps-core", &["--features", features]);
    assert_eq!(engine("macros"), containers, "the engine needs nothing else");
    let with_serde = engine("serde");
    let is_below = |name: &String| !runtimes.contains(&&**name) && !name.starts_with(ours);
    assert!(with_serde.iter().all(is_below), "only values of errors need more: {with_serde:?}");
    for dependency in dependencies("asyncsteps-futoin") {
        let is_above = runtimes.contains(&&*dependency) || dependency.starts_with(ours);
        assert!(!is_above, "asyncsteps-futoin needs {dependency}");
    }
    for dependency in dependencies("asyncsteps-ffi") {
        let is_ours = dependency.starts_with(ours) && dependency != "asyncsteps-core";
        let is_above = runtimes.contains(&&*dependency) || is_ours;
        assert!(!is_above, "asyncsteps-ffi needs {dependency}");
    }
    let of_server = dependencies("asyncsteps-server");
    let is_above = |name: &&String| {
        name.starts_with("actix") || name.starts_with(ours) && *name != "asyncsteps-budget"
    };
    let above: Vec<_> = of_server.iter().filter(is_above).collect();
    assert!(above.is_empty(), "asyncsteps-server needs {above:?}");
    for above in ["asyncsteps-executor", "asyncsteps-futoin", "actix-web", "executor-demo"] {
        assert!(!dependencies("asyncsteps-actors").contains(&above.to_owned()), "{above}");
    }
    let above =
        ["transport", "observe", "console", "fabric", "journal"].map(|it| format!("{ours}{it}"));
    for above in above.iter().map(String::as_str).chain(["http", "actix-web", "executor-demo"]) {
        assert!(!dependencies("asyncsteps-executor").contains(&above.to_owned()), "{above}");
    }
    for beside in ["asyncsteps-observe", "asyncsteps-fabric", "asyncsteps-journal"] {
        assert!(!dependencies("asyncsteps-transport").contains(&beside.to_owned()), "{beside}");
    }
    for beside in ["asyncsteps-transport", "asyncsteps-fabric", "asyncsteps-journal"] {
        assert!(!dependencies("asyncsteps-observe").contains(&beside.to_owned()), "{beside}");
    }
    for beside in ["asyncsteps-executor", "asyncsteps-fabric", "asyncsteps-journal"] {
        assert!(!dependencies("asyncsteps-cluster").contains(&beside.to_owned()), "{beside}");
    }
    for beside in ["actix", "asyncsteps-executor", "asyncsteps-fabric", "asyncsteps-console"] {
        assert!(!dependencies("asyncsteps-journal").contains(&beside.to_owned()), "{beside}");
    }
}

#[test]
fn a_service_with_http_has_at_most_120_packages() {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "-p", "seats", "-e", "normal,build"]);
    tree.args(["--prefix", "none", "--no-dedupe"]).current_dir(root());
    let output = tree.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names are text");
    let packages: BTreeSet<_> = text.lines().collect();
    assert!(packages.len() <= 120, "{}: {packages:#?}", packages.len());
}

#[test]
fn an_application_imports_one_crate() {
    let below = [
        "core",
        "actors",
        "executor",
        "transport",
        "observe",
        "durable",
        "fabric",
        "journal",
        "console",
        "futoin",
    ];
    let below: Vec<_> = below.iter().map(|name| format!("asyncsteps_{name}::")).collect();
    let words: Vec<_> = below.iter().map(String::as_str).collect();
    forbid("executor-demo", &words, "an application depends on `asyncsteps` alone");
}

#[test]
fn what_has_no_io_reads_no_clock_and_starts_no_thread() {
    let words = ["Instant::now", "SystemTime", "std::net", "thread::spawn"];
    forbid("engine/steps/src", &words, "the host gives the time and the turns");
    let words = ["Instant::now", "SystemTime", "TcpStream", "thread::spawn"];
    forbid("engine/futoin/src", &words, "definitions and messages are computed");
}

#[test]
fn what_a_simulated_cluster_runs_draws_nothing_but_from_its_seed() {
    let simulated = [
        "actors/cluster/src",
        "actors/durable/src",
        "actors/executor/src/executor",
        "actors/executor/src/plan",
        "actors/fabric/src/nats",
    ];
    for folder in simulated {
        let words = ["getrandom::fill", "SystemClock", "RandomState", "SystemTime::now"];
        forbid(folder, &words, "a seed decides on names and clocks");
        for (path, text) in sources(folder) {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let lines: Vec<&str> = code.collect();
            let in_order = |pair: &[&str]| pair[1].trim() == "biased;";
            let looks = lines.windows(2).filter(|pair| pair[0].contains("select! {"));
            let at_random = looks.filter(|pair| !in_order(pair)).count();
            assert_eq!(at_random, 0, "{}: `select!` looks in a random order", path.display());
        }
    }
}

#[test]
fn unsafe_code_lives_in_the_binary_interface_only() {
    let libraries = [
        "engine/budget",
        "engine/steps",
        "engine/futoin",
        "actors/asyncsteps",
        "actors/flows",
        "actors/executor",
        "actors/observe",
        "actors/server",
        "actors/transport",
        "actors/cluster",
        "actors/console",
        "actors/fabric",
        "actors/durable",
        "actors/journal",
        "actors/postgres",
        "actors/simulation",
        "executor-demo",
    ];
    for library in libraries {
        let file = root().join(library).join("src/lib.rs");
        let text = fs::read_to_string(&file).expect("each crate has a library");
        assert!(text.contains("#![forbid(unsafe_code)]"), "{}", file.display());
    }
    // elsewhere the lints deny it, unless a file expects it
    let expects = concat!("expect(unsafe", "_code");
    for place in ["executor-demo", "tests", "engine/steps/tests"] {
        forbid(
            place,
            &[expects],
            "foreign code is called in engine/ffi and its bench, an allocator is beside it",
        );
    }
}

#[test]
fn files_hold_one_idea_each() {
    let mut large = Vec::new();
    let folders = ["engine", "actors", "executor-demo/src", "tests", "benches"];
    for folder in folders {
        for (path, text) in sources(folder) {
            let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
            let lines = code.count();
            if lines > MAX_LINES {
                large.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(large.is_empty(), "files beyond {MAX_LINES} lines:\n{}", large.join("\n"));
}

#[test]
fn no_lint_is_switched_off_without_a_reason_and_no_test_is_skipped() {
    // split, so that this file does not name them
    let marks = [concat!("#[all", "ow("), concat!("#[ign", "ore"), concat!("thread::sl", "eep(")];
    for folder in ["engine", "actors", "executor-demo", "tests", "benches"] {
        forbid(folder, &marks, "use #[expect(.., reason)], virtual time, and run every test");
    }
}
