//! Steps find what surrounds them.

use std::rc::Rc;

use asyncsteps_core::{Arguments, AsyncSteps, Error, Flow, Retry, Template, TemplateAdded};

use crate::forms::support::run;

fn found(asi: &AsyncSteps) -> &'static str {
    asi.surroundings::<&str>().map_or("nothing", |found| *found)
}

/// A template of one step, which returns what it finds.
fn finds(say: impl FnOnce(&mut TemplateAdded<'_, (), &'static str>)) -> Template {
    Template::build(|asi| {
        say(&mut asi.run_made(|asi, ()| {
            let found = found(asi);
            async move { Ok(found.into_args()) }
        }));
    })
}

fn inside(asi: &mut AsyncSteps) {
    assert_eq!(found(asi), "outer");
    asi.surround(Rc::new("inner"));
    let kinds = [
        finds(|_| {}),
        finds(|step| _ = step.shielded()),
        finds(|step| _ = step.retry(Retry::attempts(2))),
    ];
    asi.parallel(move |branches| {
        for kind in kinds {
            branches.add(move |asi, ()| {
                assert_eq!(found(asi), "inner");
                asi.copy_from(&kind);
                asi.add(|_, found: &'static str| assert_eq!(found, "inner"));
            });
        }
    });
    asi.error_step(Error::new("Fails"));
}

#[test]
fn steps_find_what_surrounds_them_in_branches_attempts_and_shields_and_no_longer_behind() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.surround(Rc::new("outer"));
        asi.add(|asi, ()| inside(asi)).on_error(|asi, error| {
            assert_eq!((found(asi), error.code()), ("outer", "Fails"));
            asi.success(())
        });
        asi.add(|asi, ()| assert_eq!(found(asi), "outer"));
    });
    flow.add(|asi, ()| assert_eq!(found(asi), "nothing"));
    run::<()>(flow).0.expect("it ends well");
}
