//! The comparison of a trace with the expected one (FORMAT.md, section 7).

use std::collections::{BTreeMap, BTreeSet};

use super::program::{Program, SyncObject};
use super::trace::{Ending, Event, Expected, Trace, Traced, What};

/// How far the time of an event may be off, in milliseconds, where times are compared.
const TOLERANCE: u64 = 30;

/// Codes whose information is the implementation's own.
const OWN_INFO: [&str; 6] =
    ["InternalError", "DefenseRejected", "Timeout", "LoopBreak", "LoopCont", "PromiseReject"];

/// A flow and a path in it.
type Strand<'a> = (&'a str, &'a str);

/// The first difference, if there is one; times count where the schedule was exact.
pub(crate) fn difference(
    program: &Program,
    expected: &Expected,
    actual: &Trace,
    exact: bool,
) -> Option<String> {
    strands(&expected.trace, actual)
        .or_else(|| surroundings(&expected.trace, actual))
        .or_else(|| outcomes(&expected.trace, actual))
        .or_else(|| spawns(actual))
        .or_else(|| limits(program, actual))
        .or_else(|| (exact && expected.timed).then(|| times(&expected.trace, actual)).flatten())
}

fn by_strand(trace: &Trace) -> BTreeMap<Strand<'_>, Vec<(usize, &Event)>> {
    let mut strands = BTreeMap::<_, Vec<_>>::new();
    for (at, event) in trace.events.iter().enumerate() {
        strands.entry((&*event.f, &*event.p)).or_default().push((at, event));
    }
    strands
}

/// The strands of a trace, in the order of their first events.
fn in_order(trace: &Trace) -> Vec<Strand<'_>> {
    let mut seen = BTreeSet::new();
    let all = trace.events.iter().map(|event| (&*event.f, &*event.p));
    all.filter(|strand| seen.insert(*strand)).collect()
}

/// Rule 1: the same events in each strand.
fn strands(expected: &Trace, actual: &Trace) -> Option<String> {
    let (wanted, given) = (by_strand(expected), by_strand(actual));
    for strand in in_order(expected) {
        let (flow, path) = strand;
        let Some(given) = given.get(&strand) else {
            return Some(format!("strand {flow}{path}: no events"));
        };
        let wanted = &wanted[&strand];
        for (index, (_, event)) in wanted.iter().enumerate() {
            match given.get(index) {
                Some((_, other)) if same(&event.what, &other.what) => {}
                Some((_, other)) => {
                    return Some(format!(
                        "strand {flow}{path}, event {index}: {other}, not {event}"
                    ));
                }
                None => {
                    return Some(format!("strand {flow}{path}, event {index}: missing {event}"));
                }
            }
        }
        if let Some((_, event)) = given.get(wanted.len()) {
            return Some(format!("strand {flow}{path}: {event} is too much"));
        }
    }
    let unknown = in_order(actual).into_iter().find(|strand| !wanted.contains_key(strand));
    unknown.map(|(flow, path)| format!("strand {flow}{path} has events"))
}

fn same(one: &What, other: &What) -> bool {
    match (one, other) {
        (What::Trace(one), What::Trace(other)) => {
            let Traced { l, a, s, err, info } = one;
            let own_info = err.as_deref().is_some_and(|code| OWN_INFO.contains(&code));
            (l, a, s, err) == (&other.l, &other.a, &other.s, &other.err)
                && (own_info || *info == other.info)
        }
        (What::Cancel { l }, What::Cancel { l: other })
        | (What::Spawn { c: l }, What::Spawn { c: other })
        | (What::Enter { o: l }, What::Enter { o: other })
        | (What::Exit { o: l }, What::Exit { o: other }) => l == other,
        _ => false,
    }
}

/// Rule 2: the order between a branch and what is around it.
fn surroundings(expected: &Trace, actual: &Trace) -> Option<String> {
    let (wanted, given) = (by_strand(expected), by_strand(actual));
    for strand in in_order(expected) {
        let (flow, path) = strand;
        for (cut, _) in path.match_indices('/') {
            let around = (flow, &path[..cut]);
            for ((at, event), (other_at, _)) in wanted[&strand].iter().zip(&given[&strand]) {
                let (wanted, given) =
                    (before(&wanted, around, *at), before(&given, around, *other_at));
                if wanted != given {
                    return Some(format!(
                        "{event} comes after {given} events of {flow}{}, not {wanted}",
                        around.1
                    ));
                }
            }
        }
    }
    None
}

fn before(
    strands: &BTreeMap<Strand<'_>, Vec<(usize, &Event)>>,
    of: Strand<'_>,
    at: usize,
) -> usize {
    strands.get(&of).map_or(0, |events| events.partition_point(|(other, _)| *other < at))
}

