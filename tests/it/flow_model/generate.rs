//! The generator: strategies for programs that shrink to small ones.

use std::ops::Range;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::program::{
    Body, Decision, End, Handler, Kind, Label, Late, Leave, Loop, Node, Outside, Pause, Program,
    Step, Takes, Wait,
};

/// Levels of steps in steps.
const DEPTH: u32 = 5;
/// About how many steps a program has.
const SIZE: u32 = 48;
/// How many steps a level has at most.
const WIDTH: usize = 4;
/// Loops that are about as long as a turn, so that turns end in all places.
const BURST_SIZED: Range<usize> = 90..102;

pub(crate) fn program() -> impl Strategy<Value = Program> {
    (vec(node(), 0..=WIDTH), option::weighted(0.25, 0..12u64))
        .prop_map(|(steps, cancel)| Program { steps, cancel }.numbered())
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        6 => step(body(leaf_end()), handler(leaf_decision())).prop_map(Node::Step),
        1 => step(body(leaf_end()), handler(leaf_decision())).prop_map(Node::Sync),
        1 => values().prop_map(Node::Result),
        1 => (wait(), handler(leaf_decision()))
            .prop_map(|(wait, handler)| Node::Await { wait, handler }),
        2 => (pause(), result(), handler(leaf_decision())).prop_map(|(pause, result, handler)| {
            Node::Shielded { wait: Wait { pause, result }, handler }
        }),
        1 => a_loop(BURST_SIZED, body(leaf_end())).prop_map(Node::Loop),
    ];
    leaf.prop_recursive(DEPTH, SIZE, u32::try_from(WIDTH).unwrap_or(1), |inner| {
        let steps = vec(inner, 1..=WIDTH).boxed();
        let end = prop_oneof![
            1 => leaf_end(),
            12 => steps.clone().prop_map(End::Steps),
            1 => (steps.clone(), late()).prop_map(|(steps, late)| End::StepsAnd(steps, late)),
        ]
        .boxed();
        let decision = prop_oneof![
            2 => leaf_decision(),
            1 => steps.clone().prop_map(Decision::Steps),
        ]
        .boxed();
        let whole = step(body(end.clone()), handler(decision.clone()));
        let last =
            prop_oneof![whole.clone(), step(body(leaf_end()), handler(leaf_decision())),].boxed();
        prop_oneof![
            4 => whole.clone().prop_map(Node::Step),
            1 => whole.clone().prop_map(Node::Sync),
            3 => parallel(steps, last, decision),
            3 => a_loop(0..4, body(end)).prop_map(Node::Loop),
        ]
    })
}

/// All branches but the last one begin with a wait: so nothing happens at the time of their start
/// but the start itself, and the last branch is free to fail then.
fn parallel(
    steps: BoxedStrategy<Vec<Node>>,
    last: BoxedStrategy<Step>,
    decision: BoxedStrategy<Decision>,
) -> impl Strategy<Value = Node> {
    let waiting = (wait(), frame(), handler(leaf_decision()), handler(decision.clone()), steps);
    let waiting = waiting.prop_map(|(wait, frame, first_handler, handler, mut steps)| {
        let body = Body { end: End::Wait(wait), ..frame.clone() };
        let first = Step { id: 0, takes: Takes::Anything, body, handler: first_handler };
        steps.insert(0, Node::Step(first));
        Step {
            id: 0,
            takes: Takes::Nothing,
            body: Body { end: End::Steps(steps), ..frame },
            handler,
        }
    });
    let branches = (vec(waiting, 0..=3), option::of(last)).prop_map(|(mut branches, last)| {
        branches.extend(last.map(|step| Step { takes: Takes::Nothing, ..step }));
        branches
    });
    (branches, handler(decision))
        .prop_map(|(branches, handler)| Node::Parallel { branches, handler })
}

fn a_loop(counts: Range<usize>, body: impl Strategy<Value = Body>) -> impl Strategy<Value = Loop> {
    let kind = select(vec![Kind::Repeat, Kind::ForEach, Kind::Endless]);
    (option::of(label()), kind, counts, body).prop_map(|(label, kind, count, body)| Loop {
        id: 0,
        label,
        kind,
        count,
        body,
    })
}

fn step(
    body: impl Strategy<Value = Body> + 'static,
    handler: impl Strategy<Value = Option<Handler>> + 'static,
) -> BoxedStrategy<Step> {
    let takes = prop_oneof![
        16 => Just(Takes::Anything),
        4 => Just(Takes::Nothing),
        1 => Just(Takes::One),
        1 => Just(Takes::Two),
    ];
    (takes, body, handler)
        .prop_map(|(takes, body, handler)| Step { id: 0, takes, body, handler })
        .boxed()
}

fn body(end: impl Strategy<Value = End>) -> impl Strategy<Value = Body> {
    (frame(), end).prop_map(|(frame, end)| Body { end, ..frame })
}

/// What a body does before its end.
fn frame() -> impl Strategy<Value = Body> {
    let limit = option::weighted(0.3, pause());
    (limit, prop::bool::weighted(0.3), prop::bool::weighted(0.2), any::<bool>()).prop_map(
        |(limit, cancel, value, count)| Body { limit, cancel, value, count, end: End::Return },
    )
}

fn leaf_end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Return),
        4 => values().prop_map(End::Success),
        3 => any::<bool>().prop_map(End::Error),
        1 => Just(End::Panic),
        2 => leave().prop_map(End::Leave),
        8 => wait().prop_map(End::Wait),
        2 => pause().prop_map(End::Until),
        1 => late().prop_map(End::SuccessAnd),
    ]
}

fn handler(decision: impl Strategy<Value = Decision>) -> impl Strategy<Value = Option<Handler>> {
    option::of(decision.prop_map(|end| Handler { id: 0, end }))
}

fn leaf_decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        3 => Just(Decision::Silent),
        8 => values().prop_map(Decision::Success),
        2 => any::<bool>().prop_map(Decision::Error),
        2 => leave().prop_map(Decision::Leave),
        1 => Just(Decision::Panic),
        1 => Just(Decision::Wait),
        1 => Just(Decision::StepsAndSuccess),
    ]
}

fn late() -> impl Strategy<Value = Late> {
    prop_oneof![
        Just(Late::Success),
        Just(Late::Error),
        Just(Late::Add),
        leave().prop_map(Late::Leave),
    ]
}

fn leave() -> impl Strategy<Value = Leave> {
    (any::<bool>(), option::weighted(0.3, label()))
        .prop_map(|(again, label)| Leave { again, label })
}

fn label() -> impl Strategy<Value = Label> {
    select(vec!["A", "B"])
}

fn wait() -> impl Strategy<Value = Wait> {
    let result = prop_oneof![
        9 => result(),
        1 => Just(Outside::Abandoned),
    ];
    (pause(), result).prop_map(|(pause, result)| Wait { pause, result })
}

fn result() -> impl Strategy<Value = Outside> {
    prop_oneof![
        2 => values().prop_map(Outside::Success),
        1 => any::<bool>().prop_map(Outside::Error),
    ]
}

fn pause() -> impl Strategy<Value = Pause> {
    (0..4u64).prop_map(|periods| Pause { id: 0, periods })
}

fn values() -> impl Strategy<Value = Vec<i64>> {
    vec(0..9i64, 0..=2)
}
