//! The promise: the plan of a function can be read before a request comes, as data, as a text and as a drawing.

use std::ops::ControlFlow;
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{BodyResult, Error, Retry, Template, sync::mutex::Options};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::plan::{Form, FunctionKind, Plan, UndoForm};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Either, Executor, Returns, Service, Steps};
use expect_test::expect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

struct Travel {
    seats: Mutex,
}

impl Service for Travel {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Trip {
    car: Option<String>,
    items: Vec<String>,
}

/// A function with a step of each form and each policy.
fn book(steps: &Steps<Travel, Trip>) -> Returns<String> {
    steps.answer_within(Duration::from_secs(2), || Error::new("InternalError"));
    steps.locked(|cx| cx.params.car.as_ref().map(|car| cx.seats.key(car)));
    steps
        .run("look", async |cx, ()| Ok(cx.params.car.clone().filter(String::is_empty)))
        .unless_some()
        .then("count", async |cx, ()| Ok(cx.params.items.len()))
        .retry(Retry::attempts(3).backoff(Duration::from_millis(50)).within(Duration::from_secs(1)))
        .timeout(Duration::from_millis(300))
        .undo(async |_, _| Ok(()))
        .then_join("reserve", |all| {
            (
                all.run("seat", async |_, count| Ok(count)).undo_taking(async |_, _, _| Ok(())),
                all.run("room", async |_, _| Ok(7)).then("room", async |_, room: u32| Ok(room + 1)),
                all.when_some(
                    "car",
                    |cx, _| cx.params.car.clone(),
                    |car| car.run("rent", async |_, car| Ok(car)).shielded().returns(),
                ),
            )
        })
        .then("items", async |cx, _| Ok(cx.params.items.clone()))
        .then_each(
            "all",
            |_, items| items,
            |item| item.run("take", async |_, item| Ok(item)).returns(),
        )
        .at_once(4)
        .then("begin", async |_, all| Ok(all.len()))
        .then_repeat("poll", |poll| {
            poll.run("ask", async |_, asked: usize| {
                Ok(if asked > 2 {
                    ControlFlow::Break(asked)
                } else {
                    ControlFlow::Continue(asked + 1)
                })
            })
            .returns()
        })
        .then("how", async |_, asked| Ok(if asked > 2 { Either::A(()) } else { Either::B(asked) }))
        .either(
            "pay",
            |gift| gift.pass().returns(),
            |card| {
                card.run("card", async |_, _| Ok(()))
                    .then_nested("check", |check| check.run("card", async |_, ()| Ok(())).returns())
                    .returns()
            },
        )
        .dynamic("stages", |stages, ()| stages.run("stage", async |_, ()| Ok(())).returns())
        .then_nested("offers", |offers| {
            offers
                .race(
                    "ask",
                    |cx, ()| cx.params.items.clone(),
                    |one| one.run("offer", async |_, item| Ok(item)).returns(),
                )
                .first(3)
                .within(Duration::from_millis(200))
                .returns()
        })
        .then("note", async |_, _| Ok("noted".to_owned()))
        .as_one()
        .recover(async |_, _| Ok("recovered".to_owned()))
        .then("tell", async |_, told| Ok(told))
        .limited(|cx| cx.seats.key("tell"))
        .limited(|cx| cx.seats.key("others"))
        .returns()
}

/// Names that would be orders to a terminal, a drawing or a page.
fn hostile(steps: &Steps<Travel, Trip>) -> Returns<()> {
    steps
        .run("a\"]\n    n0 --> n9[\"b", async |_, ()| Ok(()))
        .then_nested("end<script><b>`%%{init: 1}`", |inside| {
            inside.run("1. \u{1b}[31m\u{202e}- x;", async |_, ()| Ok(())).returns()
        })
        .returns()
}

/// Steps that are so deep inside of others.
fn deep(steps: &Steps<Travel, Trip>, depth: usize) -> Returns<()> {
    match depth {
        0 => steps.run("leaf", async |_, ()| Ok(())).returns(),
        _ => steps.nested("around", |inside| deep(inside, depth - 1)).returns(),
    }
}

async fn simple(cx: &Cx<Travel, Trip>) -> BodyResult<i32> {
    Ok(cx.params.items.len().try_into()?)
}

const PING: &str = r#"{
    "iface": "acme.ping", "version": "1.0", "ftn3rev": "1.9",
    "funcs": { "ping": { "result": "integer" }, "pong": { "result": "integer" } }
}"#;