/// Rule 3: how the flows ended.
fn outcomes(expected: &Trace, actual: &Trace) -> Option<String> {
    for (id, wanted) in &expected.flows {
        let Some(given) = actual.flows.get(id) else {
            return Some(format!("flow {id} has no outcome"));
        };
        let same = match (wanted, given) {
            (Ending::Success { args, state }, Ending::Success { args: a, state: s }) => {
                (args, state) == (a, s)
            }
            (Ending::Error { code, info, state }, Ending::Error { code: c, info: i, state: s }) => {
                (code, state) == (c, s) && (info == i || OWN_INFO.contains(&&**code))
            }
            (Ending::Cancelled, Ending::Cancelled) | (Ending::Pending, Ending::Pending) => true,
            _ => false,
        };
        if !same {
            return Some(format!("flow {id} ended with {given}, not {wanted}"));
        }
    }
    let unknown = actual.flows.keys().find(|id| !expected.flows.contains_key(*id));
    unknown.map(|id| format!("flow {id} was started"))
}

/// Rule 4: a flow acts after it was spawned.
fn spawns(actual: &Trace) -> Option<String> {
    let mut acted = BTreeSet::new();
    for event in &actual.events {
        if let What::Spawn { c } = &event.what
            && acted.contains(&**c)
        {
            return Some(format!("flow {c} acted before it was spawned"));
        }
        acted.insert(&*event.f);
    }
    None
}

/// Rule 4: mutual exclusion and rate.
fn limits(program: &Program, actual: &Trace) -> Option<String> {
    program.sync.iter().find_map(|(name, object)| match *object {
        SyncObject::Mutex { max, .. } => exclusion(name, max, actual),
        SyncObject::Throttle { max, period, .. } => rate(name, max, period.0, actual),
        SyncObject::Limiter { concurrent, rate: max, period, .. } => {
            exclusion(name, concurrent, actual).or_else(|| rate(name, max, period.0, actual))
        }
    })
}

fn exclusion(name: &str, max: u32, actual: &Trace) -> Option<String> {
    let entered = |event: &Event| matches!(&event.what, What::Enter { o } if o == name);
    let left = |event: &Event| matches!(&event.what, What::Exit { o } if o == name);
    let mut inside = BTreeMap::<Strand<'_>, u32>::new();
    for (at, event) in actual.events.iter().enumerate() {
        let strand = (&*event.f, &*event.p);
        if entered(event) {
            let others = inside.iter().filter(|(other, count)| **other != strand && **count > 0);
            if others.count() >= max as usize {
                return Some(format!("{event}: more than {max} inside {name}"));
            }
            // a section that failed has no exit and counts for this moment only
            let mut open = 1u32;
            let rest = actual.events[at + 1..].iter();
            let exits = rest.filter(|other| (&*other.f, &*other.p) == strand).any(|other| {
                open = open + u32::from(entered(other)) - u32::from(left(other));
                open == 0
            });
            *inside.entry(strand).or_default() += u32::from(exits);
        } else if left(event)
            && let Some(count) = inside.get_mut(&strand)
        {
            *count = count.saturating_sub(1);
        }
    }
    None
}

fn rate(name: &str, max: u32, period: u64, actual: &Trace) -> Option<String> {
    let entries =
        actual.events.iter().filter(|event| matches!(&event.what, What::Enter { o } if o == name));
    let mut times: Vec<u64> = entries.filter_map(|event| event.t).collect();
    times.sort_unstable();
    let slack = 20.min(period / 4);
    let max = u64::from(max);
    for (number, time) in (1u64..).zip(&times) {
        let windows = (time - times[0] + slack) / period + 1;
        if number > max * windows {
            return Some(format!("entry {number} of {name} at {time} ms is too early"));
        }
    }
    let twice = usize::try_from(2 * max).unwrap_or(usize::MAX);
    let crowded =
        times.windows(twice.saturating_add(1)).find(|w| w[twice] - w[0] <= period - slack);
    crowded.map(|w| format!("more than {twice} entries of {name} from {} ms on", w[0]))
}

/// Rule 5: the times of the events.
fn times(expected: &Trace, actual: &Trace) -> Option<String> {
    let (wanted, given) = (by_strand(expected), by_strand(actual));
    wanted.iter().find_map(|(strand, events)| {
        events.iter().zip(&given[strand]).find_map(|((_, event), (_, other))| {
            let off = event.t?.abs_diff(other.t?);
            (off > TOLERANCE).then(|| format!("{other} is {off} ms off {event}"))
        })
    })
}
