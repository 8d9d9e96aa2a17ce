//! A request that a step has begun ends before its parent undoes what is in front of that step, whatever crashes.

use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, Retry};
use asyncsteps_durable::jobs::Job;
use asyncsteps_durable::prelude::*;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::{Cx, Functions, Returns, Steps, TypedCall};
use asyncsteps_journal::record::{Ending, Parent, Started};
use asyncsteps_journal::request::{FlowState, Query, Resume};
use asyncsteps_journal::{Event, Uid};
use expect_test::expect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::{Lab, Nothing, at_each_record, result, soon};
use crate::node::run;

/// What the child does, or the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
enum Way {
    Ends,
    /// The child fails.
    Fails,
    /// The child waits for a signal.
    Waits,
    /// The child cancels its parent, and waits.
    Cancels,
    /// The parent fails when the child has completed.
    IsUndone,
}

/// The program whose child cannot undo what it did.
const BROKEN: u32 = 3;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Pay {
    way: Way,
    order: String,
}

impl TypedCall for Pay {
    const FUNCTION: &'static str = "test.lab:1.0:pay";
    type Result = String;
    type Errors = std::convert::Infallible;
}

fn order(steps: &Steps<Lab, Nothing>, way: Way) -> Returns<String> {
    reserves(steps)
        .then_child_undo(
            "pay",
            move |cx, _| Pay { way, order: cx.id().to_owned() },
            async |cx, paid| {
                assert!(paid.starts_with("paid"), "{paid}");
                in_order(cx, "returned");
                Ok(())
            },
        )
        .then("end", async move |cx, paid| {
            cx.count("went on");
            if way == Way::IsUndone { Err("NoEnd".into()) } else { Ok(paid) }
        })
        .recorded()
        .returns()
}

fn reserves(
    steps: &Steps<Lab, Nothing>,
) -> asyncsteps_executor::Step<Lab, Nothing, (), (), String> {
    let reserved = steps.run("reserve", async |cx, ()| {
        cx.count("reserved");
        Ok("a seat".to_owned())
    });
    reserved.recorded().undo(async |cx, _| {
        in_order(cx, "released");
        Ok(())
    })
}

/// Nothing of the child is left when the parent undoes something.
fn in_order<P>(cx: &Cx<Lab, P>, what: &str) {
    for charged in cx.all_counted().keys().filter_map(|it| it.strip_prefix("charged ")) {
        let (refunded, paid) = (format!("refunded {charged}"), format!("paid {}", &charged[..32]));
        if cx.counted(&refunded) + cx.counted(&paid) == 0 {
            cx.count("too early");
        }
    }
    cx.count(what);
}

fn pay(steps: &Steps<Lab, Pay>, durable: &Durable) -> Returns<String> {
    let durable = durable.clone();
    steps
        .run("charge", async |cx, ()| {
            cx.count(format!("charged {}", cx.key()));
            soon().await;
            Ok(())
        })
        .recorded()
        .undo(async |cx, _| {
            soon().await;
            if cx.program == 2 {
                return Err(Error::new("CommError").into());
            }
            if cx.program == BROKEN {
                cx.count("tried to refund");
                return Err(Error::new("Broken").into());
            }
            cx.count(format!("refunded {}", cx.key()));
            Ok(())
        })
        .then("ask", async move |cx, ()| {
            if cx.params.way == Way::Cancels {
                durable.cancel(cx.params.order.parse()?, "its child").await?;
            }
            if cx.params.way == Way::Fails { Err("NoMoney".into()) } else { Ok(()) }
        })
        .recorded()
        .then_when_some(
            "wait",
            |cx, ()| matches!(cx.params.way, Way::Waits | Way::Cancels).then_some(()),
            |steps| steps.wait_signal::<()>("go").returns(),
        )
        .then("paid", async |cx, _| {
            cx.count(format!("paid {}", cx.id()));
            Ok(format!("paid by {}", cx.id()))
        })
        .recorded()
        .returns()
}