fn executor() -> Executor {
    let source = Source::texts([("acme.ping-1.0-iface.json", PING)]);
    let id = "acme.ping:1.0".parse().expect("a name");
    let ping = Loader::new([source]).load(&id).expect("a definition");
    let travel = Travel { seats: Mutex::new(Options::default()) };
    Executor::builder()
        .service(Interface::new("acme.travel:1.0".parse().expect("a name")), travel, |functions| {
            functions.on("simple", simple).on("book", book).on("hostile", hostile);
        })
        .interface(ping, |functions| {
            functions.add("ping", &Template::build(|_| {})).not_implemented("pong");
        })
        .build()
        .expect("the plans are right")
}

fn plan_of(function: &str) -> Plan {
    let plans = executor().plans();
    let found = plans.iter().find(|plan| plan.function == format!("acme.travel:1.0:{function}"));
    Plan::clone(found.expect("a function"))
}

/// The text without the numbers of lines, which change with this file.
fn without_lines(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once(".rs:") {
        Some((line, _)) => format!("{line}.rs"),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_functions_are_listed_by_name_whether_they_have_a_plan_or_not() {
    let plans = executor().plans();
    let listed: Vec<_> = plans.iter().map(|plan| (plan.function.as_str(), plan.kind)).collect();
    assert_eq!(
        listed,
        [
            ("acme.ping:1.0:ping", FunctionKind::Template),
            ("acme.ping:1.0:pong", FunctionKind::NotImplemented),
            ("acme.travel:1.0:book", FunctionKind::Plan),
            ("acme.travel:1.0:hostile", FunctionKind::Plan),
            ("acme.travel:1.0:simple", FunctionKind::Plan),
        ]
    );
    let texts: Vec<_> = plans.iter().map(|plan| without_lines(&plan.to_text())).collect();
    expect![[r#"
        acme.ping:1.0:ping: a template, which has no plan
        acme.ping:1.0:pong: not implemented
        acme.travel:1.0:simple: 1 step
        └─ simple  () -> i32  plan_data.rs"#]]
    .assert_eq(&[&texts[0], &texts[1], &texts[4]].map(String::as_str).join("\n"));
}

#[test]
fn a_step_is_described_with_all_that_is_said_of_it() {
    let plan = plan_of("book");
    assert_eq!(plan.answer_within, Some(2000.0));
    let whole = &plan.steps[0];
    assert_eq!((whole.form, whole.path.as_str(), whole.locks), (Form::Group, "", 1));
    let steps = &whole.ways[0];
    let grouped = &steps[0];
    assert!(grouped.recovers && grouped.path.is_empty());
    let mut count = grouped.ways[0][2].clone();
    assert!(count.source.starts_with("actors/executor/tests/it/plan_data.rs:"), "{}", count.source);
    count.source.clear();
    expect![[r#"
        PlanStep {
            path: "count",
            name: "count",
            form: Body,
            takes: "()",
            returns: "usize",
            source: "",
            locks: 0,
            limiters: 0,
            timeout: Some(
                300.0,
            ),
            retry: Some(
                PlanRetry {
                    attempts: 3,
                    pause: 50.0,
                    within: Some(
                        1000.0,
                    ),
                },
            ),
            undo: Some(
                OfResult,
            ),
            recovers: false,
            is_shielded: false,
            commits: false,
            durable: None,
            child: None,
            is_signal: false,
            at_once: None,
            first: None,
            at_least: None,
            ways: [],
        }
    "#]]
    .assert_debug_eq(&count);
    let reserve = &grouped.ways[0][3];
    assert_eq!(reserve.ways.len(), 3);
    assert_eq!(reserve.ways[0][0].undo, Some(UndoForm::OfInputAndResult));
    assert_eq!(reserve.ways[1][1].path, "reserve/room~2");
    assert!(reserve.ways[2][0].ways[0][0].is_shielded);
    assert_eq!(steps[1].limiters, 2);
    let json: Value = serde_json::to_value(&count).expect("JSON");
    assert_eq!(json["retry"]["attempts"], 3);
    assert_eq!(json["form"], "body");
}

#[test]
fn a_plan_is_read_as_a_tree() {
    let text = plan_of("book").to_text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    expect![[r#"
        acme.travel:1.0:book: 28 steps, answers within 2000 ms
        └─ as one  () -> String  [locked]  plan_data.rs
           ├─ as one  () -> String  [recovers]  plan_data.rs
           │  ├─ look  () -> Option<String>  plan_data.rs
           │  ├─ or end  Option<String> -> ()  plan_data.rs
           │  ├─ count  [timeout 300 ms, retry 3 after 50 ms within 1000 ms, undo]  plan_data.rs
           │  ├─ reserve  join  usize -> (usize, u32, Option<String>)  plan_data.rs
           │  │  ├─ 1 seat  usize -> usize  [undo taking]  plan_data.rs
           │  │  ├─ 2 room  usize -> u32  plan_data.rs
           │  │  ├─ 2 room~2  u32 -> u32  plan_data.rs
           │  │  └─ 3 car  when  usize -> Option<String>  plan_data.rs
           │  │     └─ rent  String -> String  [shielded]  plan_data.rs
           │  ├─ items  (usize, u32, Option<String>) -> Vec<String>  plan_data.rs
           │  ├─ all  each  Vec<String> -> Vec<String>  [4 at once]  plan_data.rs
           │  │  └─ take  String -> String  plan_data.rs
           │  ├─ begin  Vec<String> -> usize  plan_data.rs
           │  ├─ poll  repeat  usize -> usize  plan_data.rs
           │  │  └─ ask  usize -> ControlFlow<usize, usize>  plan_data.rs
           │  ├─ how  usize -> Either<(), usize>  plan_data.rs
           │  ├─ pay  either  Either<(), usize> -> ()  plan_data.rs
           │  │  ├─ 2 card  usize -> ()  plan_data.rs
           │  │  └─ 2 check  nested  () -> ()  plan_data.rs
           │  │     └─ card  () -> ()  plan_data.rs
           │  ├─ stages  dynamic  () -> ()  plan_data.rs
           │  ├─ offers  nested  () -> Vec<String>  plan_data.rs
           │  │  └─ ask  race  () -> Vec<String>  [first 3, timeout 200 ms]  plan_data.rs
           │  │     └─ offer  String -> String  plan_data.rs
           │  └─ note  Vec<String> -> String  plan_data.rs
           └─ tell  String -> String  [limited x2]  plan_data.rs"#]]
    .assert_eq(&without_lines(&text));
}

#[test]
fn a_plan_is_drawn_as_a_flowchart() {
    expect![[r#"
        flowchart TD
            n0(["acme.travel:1.0:book<br/>answers within 2000 ms"])
            subgraph n1 ["as one, locked"]
                subgraph n2 ["as one, recovers"]
                    n3["look"]
                    n4{"or end"}
                    n5["count<br/>timeout 300 ms, retry 3 after 50 ms within 1000 ms, undo"]
                    n6{{"reserve"}}
                    n7["seat<br/>undo taking"]
                    n8["room"]
                    n9["room#126;2"]
                    n10{"car"}
                    n11["rent<br/>shielded"]
                    n12["items"]
                    subgraph n13 ["all<br/>each, 4 at once"]
                        n14["take"]
                    end
                    n15["begin"]
                    subgraph n16 ["poll<br/>repeat"]
                        n17["ask"]
                    end
                    n18["how"]
                    n19{"pay"}
                    n20["card"]
                    subgraph n21 ["check<br/>nested"]
                        n22["card"]
                    end
                    n23[["stages"]]
                    subgraph n24 ["offers<br/>nested"]
                        subgraph n25 ["ask<br/>race, first 3, timeout 200 ms"]
                            n26["offer"]
                        end
                    end
                    n27["note"]
                end
                n28["tell<br/>limited x2"]
            end
            n29(["returns"])
            n0 --> n3
            n3 --> n4
            n4 --> n5
            n5 --> n6
            n6 -->|1| n7
            n6 -->|2| n8
            n8 --> n9
            n6 -->|3| n10
            n10 -->|some| n11
            n7 --> n12
            n9 --> n12
            n11 --> n12
            n10 -->|none| n12
            n12 --> n14
            n14 --> n15
            n15 --> n17
            n17 -.->|again| n17
            n17 --> n18
            n18 --> n19
            n19 -->|2| n20
            n20 --> n22
            n19 -->|1| n23
            n22 --> n23
            n23 --> n26
            n26 --> n27
            n27 --> n28
            n4 -->|ends| n28
            n28 --> n29
    "#]]
    .assert_eq(&plan_of("book").to_mermaid());
}

#[test]
fn names_stay_texts_in_every_form() {
    let plan = plan_of("hostile");
    let text = plan.to_text();
    assert_eq!(text.lines().count(), 4, "{text}");
    expect![[r#"
        acme.travel:1.0:hostile: 3 steps
        ├─ a"]\n    n0 --> n9["b  () -> ()  plan_data.rs
        └─ end<script><b>`%%{init: 1}`  nested  () -> ()  plan_data.rs
           └─ 1. \u{1b}[31m\u{202e}- x;  () -> ()  plan_data.rs"#]]
    .assert_eq(&without_lines(&text));
    let drawing = plan.to_mermaid();
    assert!(drawing.chars().all(|letter| letter == '\n' || !letter.is_control()), "{drawing}");
    expect![[r#"
        flowchart TD
            n0(["acme.travel:1.0:hostile"])
            n1["a#34;#93;#92;n    n0 --#62; n9#91;#34;b"]
            subgraph n2 ["end#60;script#62;#60;b#62;#96;#37;#37;#123;init: 1#125;#96;<br/>nested"]
                n3["1#46; #92;u#123;1b#125;#91;31m#92;u#123;202e#125;#45; x#59;"]
            end
            n4(["returns"])
            n0 --> n1
            n1 --> n3
            n3 --> n4
    "#]]
    .assert_eq(&drawing);
}

#[test]
fn steps_deep_inside_of_others_keep_their_names() {
    let source = Interface::new("acme.travel:1.0".parse().expect("a name"));
    let travel = Travel { seats: Mutex::new(Options::default()) };
    let executor = Executor::builder().service(source, travel, |functions| {
        functions.on("deep", |steps: &Steps<Travel, Trip>| deep(steps, 60));
    });
    let plans = executor.build().expect("a right plan").plans();
    let text = plans[0].to_text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 62);
    assert!(lines[1..61].iter().all(|line| line.contains("around  nested  () -> ()")), "{text}");
    assert!(lines[61].contains("leaf  () -> ()"), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(plans[0].to_mermaid().matches("subgraph").count(), 60);
}

#[test]
fn the_first_steps_of_a_plan_are_those_of_its_tree_from_above() {
    let plan = plan_of("book");
    let all: usize = plan.counts().values().sum();
    for most in [0, 1, 5, all, all + 1] {
        let first = plan.first(most);
        assert_eq!(first.counts().values().sum::<usize>(), most.min(all));
        let whole = plan.to_text();
        let lines = first.to_text();
        assert_eq!(lines.lines().count(), most.min(all) + 1, "{whole}");
    }
    assert_eq!(plan.first(all), plan);
    expect![[r#"
        {
            Body: 16,
            Group: 4,
            Join: 1,
            Each: 1,
            Race: 1,
            Repeat: 1,
            When: 1,
            Either: 1,
            OrEnd: 1,
            Dynamic: 1,
        }
    "#]]
    .assert_debug_eq(&plan.counts());
}
