//! The nodes that are there, as calls look at them.

use std::sync::Arc;

use asyncsteps_executor::iface::FunctionName;

use crate::endpoint::Endpoint;
use crate::node::{NodeId, NodeInfo};

/// The nodes that were there recently, and the interfaces that they serve; cloning shares. A fabric says
/// how old it may be.
#[derive(Clone, Debug, Default)]
pub struct LiveNodes(Arc<[LiveNode]>);

#[derive(Clone, Debug)]
struct LiveNode {
    node: NodeId,
    /// The part of its [scores](score) that all keys share.
    seed: u64,
    endpoints: Vec<Endpoint>,
    /// Shared by the calls that wait for it.
    #[cfg(feature = "nats")]
    load: Arc<()>,
}

impl LiveNodes {
    /// The nodes among `nodes` that take calls; for drivers.
    #[must_use]
    pub fn of(nodes: &[NodeInfo]) -> Self {
        let live = nodes.iter().filter(|info| !info.is_draining).filter_map(|info| {
            let interfaces = info.interfaces.iter();
            let endpoints = interfaces.filter_map(|it| Some(Endpoint::new(it.parse().ok()?)));
            let (node, seed) = (info.node.parse().ok()?, seed(info.node.as_bytes()));
            Some(LiveNode {
                node,
                seed,
                endpoints: endpoints.collect(),
                #[cfg(feature = "nats")]
                load: Arc::default(),
            })
        });
        Self(live.collect())
    }

    #[cfg(feature = "nats")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A node that serves a function, with its load; each of them as often as the number grows, also where only each second
    /// one counts. The next one takes the place of one with more calls that wait, such as one that stands still.
    #[cfg(feature = "nats")]
    pub(crate) fn in_turn(
        &self,
        function: &FunctionName,
        number: u32,
    ) -> Option<(NodeId, Arc<()>)> {
        // the fractions of the multiples of the golden ratio
        let fraction = u64::from(number.wrapping_mul(0x9e37_79b9));
        let count = u64::try_from(self.serving(function).count()).ok()?;
        let turn = usize::try_from((fraction * count) >> 32).ok()?;
        let nodes = self.serving(function).cycle().skip(turn).take(2);
        let LiveNode { node, load, .. } = nodes.min_by_key(|it| Arc::strong_count(&it.load))?;
        Some((node.clone(), Arc::clone(load)))
    }

    /// The same, of these nodes only.
    #[cfg(feature = "nats")]
    pub(crate) fn only(&self, stays: impl Fn(&NodeId) -> bool) -> Self {
        Self(self.0.iter().filter(|live| stays(&live.node)).cloned().collect())
    }

    /// The same with other nodes, or with others of their names.
    #[cfg(feature = "nats")]
    pub(crate) fn with(&self, new: &Self) -> Self {
        let stays = |node: &NodeId| !new.names().any(|name| name == node);
        Self(self.only(stays).0.iter().chain(&*new.0).cloned().collect())
    }

    #[cfg(feature = "nats")]
    pub(crate) fn names(&self) -> impl Iterator<Item = &NodeId> {
        self.0.iter().map(|live| &live.node)
    }

    fn serving(&self, function: &FunctionName) -> impl Iterator<Item = &LiveNode> + Clone {
        self.0.iter().filter(|live| live.endpoints.iter().any(|it| it.serves(function)))
    }

    /// The node that owns a key of a function: among the nodes that serve it, the one with the highest
    /// score.
    pub(crate) fn owner(&self, function: &FunctionName, key: &[u8]) -> Option<&NodeId> {
        let mut nodes = self.serving(function);
        let first = nodes.next()?;
        // one that is alone needs no score
        let owner = match nodes.next() {
            Some(second) => {
                [first, second].into_iter().chain(nodes).max_by_key(|live| score(live.seed, key))?
            }
            None => first,
        };
        Some(&owner.node)
    }
}

/// The score of a node for a key. It is the same in all processes and versions: FNV-1a over both, and the
/// last step of MurmurHash3, so that each bit counts.
fn score(seed: u64, key: &[u8]) -> u64 {
    let hash = fnv(seed, key);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The hash of a node, with which its scores begin.
fn seed(node: &[u8]) -> u64 {
    fnv(fnv(0xcbf2_9ce4_8422_2325, node), &[0xff])
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn nodes(names: &[&str]) -> LiveNodes {
        let info = |name: &&str| NodeInfo {
            node: (*name).to_owned(),
            interfaces: vec!["demo.cache:1.1".to_owned()],
            in_flight: 0,
            is_draining: name.ends_with("drains"),
            has_other_secret: false,
        };
        LiveNodes::of(&names.iter().map(info).collect::<Vec<_>>())
    }

    fn owners(nodes: &LiveNodes) -> Vec<String> {
        let function = "demo.cache:1.0:get".parse().expect("a function");
        let owner = |key: i32| nodes.owner(&function, key.to_string().as_bytes());
        (0..3000).map(|key| owner(key).expect("it is served").to_string()).collect()
    }

    #[test]
    fn keys_are_shared_evenly_and_only_those_of_a_lost_node_move() {
        let all = owners(&nodes(&["a", "b", "c", "drains"]));
        let mut shares = HashMap::new();
        for owner in &all {
            *shares.entry(&**owner).or_insert(0) += 1;
        }
        assert_eq!(shares.len(), 3, "{shares:?}");
        assert!(shares.values().all(|share| (900..1100).contains(share)), "{shares:?}");
        for (before, after) in all.iter().zip(owners(&nodes(&["c", "a"]))) {
            assert!(*before == after || before == "b");
        }
    }

    #[test]
    fn a_key_has_an_owner_where_its_function_is_served() {
        let nodes = nodes(&["a"]);
        for (function, expected) in [
            ("demo.cache:1.1:get", Some("a")),
            ("demo.cache:1.2:get", None),
            ("demo.other:1.0:get", None),
        ] {
            let owner = nodes.owner(&function.parse().expect("a function"), b"k");
            assert_eq!(owner.map(NodeId::as_str), expected, "{function}");
        }
    }

    #[cfg(feature = "nats")]
    #[test]
    fn each_node_has_its_turns() {
        let nodes = nodes(&["a", "b", "c", "drains"]);
        let function = "demo.cache:1.0:get".parse().expect("a function");
        for step in 1..5 {
            let taken = |name: &str| {
                let turns = (0..300).filter_map(|turn| nodes.in_turn(&function, turn * step));
                turns.filter(|(node, _)| node.as_str() == name).count()
            };
            assert!(["a", "b", "c"].map(taken).iter().all(|turns| (95..=105).contains(turns)));
        }
        let other = "demo.other:1.0:get".parse().expect("a function");
        assert_eq!(nodes.in_turn(&other, 1), None);
    }

    #[cfg(feature = "nats")]
    #[test]
    fn calls_that_wait_for_a_node_keep_others_from_it() {
        let nodes = nodes(&["goes", "stands"]);
        let function = "demo.cache:1.0:get".parse().expect("a function");
        // those of the one end before the next begins
        let calls = (0..100).filter_map(|turn| nodes.in_turn(&function, turn));
        let waiting: Vec<_> = calls.filter(|(node, _)| node.as_str() == "stands").collect();
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn scores_never_change() {
        assert_eq!(score(seed(b"node"), b"key"), 10_725_617_561_422_099_407);
    }
}
