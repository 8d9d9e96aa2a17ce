//! Items that race, and steps of FTN12.

use super::*;

/// Suppliers that answer after their name in milliseconds.
pub(super) fn race(steps: &Steps<Travel, Trip>) -> Returns<Vec<String>> {
    steps
        .race(
            "ask",
            |cx, ()| cx.params.items.clone(),
            |supplier| {
                supplier
                    .run("offer", async |_, supplier: String| Ok(supplier))
                    .undo(async |cx, _| undone(cx).await)
                    .then("answer", async |cx, supplier| {
                        match supplier.parse() {
                            Ok(millis) => sleep(Duration::from_millis(millis)).await,
                            Err(_) => Err(TravelError::Full)?,
                        }
                        cx.tell(format!("answered {supplier}"));
                        Ok(supplier)
                    })
                    .returns()
            },
        )
        .first(2)
        .within(Duration::from_millis(250))
        .then("check", async |cx, offers| {
            cx.tell("check");
            check_fails(cx).await?;
            Ok(offers)
        })
        .returns()
}

pub(super) fn first(steps: &Steps<Travel, Trip>) -> Returns<Vec<String>> {
    steps
        .race(
            "ask",
            |cx, ()| cx.params.items.clone(),
            |supplier| {
                supplier
                    .run("offer", async |_, supplier: String| match &*supplier {
                        "fails" => Err(TravelError::Full)?,
                        _ => Ok(supplier),
                    })
                    .undo(async |cx, _| undone(cx).await)
                    .returns()
            },
        )
        .returns()
}

pub(super) fn enough(steps: &Steps<Travel, Trip>) -> Returns<Vec<i32>> {
    steps
        .race(
            "ask",
            |_, ()| vec![10, 500],
            |one| {
                one.run("wait", async |_, millis| {
                    sleep(Duration::from_millis(millis)).await;
                    Ok(7)
                })
                .returns()
            },
        )
        .first(2)
        .at_least(2)
        .within(Duration::from_millis(100))
        .recover(async |cx, error| {
            cx.tell(error.to_string());
            Ok(vec![])
        })
        .returns()
}

#[actix::test]
async fn the_first_items_win_and_the_others_are_undone_before_the_next_step() {
    tokio::time::pause();
    check(
        "race",
        json!({ "items": ["100", "300", "50", "x", "200"] }),
        expect![[r#"
        ["100","50"]
        undo ask#3/offer
        answered 50
        answered 100
        undo ask#1/offer
        undo ask#4/offer
        check"#]],
    )
    .await;
    check(
        "race",
        json!({ "items": ["100", "50", "200"], "fails": true }),
        expect![[r#"
        Full: full
        answered 50
        answered 100
        undo ask#2/offer
        check
        undo ask#1/offer
        undo ask#0/offer"#]],
    )
    .await;
    check(
        "race",
        json!({ "items": ["100", "300", "x"] }),
        expect![[r#"
        ["100"]
        undo ask#2/offer
        answered 100
        undo ask#1/offer
        check"#]],
    )
    .await;
    check(
        "race",
        json!({ "items": ["x", "300"] }),
        expect![[r#"
        []
        undo ask#0/offer
        undo ask#1/offer
        check"#]],
    )
    .await;
    check(
        "race",
        json!({ "items": ["x", "y"] }),
        expect![[r#"
        []
        undo ask#0/offer
        undo ask#1/offer
        check"#]],
    )
    .await;
    check(
        "race",
        json!({}),
        expect![[r#"
        []
        check"#]],
    )
    .await;
    check(
        "first",
        json!({ "items": ["fails", "a", "b"] }),
        expect![[r#"
        ["a"]
    "#]],
    )
    .await;
    check(
        "first",
        json!({ "items": ["fails"] }),
        expect![[r#"
        Full: full
    "#]],
    )
    .await;
    check(
        "enough",
        json!({}),
        expect![[r#"
        []
        Timeout: 1 of 2 won the race in time"#]],
    )
    .await;
}

pub(super) fn ftn12(steps: &Steps<Travel, Trip>) -> Returns<i32> {
    steps
        .run("begin", async |cx, ()| Ok(cx.params.items.len()))
        .then_asi::<i32>("plain", |asi, cx, count| {
            let label = step_of(cx);
            asi.state_mut().set("sum", 0i32);
            asi.repeat(count, |asi, _| {
                *asi.state_mut().get_mut::<i32>("sum").expect("it is set") += 2;
            });
            let of_end = cx.clone();
            asi.add(move |asi, ()| {
                of_end.tell(label);
                let sum = *asi.state().get::<i32>("sum").expect("it is set");
                asi.success(sum)
            });
            Ok(())
        })
        .timeout(Duration::from_secs(1))
        .then("check", async |_, sum| Ok(sum + 1))
        .returns()
}

#[actix::test]
async fn steps_of_ftn12_are_a_step() {
    check(
        "ftn12",
        json!({ "items": ["a", "b"] }),
        expect![[r#"
        5
        plain"#]],
    )
    .await;
}
