//! Parallel with a limit: a branch for each item, of which a few work at once.
//!
//! A parallel step starts all of its branches. A mutex for several owners (FTN12 §2.3) limits them:
//! each branch works inside of it, and the others wait in the order in which they started.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sync::{Mutex, mutex};
use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{AsyncSteps, Flow, Time};

const ITEMS: u32 = 10;
const AT_ONCE: u32 = 3;
const WORK: Duration = Duration::from_millis(100);

/// How many branches work now, and the most that worked at once.
#[derive(Clone, Default)]
struct Watch(Rc<Cell<(u32, u32)>>);

impl Watch {
    fn begin(&self) {
        let (working, most) = self.0.get();
        self.0.set((working + 1, most.max(working + 1)));
    }

    fn end(&self) {
        let (working, most) = self.0.get();
        self.0.set((working - 1, most));
    }
}

/// Squares a number, which takes some time, and adds it to the state: branches have no results.
fn work(asi: &mut AsyncSteps, item: u32, watch: Watch) {
    watch.begin();
    asi.sleep(WORK);
    asi.add(move |asi, ()| {
        watch.end();
        *asi.state_mut().get_mut::<u32>("sum").expect("set by the flow") += item * item;
    });
}

fn main() {
    let watch = Watch::default();
    let slots = Mutex::new(mutex::Options { max: AT_ONCE, ..mutex::Options::default() });

    let mut flow = Flow::new();
    flow.state_mut().set("sum", 0u32);
    flow.parallel(|branches| {
        for item in 1..=ITEMS {
            let (slots, watch) = (slots.clone(), watch.clone());
            branches.add(move |asi, ()| {
                asi.sync(&slots, move |asi, ()| work(asi, item, watch));
            });
        }
    });
    flow.add(|asi, ()| {
        let sum: Option<u32> = asi.state_mut().take("sum");
        asi.success(sum)
    });

    let tool = Manual::new(Time::ZERO);
    let promise = flow.promise::<Option<u32>, _>(&tool);
    let sum = tool.complete(promise).expect("it needs no other thread").expect("nothing fails");
    assert_eq!(sum, Some(385));
    assert_eq!(watch.0.get(), (0, AT_ONCE));
    // ten items, three at once, take four rounds
    assert_eq!(tool.now().since_epoch(), 4 * WORK);
}
