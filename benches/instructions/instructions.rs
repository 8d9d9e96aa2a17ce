//! What operations cost in instructions, counted by valgrind's callgrind: times drift with the
//! machine, instructions do not. Rows over TCP have their client in them, which is the same in each.
//!
//! Each workload runs twice in a process of its own, small and large; the difference, divided by the
//! operations between, is what one of them costs. Start and set-up fall out.
//!
//! - `cargo bench -p asyncsteps-instructions` prints the table beside the baseline of the repository.
//! - `-- --check`, which `tests/run` calls, fails if a workload takes over 2 % more than its baseline.
//!   With another rustc, libc or processor family than the baseline's the table is printed and nothing
//!   fails.
//! - `-- --record` writes a new baseline.

#[path = "../workloads/async_steps.rs"]
mod async_steps;
#[path = "../support/callgrind.rs"]
mod callgrind;
#[path = "../workloads/dropping.rs"]
mod dropping;
#[path = "../workloads/echo.rs"]
mod echo;
#[path = "../workloads/echo_servers.rs"]
mod echo_servers;
#[path = "../workloads/functions.rs"]
mod functions;
#[path = "../workloads/order.rs"]
mod order;
#[path = "../workloads/recorded.rs"]
mod recorded;
#[path = "../workloads/router.rs"]
mod router;
#[path = "../workloads/steps.rs"]
mod steps;
#[path = "../workloads/templates.rs"]
mod templates;
#[path = "../workloads/waits.rs"]
mod waits;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, str};

use asyncsteps_actors::flow::{spawn_flow, start_flow};
use asyncsteps_core::Template;
use callgrind::{collected, counted};
use steps::{Fixture, WORKLOADS};
use templates::{ALL, NONE, Policies, STEPS};

/// How much more than its baseline a workload may take: less than what is worth a look, more than
/// what hash seeds and addresses change.
const TOLERANCE: f64 = 1.02;

/// How often a row over its baseline is counted.
const TIMES: u32 = 3;

/// Has this program run one workload so often: `--one NAME OPERATIONS`.
const ONE: &str = "--one";

