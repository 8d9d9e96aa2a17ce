//! What the builder says to a wrong plan, and to raw data that a definition does not declare.

use super::*;
use asyncsteps_core::Template;
use asyncsteps_executor::Functions;

fn misplaced(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .nested("sub/steps", |steps| steps.run("one", async |_, ()| Ok(1)).returns())
        .undo(async |_, _| Ok(()))
        .then_nested("other", |_| steps.run("outer", async |_, ()| Ok(1)).returns())
        .returns()
}

fn misplaced_branch(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .run("begin", async |_, ()| Ok(1))
        .then_join("both", |_| {
            (steps.run("outer", async |_, ()| Ok(1)).returns(), steps.pass().returns())
        })
        .then("one", async |_, (one, ())| Ok(one))
        .returns()
}

fn panics(_: &Steps<Travel, Trip>) -> Returns<i32> {
    panic!("no seats")
}

fn wrong_words(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .nested("sub/steps", |steps| steps.run("one", async |_, ()| Ok(1)).returns())
        .undo(async |_, _| Ok(()))
        .returns()
}

/// Choices by what a crash may change; the others are right.
fn chooses_anew(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    let look = steps.run("look", async |_, ()| Ok(Some(7))).repeatable();
    let look = look.then_when_some(
        "looked",
        |_, seats| seats,
        |steps| steps.run("count", async |_, seats| Ok(seats)).repeatable().returns(),
    );
    look.then_pause("rest", Duration::ZERO)
        .unless_some()
        .then("way", async |_, ()| Ok(Either::<(), ()>::A(())))
        .recorded()
        .either("ways", |one| one.pass().returns(), |other| other.pass().returns())
        .then("note", async |_, ()| Ok(()))
        .repeatable()
        .then_when_some("noted", |given, ()| given.params.car.clone(), |car| car.pass().returns())
        .then("first", async |_, _| Ok(0))
        .repeatable()
        .then_repeat("turns", |turn| {
            turn.pass()
                .then_when_some("turn", |_, turn: i32| Some(turn), |turn| turn.pass().returns())
                .then("last", async |_, _| Ok(ControlFlow::Break(7)))
                .repeatable()
                .returns()
        })
        .recorded_with_input()
        .returns()
}

/// What the executor says when it is built of this function.
fn mistake<R>(handler: fn(&Steps<Travel, Trip>) -> Returns<R>) -> String
where
    R: Serialize + JsonSchema + 'static,
{
    mistake_in(|functions| _ = functions.on("wrong", handler))
}

/// The same of a function whose requests a host records.
fn mistake_in_durable<R>(handler: fn(&Steps<Travel, Trip>) -> Returns<R>) -> String
where
    R: Serialize + JsonSchema + 'static,
{
    mistake_in(|functions| _ = functions.on_behind(&Template::build(|_| {}), "wrong", handler))
}

fn mistake_in(define: impl FnOnce(&mut Functions<Travel>)) -> String {
    let travel = Travel { log: Arc::default(), seats: Mutex::new(Options::default()) };
    let built = Executor::builder()
        .service(Interface::new("acme.travel:1.0".parse().expect("a name")), travel, define)
        .build();
    let error: ConfigError = built.expect_err("a mistake");
    let text = error.to_string();
    assert!(text.contains("tests/it/plans/"), "{text}");
    let without_place = |line: &str| {
        let (before, after) = line.split_once(", ").unwrap_or_default();
        format!("{before}: {}", after.split_once(": ").unwrap_or_default().1)
    };
    text.lines().map(without_place).collect::<Vec<_>>().join("\n")
}