/// The step that waits has a limit, and the parent goes on without the child.
fn patient(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    reserves(steps)
        .then_child("pay", |cx, _| Pay { way: Way::Waits, order: cx.id().to_owned() })
        .timeout(Duration::from_secs(30))
        .retry(Retry::attempts(2))
        .recover(async |cx, error| {
            in_order(cx, "recovered");
            Ok(error.code().to_owned())
        })
        .returns()
}

/// Several children at once, one of which fails.
fn several(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    reserves(steps)
        .then_each(
            "items",
            |_, _| vec![Way::Ends, Way::Waits, Way::Fails, Way::Waits],
            |item| {
                item.pass()
                    .then_child("pay", |cx, way| Pay { way: *way, order: cx.id().to_owned() })
                    .returns()
            },
        )
        .then("end", async |_, _| Ok(()))
        .recorded()
        .returns()
}

/// A function that the program does not have.
#[derive(Serialize)]
struct Missing {}

impl TypedCall for Missing {
    const FUNCTION: &'static str = "test.lab:1.0:missing";
    type Result = String;
    type Errors = std::convert::Infallible;
}

fn misses(steps: &Steps<Lab, Nothing>) -> Returns<String> {
    reserves(steps).then_child("call", |_, _| Missing {}).returns()
}

/// The child is not waited for.
fn forgets(steps: &Steps<Lab, Nothing>) -> Returns<()> {
    steps
        .pass()
        .then_submit("pay", |cx, ()| Pay { way: Way::Ends, order: cx.id().to_owned() })
        .undo(async |cx, child| {
            assert!(matches!(child, asyncsteps_core::Undo::Done(_)), "{child:?}");
            cx.count("has undone");
            Ok(())
        })
        .then("end", async |_, _| BodyResult::<()>::Err("NoEnd".into()))
        .recorded()
        .returns()
}

fn functions(durable: &Durable, functions: &mut Functions<Lab>) {
    let ways = [
        ("ends", Way::Ends),
        ("fails", Way::Fails),
        ("waits", Way::Waits),
        ("cancels", Way::Cancels),
        ("isUndone", Way::IsUndone),
    ];
    for (name, way) in ways {
        durable.on(functions, name, move |steps: &Steps<Lab, Nothing>| order(steps, way));
    }
    durable.on(functions, "patient", patient);
    durable.on(functions, "several", several);
    durable.on(functions, "misses", misses);
    durable.on(functions, "forgets", forgets);
    let of_child = durable.clone();
    durable.on(functions, "pay", move |steps: &Steps<Lab, Pay>| pay(steps, &of_child));
}

fn lab() -> Lab {
    Lab::new(functions)
}

/// Runs the function with a crash at each record of parent or child.
async fn each_crash(function: &str, check: impl Fn(&Lab, &Ending)) {
    at_each_record(
        lab,
        function,
        async |_, _| {},
        |lab, ending, crash| {
            assert_eq!(lab.counted("too early"), 0, "{crash:?}: {:?}", lab.all_counted());
            check(lab, ending);
        },
    )
    .await;
}

/// How many things of this kind were done.
fn all(lab: &Lab, what: &str) -> usize {
    lab.all_counted().keys().filter(|it| it.starts_with(what)).count()
}

fn code(ending: &Ending) -> &str {
    match ending {
        Ending::Failed(failure) => &failure.code,
        Ending::Cancelled => "Cancelled",
        other @ (Ending::Completed(_) | _) => panic!("{other:?}"),
    }
}

#[test]
fn the_result_of_a_child_is_that_of_its_step_whichever_record_was_last() {
    run(each_crash("ends", |lab, ending| {
        assert!(result::<String>(ending).starts_with("paid by "));
        assert_eq!(all(lab, "returned") + all(lab, "refunded"), 0);
    }));
}