/// What the demo and the template have their memory from.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A workload that does so many operations.
struct Counted {
    id: &'static str,
    run: Box<dyn Fn(u32)>,
    /// Operations of the small and of the large run.
    sizes: (u32, u32),
    /// Counted is what each of the steps has more than in another row, and how many steps that are.
    more_than: Option<(&'static str, u32)>,
}

fn workloads() -> Vec<Counted> {
    let mut all = Vec::new();
    for workload in &WORKLOADS {
        let run = workload.run;
        let runs = move |operations: u32| {
            let fixture = Fixture::new();
            (0..operations / workload.per).for_each(|_| run(&fixture));
        };
        let sizes = (2_000 * workload.per.min(10), 12_000 * workload.per.min(10));
        all.push(Counted { id: workload.id, run: Box::new(runs), sizes, more_than: None });
    }
    all.extend(template_workloads());
    all.extend(recorded_workloads());
    let mut add = |id, sizes, run: fn(u32)| {
        all.push(Counted { id, run: Box::new(run), sizes, more_than: None });
    };
    add("async step, one of ten", (20_000, 120_000), async_steps::in_flows);
    add("boxed async fn, one of ten", (20_000, 120_000), async_steps::by_hand);
    add("waiting, per root", (1_000, 5_000), waits::roots_by_hand);
    add("wait loop, per iteration", (2_000, 20_000), waits::loops_by_hand);
    add("simple on Manual", (1_000, 5_000), waits::simple_on_manual);
    add("simple on Manual, as a promise", (1_000, 5_000), waits::promises_on_manual);
    add("waiting on Manual, per root", (1_000, 5_000), waits::roots_on_manual);
    add("wait loop on Manual, per iteration", (2_000, 20_000), waits::loops_on_manual);
    add("waiting on Manual, per task by hand", (1_000, 5_000), waits::tasks_on_manual);
    add("wait loop on Manual, per iteration by hand", (2_000, 20_000), waits::task_loops_on_manual);
    add("hosted flow, first turn", (1_000, 5_000), hosted_at_once);
    add("hosted flow, spawned", (1_000, 5_000), hosted_later);
    add("function as a template, in process", (200, 1_200), functions::of_template);
    add("function with types, in process", (200, 1_200), functions::with_types);
    add("the demo's order, in process", (200, 1_200), order::as_plan);
    add("the demo's order as one body, in process", (200, 1_200), order::as_one_body);
    add("HTTP request", (100, 600), echo::in_process);
    add("HTTP request to a bare handler", (100, 600), echo::bare_in_process);
    add("request to an axum router", (200, 1_200), router::requests);
    add("HTTP echo over TCP", (200, 1_200), echo::own);
    add("HTTP echo over TCP, mounted", (200, 1_200), echo::mounted);
    add("HTTP echo over TCP, bare actix-web", (200, 1_200), echo::bare_on_actix_web);
    add("HTTP echo over TCP, bare hyper", (200, 1_200), echo::bare_on_hyper);
    add("WebSocket echo over TCP", (200, 1_200), echo::web_socket);
    add("WebSocket echo over TCP, one of a burst of ten", (2_000, 12_000), echo::bursts);
    all
}

/// Async steps of templates and of flows, and what policies add to each of them.
fn template_workloads() -> impl Iterator<Item = Counted> {
    const TEN: &str = "template of ten async steps";
    const TEN_ADDED: &str = "ten async steps";
    const WAITING: &str = "template of a step that waits once";
    let row = |id, more_than, run: fn(u32)| Counted {
        id,
        run: Box::new(run),
        sizes: (500, 3_000),
        more_than,
    };
    [
        row(TEN, None, |flows| templates::in_template(flows, NONE)),
        row("timeout, added to each", Some((TEN, STEPS)), |flows| {
            templates::in_template(flows, Policies { timeout: true, ..NONE });
        }),
        row("retry, added to each", Some((TEN, STEPS)), |flows| {
            templates::in_template(flows, Policies { retry: true, ..NONE });
        }),
        row("undo, added to each", Some((TEN, STEPS)), |flows| {
            templates::in_template(flows, Policies { undo: true, ..NONE });
        }),
        row("timeout, retry, undo, added to each", Some((TEN, STEPS)), |flows| {
            templates::in_template(flows, ALL);
        }),
        row(TEN_ADDED, None, |flows| templates::in_flow(flows, NONE)),
        row("all three, added to a step of a flow", Some((TEN_ADDED, STEPS)), |flows| {
            templates::in_flow(flows, ALL);
        }),
        row(WAITING, None, |flows| templates::waits_in_template(flows, NONE)),
        row("all three, added to one that waits", Some((WAITING, 1)), |flows| {
            templates::waits_in_template(flows, ALL);
        }),
        row("flow of a step that waits once", None, templates::waits_in_flow),
    ]
    .into_iter()
}

/// Steps of durable functions, and of others.
fn recorded_workloads() -> impl Iterator<Item = Counted> {
    const TEN: &str = "function of ten steps, in process";
    const TEN_DURABLE: &str = "ten durable steps without storage";
    const SILENT: &str = "ten durable steps that emit nothing";
    let row = |id, more_than, run: fn(u32)| Counted {
        id,
        run: Box::new(run),
        sizes: (200, 1_200),
        more_than,
    };
    [
        row(TEN, None, |calls| recorded::in_memory(calls, false)),
        row("step of a function", Some((TEN, STEPS)), |calls| recorded::in_memory(calls, true)),
        row(TEN_DURABLE, None, |calls| recorded::durable(calls, false)),
        row("durable step without storage", Some((TEN_DURABLE, STEPS)), |calls| {
            recorded::durable(calls, true);
        }),
        row(SILENT, None, |calls| recorded::emitting(calls, false)),
        row("event of a durable step", Some((SILENT, STEPS)), |calls| {
            recorded::emitting(calls, true);
        }),
    ]
    .into_iter()
}

fn one() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| asi.success(black_box(1u32)));
    })
}

fn hosted_at_once(flows: u32) {
    let one = one();
    actix_rt::System::new().block_on(async {
        for _ in 0..flows {
            black_box(start_flow::<u32>(&one).await.is_ok());
        }
    });
}

fn hosted_later(flows: u32) {
    let one = one();
    actix_rt::System::new().block_on(async {
        for _ in 0..flows {
            black_box(spawn_flow::<u32>(&one).await.is_ok());
        }
    });
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == ONE) {
        run_one(&args[at + 1], &args[at + 2]);
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--test") {
        // it only has to work
        workloads().iter().for_each(|workload| (workload.run)(workload.sizes.0));
        return ExitCode::SUCCESS;
    }
    let baseline = Baseline::read();
    match count_all(baseline.as_ref()) {
        Some(rows) => finish(&rows, baseline, &args),
        None => {
            print("valgrind is not installed: no instructions are counted");
            ExitCode::SUCCESS
        }
    }
}

fn run_one(id: &str, operations: &str) {
    let all = workloads();
    let workload = all.iter().find(|workload| workload.id == id).expect("a workload");
    (workload.run)(operations.parse().expect("a number"));
}

/// The instructions of each row; `None` without valgrind. On a machine that does other work, threads wake each other more
/// often, which only adds: a row over its baseline is counted again.
fn count_all(baseline: Option<&Baseline>) -> Option<Vec<(&'static str, f64)>> {
    let (mut whole, mut rows) = (HashMap::<_, f64>::new(), Vec::new());
    for Counted { id, sizes: (small, large), more_than, .. } in workloads() {
        let mut least = f64::INFINITY;
        for _ in 0..TIMES {
            let (less, more) = (count(id, small)?, count(id, large)?);
            let per_operation = (more - less) / f64::from(large - small);
            let counted = match more_than {
                Some((other, steps)) => (per_operation - whole[other]) / f64::from(steps),
                None => per_operation,
            };
            least = least.min(counted);
            let known = whole.entry(id).or_insert(per_operation);
            *known = known.min(per_operation);
            if !baseline.is_some_and(|baseline| baseline.is_over(id, least)) {
                break;
            }
        }
        rows.push((id, least));
    }
    Some(rows)
}

