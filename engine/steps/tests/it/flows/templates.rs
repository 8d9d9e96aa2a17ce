//! Templates share their steps and copy their state (FTN12 §1.5, §2.2.1 `copyFrom`).

use asyncsteps_core::{AsyncSteps, Flow, Template, TemplateSteps, run_to_end};

use crate::flows::support::code;

fn count(asi: &mut AsyncSteps, _: ()) {
    *asi.state_mut().get_mut::<u32>("count").expect("from the template") += 1;
}

fn counting(asi: &mut TemplateSteps) {
    asi.state().set("count", 0u32);
    asi.add(count);
    asi.add(|asi, ()| asi.success(asi.state().get::<u32>("count").copied().unwrap_or(99)));
}

#[test]
fn instances_never_see_the_state_of_each_other() {
    let template = Template::build(counting);
    let mut changed = template.flow();
    changed.state_mut().set("count", 10u32);
    assert_eq!(run_to_end::<u32>(template.flow()).expect("nothing fails"), 1);
    assert_eq!(run_to_end::<u32>(changed).expect("nothing fails"), 11);
    assert_eq!(run_to_end::<u32>(template.flow()).expect("nothing fails"), 1);
}

#[test]
fn a_template_runs_on_any_thread() {
    let template = Template::build(counting);
    let clone = template.clone();
    let there = std::thread::spawn(move || run_to_end::<u32>(clone.flow()));
    assert_eq!(there.join().expect("no panic").expect("nothing fails"), 1);
    assert_eq!(run_to_end::<u32>(template.flow()).expect("nothing fails"), 1);
}

#[test]
fn copying_inside_a_step_appends_sub_steps_in_order() {
    let add = |n: u32| {
        Template::build(move |asi| {
            asi.state().set("copied", n);
            asi.add(move |asi, total: u32| asi.success(total * 10 + n));
        })
    };
    let (two, three) = (add(2), add(3));
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.success_step(1u32);
        asi.copy_from(&two);
        asi.copy_from(&three);
        asi.copy_from(&two);
        asi.copy_from(&Template::build(|_| {}));
        asi.add(|asi, total: u32| {
            let copied = asi.state().get::<u32>("copied").copied();
            asi.success((total, copied.unwrap_or_default()))
        });
    });
    assert_eq!(run_to_end::<(u32, u32)>(flow).expect("nothing fails"), (1232, 2));
}

#[test]
fn a_step_of_a_template_may_copy_its_own_template() {
    let mut flow = Flow::new();
    let template = Template::build(|asi| {
        asi.add(|asi, ()| {
            let depth = asi.state_mut().get_mut::<u32>("depth").expect("it was set");
            *depth += 1;
            if *depth < 500 {
                let own = asi.state().get::<Template>("own").expect("it was set").clone();
                asi.copy_from(&own);
            }
        });
    });
    flow.state_mut().set("depth", 0u32);
    flow.state_mut().set("own", template.clone());
    flow.copy_from(&template);
    flow.add(|asi, ()| asi.success(asi.state().get::<u32>("depth").copied().unwrap_or(0)));
    assert_eq!(run_to_end::<u32>(flow).expect("nothing fails"), 500);
}

#[test]
fn handlers_of_a_template_run_once_per_failure_and_may_copy() {
    let rescue = Template::build(|asi| {
        asi.add(|asi, ()| asi.success("rescued"));
    });
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("First", ())).on_error(move |asi, _| asi.copy_from(&rescue));
        asi.add(|asi, how: String| asi.error("Second", how)).on_error(|_, _| {});
    });
    for _ in 0..2 {
        let error = run_to_end::<()>(template.flow()).expect_err("the second one fails");
        assert_eq!((error.code(), error.info()), ("Second", Some("rescued")));
    }
}

#[test]
fn steps_that_replace_a_step_of_a_template_run_before_its_next_step() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("First", ())).on_error(|asi, _| {
            asi.add(|asi, ()| asi.success("one"));
            asi.add(|asi, text: String| {
                asi.add(move |asi, ()| asi.success(format!("{text} two")));
            });
        });
        asi.add(|asi, text: String| asi.success(format!("{text} three")));
    });
    let mut flow = template.flow();
    flow.add(|asi, text: String| asi.success(format!("{text} four")));
    assert_eq!(run_to_end::<String>(flow).expect("the handler recovers"), "one two three four");
}

#[test]
fn branches_of_a_template_fail_like_others() {
    let template = Template::build(|asi| {
        asi.parallel(|p| {
            p.add(|_, ()| {});
            p.add(|asi, ()| asi.error("MyError", ())).on_error(|asi, error| {
                asi.state_mut().set("seen", error.code().to_owned());
            });
        })
        .on_error(|asi, _| {
            let seen = asi.state().get::<String>("seen").cloned();
            asi.error("Seen", seen)
        });
    });
    assert_eq!(code(template.flow()), "Seen");
    assert_eq!(code(template.flow()), "Seen");
}

/// A flow of one step that records its name and its argument.
fn noting(name: &'static str) -> Flow {
    let mut flow = Flow::new();
    flow.state_mut().set("list", Vec::<String>::new());
    flow.state_mut().set("last", name);
    flow.add(move |asi, n: u32| {
        let list = asi.state_mut().get_mut::<Vec<String>>("list").expect("each brings one");
        list.push(format!("{name}{n}"));
        asi.success(n + 1)
    });
    flow
}

#[test]
fn a_flow_is_appended_with_its_steps_its_state_and_its_arguments() {
    let mut passed = noting("c");
    passed.pass(7u32);
    let mut flow = noting("a");
    flow.pass(1u32);
    flow.append(noting("b"));
    flow.add(move |asi, n: u32| {
        asi.append(passed);
        asi.append(noting("d"));
        asi.add(move |asi, m: u32| asi.success((n, m)));
    });
    flow.add(|asi, (n, m): (u32, u32)| {
        let list = asi.state().get::<Vec<String>>("list").map(|list| list.join(" "));
        let last = asi.state().get::<&str>("last").copied().unwrap_or_default();
        asi.success((list.unwrap_or_default(), last, n, m))
    });
    let end = run_to_end::<(String, &str, u32, u32)>(flow).expect("nothing fails");
    assert_eq!(end, ("a1 b2 c7 d8".to_owned(), "a", 3, 9));
}

#[test]
fn a_flow_that_was_misconfigured_fails_where_it_was_appended() {
    let mut wrong = Flow::new();
    wrong.add(|_, ()| unreachable!("the flow is misconfigured"));
    let _ = wrong.steps().success(());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| asi.append(wrong))
        .on_error(|asi, error| asi.error("Seen", error.code().to_owned()));
    let error = run_to_end::<()>(flow).expect_err("it fails");
    assert_eq!((error.code(), error.info()), ("Seen", Some("InternalError")));
}

#[test]
fn a_level_that_is_complete_takes_no_flow() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        let done = asi.success(());
        asi.append(noting("late"));
        done
    });
    assert_eq!(code(flow), "InternalError");
}