#[test]
fn the_error_of_a_child_is_that_of_its_step() {
    run(each_crash("fails", |lab, ending| {
        assert_eq!(code(ending), "InternalError");
        assert_eq!(lab.counted("released").min(1), 1, "{:?}", lab.all_counted());
        assert_eq!(all(lab, "paid") + all(lab, "returned") + all(lab, "went on"), 0);
    }));
}

#[test]
fn a_child_of_a_cancelled_parent_is_undone_first() {
    run(each_crash("cancels", |lab, ending| {
        assert_eq!(code(ending), "Cancelled");
        assert!(all(lab, "refunded") > 0 && lab.counted("released") > 0);
        assert_eq!(all(lab, "paid") + all(lab, "returned") + all(lab, "went on"), 0);
    }));
}

#[test]
fn a_child_that_has_completed_is_undone_by_its_parent() {
    run(each_crash("isUndone", |lab, ending| {
        assert_eq!(code(ending), "InternalError");
        assert!(lab.counted("returned") > 0 && lab.counted("released") > 0);
        assert_eq!(all(lab, "refunded"), 0);
    }));
}

#[test]
fn a_step_whose_time_is_over_ends_its_child_and_a_further_attempt_begins_another() {
    run(each_crash("patient", |lab, ending| {
        assert_eq!(result::<String>(ending), "Timeout");
        assert!(all(lab, "refunded") >= 2, "{:?}", lab.all_counted());
        assert_eq!(all(lab, "paid"), 0);
    }));
}

#[test]
fn the_children_of_all_items_end_before_what_is_in_front_of_them_is_undone() {
    run(each_crash("several", |lab, ending| {
        assert_eq!(code(ending), "InternalError");
        assert!(lab.counted("released") > 0, "{:?}", lab.all_counted());
    }));
}

#[test]
fn a_child_that_cannot_be_stored_is_an_error_of_its_step() {
    run(each_crash("misses", |lab, ending| {
        assert_eq!(code(ending), "InternalError");
        assert_eq!(lab.counted("released").min(1), 1, "{:?}", lab.all_counted());
    }));
}

#[test]
fn a_child_that_is_not_waited_for_goes_on_without_its_parent() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.unwrap();
        let uid = lab.submit(&journal, "forgets", Options::default()).await;
        assert_eq!(code(&durable.ended(uid).await.unwrap()), "InternalError");
        assert_eq!(lab.counted("has undone"), 1);
        let child = durable.children(uid).await.unwrap().remove(0);
        assert_eq!(child.step, "test.lab:1:forgets/pay");
        assert!(started(&durable, child.uid).await.parent.is_some_and(|parent| !parent.waits));
        let paid: String = durable.result(child.uid).await.unwrap();
        assert_eq!(paid, format!("paid by {}", child.uid));
    });
}

async fn until(durable: &Durable, uid: Uid, state: FlowState) {
    while durable.status(uid).await.expect("it is known").flow.state != state {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn parent_and_child_know_each_other() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.unwrap();
        let uid = lab.submit(&journal, "waits", Options::default()).await;
        until(&durable, uid, FlowState::Parked).await;
        let child = durable.children(uid).await.unwrap().remove(0);
        assert_eq!(child.step, "test.lab:1:waits/pay/begin");
        let [of_parent, of_child] =
            [started(&durable, uid).await, started(&durable, child.uid).await];
        assert_eq!(of_child.user, of_parent.user);
        assert_eq!(
            of_child.parent,
            Some(Parent { uid, step: child.step.parse().unwrap(), waits: true })
        );
        // it is not looked for, but woken
        durable.signal(child.uid, "go", ()).await.unwrap();
        let began = tokio::time::Instant::now();
        let paid: String = durable.result(uid).await.unwrap();
        assert_eq!(paid, format!("paid by {}", child.uid));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    });
}

async fn started(durable: &Durable, uid: Uid) -> Started {
    let first = durable.records(uid).await.expect("they can be read").remove(0).record.event;
    let Event::Started(started) = first else { panic!("{first:?}") };
    started
}