/// The instructions of a process that does so many operations; `None` without valgrind.
fn count(id: &str, operations: u32) -> Option<f64> {
    let output = counted().args([ONE, id, &operations.to_string()]).output().ok()?;
    assert!(output.status.success(), "{id}: {}", String::from_utf8_lossy(&output.stderr));
    Some(collected(&output.stderr))
}

/// The baseline of the repository.
struct Baseline {
    tools: String,
    rows: Vec<(String, f64)>,
}

impl Baseline {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.tsv")
    }

    /// What the figures depend on beside the code.
    fn tools() -> String {
        let line = |program: &str, arg: &str| {
            let output = Command::new(program).arg(arg).output().ok()?;
            str::from_utf8(&output.stdout).ok()?.lines().next().map(str::to_owned)
        };
        let (rustc, libc) = (line("rustc", "--version"), line("ldd", "--version"));
        let (rustc, libc) = (rustc.unwrap_or_default(), libc.unwrap_or_default());
        format!("{rustc}, {libc}, {}", Self::vectors())
    }

    /// Which instructions the functions of libc and of `memchr` choose from: valgrind shows programs
    /// a processor that depends on that of the machine in this alone.
    fn vectors() -> &'static str {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return "AVX2";
        }
        env::consts::ARCH
    }

    fn read() -> Option<Self> {
        let text = fs::read_to_string(Self::path()).ok()?;
        let mut lines = text.lines();
        let tools = lines.next()?.strip_prefix("# ")?.to_owned();
        let row = |line: &str| {
            let (id, value) = line.split_once('\t')?;
            Some((id.to_owned(), value.parse().ok()?))
        };
        Some(Self { tools, rows: lines.skip(1).filter_map(row).collect() })
    }

    fn write(rows: &[(&str, f64)]) {
        let mut text = format!("# {}\nworkload\tinstructions\n", Self::tools());
        for (id, value) in rows {
            // writing to a string cannot fail
            let _ = writeln!(text, "{id}\t{value:.0}");
        }
        fs::write(Self::path(), text).expect("the baseline can be written");
    }

    fn is_over(&self, id: &str, value: f64) -> bool {
        self.of(id).is_some_and(|base| value / base > TOLERANCE)
    }

    fn of(&self, id: &str) -> Option<f64> {
        self.rows.iter().find(|(other, _)| other == id).map(|(_, value)| *value)
    }
}

fn finish(
    rows: &[(&'static str, f64)],
    mut baseline: Option<Baseline>,
    args: &[String],
) -> ExitCode {
    if args.iter().any(|arg| arg == "--record") {
        Baseline::write(rows);
        baseline = Baseline::read();
    }
    let mut tsv = "workload\tvalue\tunit\tbaseline\tratio\ttarget\n".to_owned();
    let mut over = Vec::new();
    for (id, value) in rows {
        let base = baseline.as_ref().and_then(|baseline| baseline.of(id));
        let ratio = base.map(|base| value / base);
        if baseline.as_ref().is_some_and(|baseline| baseline.is_over(id, *value)) {
            over.push(*id);
        }
        let (base, ratio) =
            (base.map(|base| format!("{base:.0}")), ratio.map(|r| format!("{r:.3}")));
        let (base, ratio) = (base.unwrap_or_default(), ratio.unwrap_or_default());
        print(&format!("{id:<40} {value:>9.0} {base:>9} {ratio:>7}"));
        // writing to a string cannot fail
        let _ = writeln!(tsv, "{id}\t{value:.0}\tinstructions\t{base}\t{ratio}\t1.02");
    }
    write_table(&tsv);
    let is_checked = args.iter().any(|arg| arg == "--check");
    match baseline {
        Some(baseline) if baseline.tools != Baseline::tools() => {
            print(&format!("the baseline was counted with {}", baseline.tools));
            ExitCode::SUCCESS
        }
        Some(_) if is_checked && !over.is_empty() => {
            print(&format!("over the baseline by more than 2 %: {}", over.join("; ")));
            ExitCode::FAILURE
        }
        Some(_) | None => ExitCode::SUCCESS,
    }
}

fn write_table(tsv: &str) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let workspace = workspace.expect("this is `benches/instructions` of it");
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let file = target.join("bench/instructions.tsv");
    let folder = file.parent().expect("a file is in a folder");
    match fs::create_dir_all(folder).and_then(|()| fs::write(&file, tsv)) {
        Ok(()) => print(&format!("written to {}", file.display())),
        Err(error) => print(&format!("cannot write {}: {error}", file.display())),
    }
}

#[expect(clippy::print_stdout, reason = "a bench is there to print")]
fn print(line: &str) {
    println!("{line}");
}
