//! Mistakes that the compiler cannot see fail with a text that says what is wrong.
//!
//! Those that it sees are in `compile_fail.rs`.

use std::error::Error as _;

use asyncsteps_core::{Error, ErrorExt, Flow, StepError, codes, run_to_end};

/// The error of a flow that fails by itself.
fn error(define: impl FnOnce(&mut Flow)) -> Error {
    let mut flow = Flow::new();
    define(&mut flow);
    run_to_end::<()>(flow).expect_err("it fails")
}

/// The text of a broken rule.
fn rule(define: impl FnOnce(&mut Flow)) -> String {
    let error = error(define);
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    error.info().unwrap_or_default().to_owned()
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn a_step_that_takes_another_type_names_both() {
    let text = rule(|flow| {
        flow.add(|asi, ()| asi.success(1));
        flow.add(|_, _: String| {}).named("greet");
    });
    assert_contains(&text, &["String", "i32", "`greet`"]);
    let text = rule(|flow| {
        flow.run(async |()| Ok(1));
        flow.run(async |_: (i32, i32)| Ok(())).named("pair");
    });
    assert_contains(&text, &["i32", "`pair`"]);
}

#[test]
fn success_after_steps_says_which_rule_is_broken() {
    let text = rule(|flow| {
        flow.add(|asi, ()| {
            asi.add(|_, ()| {});
            asi.success(1)
        })
        .named("order");
    });
    assert_contains(&text, &["success after adding sub-steps", "`order`"]);
}

#[test]
fn a_question_mark_takes_anyhow_text_and_boxes() {
    let internal = |error: &Error, cause: &str| {
        assert_eq!((error.code(), error.info()), (codes::INTERNAL_ERROR, None));
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some(cause));
    };
    internal(
        &error(|flow| {
            flow.run(async |()| {
                Err::<(), _>(anyhow::anyhow!("the bank is down"))?;
                Ok(())
            });
        }),
        "the bank is down",
    );
    internal(
        &error(|flow| {
            flow.add(|_, ()| {
                Err::<(), _>("no apples".to_owned())?;
                Ok(())
            });
        }),
        "no apples",
    );
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(Error::new("OutOfStock"));
    let kept = error(|flow| {
        flow.run(async move |()| {
            let own = boxed.downcast_ref::<Error>().expect("it is one").clone();
            Err::<(), Box<dyn std::error::Error + Send + Sync>>(Box::new(own))?;
            Ok(())
        });
    });
    assert_eq!(kept.code(), "OutOfStock", "a box hides no code");
}

#[test]
fn a_future_may_fail_with_a_code_of_its_own() {
    let error = error(|flow| {
        flow.await_(async {
            "x".parse::<u8>().code("NotANumber")?;
            Ok::<_, StepError>(())
        });
    });
    assert_eq!(error.code(), "NotANumber");
}