#[actix::test]
async fn mistakes_in_a_plan_are_errors_of_the_builder_with_their_place() {
    expect!["acme.travel:1.0:wrong: these are steps of another level: use the steps that the closure is given"].assert_eq(&mistake(misplaced));
    assert_eq!(mistake(misplaced_branch), mistake(misplaced));
    expect![[r#"
        acme.travel:1.0:wrong: the name `sub/steps` has a `/`, which stands between names in paths
        acme.travel:1.0:wrong: `undo` cannot be said of `sub/steps`, which is a group: the steps inside have policies of their own"#]].assert_eq(&mistake(wrong_words));
    expect!["acme.travel:1.0:wrong: the handler panics: no seats"].assert_eq(&mistake(panics));
}

#[actix::test]
async fn a_choice_by_the_value_of_a_repeatable_step_is_a_mistake_in_a_durable_function() {
    expect![[r#"
        acme.travel:1.0:wrong: `looked` takes the value of `look`, which is repeatable, and would choose anew after a crash: `look` says `recorded()`
        acme.travel:1.0:wrong: the early end takes the value of `count`, which is repeatable, and would choose anew after a crash: `count` says `recorded()`
        acme.travel:1.0:wrong: `turn` takes the value of `first`, which is repeatable, and would choose anew after a crash: `first` says `recorded()`"#]].assert_eq(&mistake_in_durable(chooses_anew));
}

/// An attempt takes the signal, so the next one waits for another.
fn waits_in_an_attempt(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .nested("pay", |pay| {
            let paid = pay.wait_signal::<i32>("paid").then_nested("check", |check| {
                check.pass().then_wait_signal_within::<i32>("checked", Duration::ZERO).returns()
            });
            paid.then("book", async |_, _| Ok(1)).returns()
        })
        .retry(Retry::attempts(2))
        .then_nested("end", |end| end.pass().then_wait_signal::<i32>("end").returns())
        .returns()
}

#[actix::test]
async fn a_wait_for_a_signal_in_an_attempt_of_a_retry_is_a_mistake() {
    expect![[r#"
        acme.travel:1.0:wrong: `paid` waits for a signal where `pay` says `retry`: an attempt takes the signal, and the next one waits for ever. Wait in front of `pay`; where each attempt needs a signal of its own, use `then_repeat`
        acme.travel:1.0:wrong: `checked` waits for a signal where `pay` says `retry`: an attempt takes the signal, and the next one waits for ever. Wait in front of `pay`; where each attempt needs a signal of its own, use `then_repeat`"#]].assert_eq(&mistake(waits_in_an_attempt));
}

/// A part of it answers, and it answers twice.
fn answers_too_often(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .nested("part", |part| {
            part.run("price", async |_, ()| Ok(1)).recorded().answers().returns()
        })
        .answers()
        .then("other", async |_, price| Ok(price))
        .recorded()
        .answers()
        .then("last", async |_, _| Ok("all"))
        .repeatable()
        .returns()
}

#[actix::test]
async fn a_function_answers_once_and_as_a_whole() {
    expect![[r#"
        acme.travel:1.0:wrong: `answers` is said once, for the steps of the function itself and not for a part of it
        acme.travel:1.0:wrong: `answers` is said once, for the steps of the function itself and not for a part of it"#]].assert_eq(&mistake_in_durable(answers_too_often));
}

async fn takes_raw(steps: &RawInput) -> bool {
    steps.length().is_some()
}

fn raw(steps: &Steps<Travel, Trip, RawInput>) -> Returns<RawOutput> {
    steps
        .run("take", async |cx, input| {
            let is_long = takes_raw(&input).await;
            let mut output = cx.raw_output("text/plain")?;
            output.write(if is_long { "long" } else { "short" }).await?;
            Ok(output)
        })
        .returns()
}

fn travel() -> Travel {
    Travel { log: Arc::default(), seats: Mutex::new(Options::default()) }
}

#[actix::test]
async fn raw_data_are_declared_from_types_and_compared_with_a_definition() {
    let built = Executor::builder()
        .service(
            Interface::new("acme.travel:1.0".parse().expect("a name")),
            travel(),
            |functions| {
                functions.on("raw", raw);
            },
        )
        .build();
    assert!(built.is_ok());
    let source = Source::texts([(
        "acme.travel-1.0-iface.json",
        r#"{ "iface": "acme.travel", "version": "1.0", "ftn3rev": "1.9", "funcs": { "raw": { "params": {
            "car": { "type": "string", "default": null }, "items": { "type": "array", "default": [] },
            "fails": { "type": "boolean", "default": false } } } } }"#,
    )]);
    let loaded = Loader::new([source]).load(&"acme.travel:1.0".parse().expect("a name"));
    let built = Executor::builder()
        .service(loaded.expect("a definition"), travel(), |functions| {
            functions.on("raw", raw);
        })
        .build();
    expect![[r#"
        acme.travel:1.0:raw, parameter items[]: the Rust type has string, the definition has any
        acme.travel:1.0:raw, result: the handler returns raw data, the definition has no `rawresult`
        acme.travel:1.0:raw, parameters: the handler takes raw data, the definition has no `rawupload`
        acme.travel:1.0 has no function that throws Busy, which is a code of the service's errors: declare it in the `throws` of a function with a result
        acme.travel:1.0 has no function that throws Full, which is a code of the service's errors: declare it in the `throws` of a function with a result"#]].assert_eq(&built.expect_err("no raw data are declared").to_string());
}

fn nameless(steps: &Steps<Travel, Trip>) -> Returns<Vec<String>> {
    steps
        .run("", async |cx, ()| Ok(cx.params.items.clone()))
        // all items would have one key
        .then_each(
            "",
            |_, items| items,
            |item| item.run("take", async |_, item| Ok(item)).returns(),
        )
        .as_one()
        .returns()
}

fn attempts(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .run("release 1.2", async |_, ()| Ok(1))
        .then_nested("pay.2", |pay| pay.run("card", async |_, n| Ok(n)).returns())
        .as_one()
        .then_nested("pay", |pay| pay.run("card", async |_, n| Ok(n)).returns())
        .retry(Retry::attempts(2))
        .then("pay.1", async |_, n| Ok(n))
        .then("release 1", async |_, n| Ok(n))
        .then(".3", async |_, n| Ok(n))
        .returns()
}

#[actix::test]
async fn names_that_paths_cannot_tell_apart_are_mistakes() {
    expect![[r#"
        acme.travel:1.0:wrong: a step without a name has no path
        acme.travel:1.0:wrong: a step without a name has no path"#]]
    .assert_eq(&mistake(nameless));
    expect![[r#"
        acme.travel:1.0:wrong: the name `pay.2` is that of an attempt of `pay` in paths
        acme.travel:1.0:wrong: the name `.3` is that of an attempt of steps as one in paths"#]]
    .assert_eq(&mistake(attempts));
}