#[test]
fn the_undo_of_a_parent_waits_for_that_of_its_child_and_says_so() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.clone().with_program(2).process(journal.clone());
        let node = durable.start(&executor).await.unwrap();
        let uid = lab.submit(&journal, "cancels", Options::default()).await;
        let reason = loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let reason = durable.status(uid).await.unwrap().flow.reason.unwrap_or_default();
            if reason.contains("waits for the request") {
                break reason;
            }
        };
        let child = durable.children(uid).await.unwrap().remove(0);
        assert!(reason.ends_with(&format!("{} waits for the request {}", child.step, child.uid)));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(all(&lab, "released"), 0);
        node.stop().await;
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.unwrap();
        assert_eq!(code(&durable.ended(uid).await.unwrap()), "Cancelled");
        assert_eq!(all(&lab, "refunded"), 1);
        assert_eq!(lab.counted("released"), 1);
        let cancel = durable.status(child.uid).await.unwrap().flow.cancel.unwrap();
        assert_eq!(cancel.by, format!("the request {uid} that began it").as_str().into());
    });
}

#[test]
fn a_child_that_waits_for_an_operator_does_not_go_on_because_of_its_parent() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.clone().with_program(BROKEN).process(journal.clone());
        let node = durable.start(&executor).await.unwrap();
        let uid = lab.submit(&journal, "cancels", Options::default()).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let child = durable.children(uid).await.unwrap().remove(0).uid;
        assert_eq!(durable.status(child).await.unwrap().flow.state, FlowState::Paused);
        assert_eq!((lab.counted("tried to refund"), lab.counted("released")), (1, 0));
        node.stop().await;
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.unwrap();
        durable.resume(child, Resume::Continue).await.unwrap();
        assert_eq!(code(&durable.ended(uid).await.unwrap()), "Cancelled");
        assert_eq!((all(&lab, "refunded"), lab.counted("released")), (1, 1));
    });
}

#[test]
fn the_plan_shows_the_child() {
    run(async {
        let lab = lab();
        let (_durable, executor) = lab.process(lab.journal());
        let plans = executor.plans();
        let text = |name: &str| {
            let plan = plans.iter().find(|plan| plan.function.ends_with(name)).unwrap();
            let text = plan.to_text();
            text.split('\n')
                .map(|line| line.rsplit_once("  children.rs").map_or(line, |it| it.0))
                .collect::<Vec<_>>()
                .join("\n")
        };
        expect![[r#"
            test.lab:1.0:ends: 5 steps
            ├─ reserve  () -> String  [recorded, undo]
            ├─ pay  nested  String -> String
            │  ├─ begin  [begins test.lab:1.0:pay, cancelled with it, recorded, undo taking]
            │  └─ result  Uid -> String  [waits]
            └─ end  String -> String  [recorded]"#]]
        .assert_eq(&text(":ends"));
        expect![[r#"
            test.lab:1.0:forgets: 2 steps
            ├─ pay  () -> Uid  [begins test.lab:1.0:pay, recorded, undo]
            └─ end  Uid -> ()  [recorded]"#]]
        .assert_eq(&text(":forgets"));
    });
}

#[test]
fn a_list_of_jobs_names_the_parent_of_a_child() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        let (durable, executor) = lab.process(journal.clone());
        let _node = durable.start(&executor).await.unwrap();
        let uid = lab.submit(&journal, "ends", Options::default().key("order 4711")).await;
        durable.ended(uid).await.unwrap();
        let all = durable.list(Query { limit: 10, ..Query::default() }).await.unwrap();
        let jobs: Vec<_> = all.iter().map(Job::from).collect();
        let named = |job: &Job| (job.parent.clone(), job.key.clone());
        assert_eq!(named(&jobs[0]), (None, Some("order 4711".to_owned())));
        assert_eq!(named(&jobs[1]), (Some(uid.to_string()), None));
    });
}
