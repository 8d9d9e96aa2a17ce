//! The subjects of calls and of control.

use asyncsteps_executor::iface::{FunctionName, IfaceVer, Version};

use crate::node::NodeId;

/// The longest reply subject, in bytes; reply subjects of nodes have 64.
pub(super) const MAX_REPLY: usize = 512;

/// Writes subjects below a prefix. The names of interfaces and functions have no characters that mean
/// something in a subject.
#[derive(Clone, Debug)]
pub(super) struct Subjects {
    prefix: String,
}

impl Subjects {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Where a call goes: to any node, or to one.
    pub(super) fn call(&self, function: &FunctionName, node: Option<&NodeId>) -> String {
        let mut subject = self.begin(node, function.as_str().len());
        push_version(&mut subject, function.iface(), function.version());
        subject += function.func();
        subject
    }

    /// The calls that a node takes of an interface in this and each older minor version.
    pub(super) fn served(&self, interface: &IfaceVer, node: Option<&NodeId>) -> Vec<String> {
        let Version { major, minor, .. } = interface.version();
        let subjects = (0..=minor).map(|minor| {
            let mut subject = self.begin(node, interface.iface().len() + 16);
            push_version(&mut subject, interface.iface(), Version::new(major, minor));
            subject.push('*');
            subject
        });
        subjects.collect()
    }

    /// Whether calls of a function, as a message names it, come to this subject of a node.
    pub(super) fn is_of(&self, subject: &str, function: &str, node: &NodeId) -> bool {
        let called = |subject: &str| -> Option<bool> {
            let called = subject.strip_prefix(&*self.prefix)?;
            let of_node = |called: &str| -> Option<usize> {
                let called = called.strip_prefix(".node.")?.strip_prefix(node.as_str())?;
                Some(called.strip_prefix('.')?.len())
            };
            let rest = called.strip_prefix(".rpc.").map(str::len).or_else(|| of_node(called))?;
            let called = called.get(called.len() - rest..)?;
            let iface = function.find(':')?;
            let written = function.bytes().enumerate().map(|(at, byte)| match byte {
                b'.' if at < iface => b'-',
                b':' => b'.',
                _ => byte,
            });
            Some(written.eq(called.bytes()))
        };
        called(subject).unwrap_or_default()
    }

    /// Whether an answer may go to this subject: not to the nodes themselves or to the server, and not to one
    /// that makes lines of the protocol longer than the server takes (4,096 bytes).
    pub(super) fn is_answerable(&self, reply: &str) -> bool {
        let is_own = || reply.strip_prefix(&*self.prefix).is_some_and(|rest| rest.starts_with('.'));
        reply.len() <= MAX_REPLY && !reply.starts_with('$') && !is_own()
    }

    /// Where a node is asked whether it is there: beside its calls, so that what may call it may ask.
    pub(super) fn presence(&self, node: &NodeId) -> String {
        format!("{}.node.{node}.ping", self.prefix)
    }

    /// The subject of an order to a node, or to `all`.
    pub(super) fn control(&self, node: &str, order: &str) -> String {
        format!("{}.ctl.{node}.{order}", self.prefix)
    }

    /// Whether this part of a subject of control, all but the order, names the node.
    pub(super) fn is_to(&self, part: &str, node: &NodeId) -> bool {
        part.rsplit_once('.').is_some_and(|(_, to)| to == node.as_str())
    }

    /// The beginning of a subject, with room for `room` more bytes.
    fn begin(&self, node: Option<&NodeId>, room: usize) -> String {
        let (kind, node) = match node {
            Some(node) => (".node.", node.as_str()),
            None => (".rpc", ""),
        };
        let own = self.prefix.len() + kind.len() + node.len() + 1;
        let mut subject = String::with_capacity(own + room);
        for part in [&self.prefix, kind, node, "."] {
            subject += part;
        }
        subject
    }
}

/// `demo-bank.1.2.`: the name of the interface is one token.
fn push_version(subject: &mut String, iface: &str, version: Version) {
    subject.extend(iface.chars().map(|letter| if letter == '.' { '-' } else { letter }));
    for number in [version.major, version.minor] {
        subject.push('.');
        *subject += itoa::Buffer::new().format(number);
    }
    subject.push('.');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_have_the_version() {
        let subjects = Subjects::new("ftn.v1");
        let function = "demo.bank:1.12:authorize".parse().expect("a function");
        let node: NodeId = "shop-1".parse().expect("a name");
        assert_eq!(subjects.call(&function, None), "ftn.v1.rpc.demo-bank.1.12.authorize");
        let to_node = "ftn.v1.node.shop-1.demo-bank.1.12.authorize";
        assert_eq!(subjects.call(&function, Some(&node)), to_node);
        let interface = "demo.bank:2.2".parse().expect("an interface");
        let served = ["ftn.v1.rpc.demo-bank.2.0.*", "ftn.v1.rpc.demo-bank.2.1.*"];
        assert_eq!(subjects.served(&interface, None)[..2], served);
        assert_eq!(subjects.served(&interface, None).len(), 3);
        let large = "a.b.c:123456789.0:f".parse().expect("a function");
        assert_eq!(subjects.call(&large, None), "ftn.v1.rpc.a-b-c.123456789.0.f");
        assert_eq!(subjects.control("shop-1", "ping"), "ftn.v1.ctl.shop-1.ping");
    }

    #[test]
    fn a_subject_is_that_of_its_function() {
        let subjects = Subjects::new("ftn.v1");
        let node: NodeId = "n1".parse().expect("a name");
        let is_of = |subject, function| subjects.is_of(subject, function, &node);
        for subject in ["ftn.v1.rpc.demo-bank.1.2.get", "ftn.v1.node.n1.demo-bank.1.2.get"] {
            assert!(is_of(subject, "demo.bank:1.2:get"), "{subject}");
            for other in [
                "demo.bank:1.2:put",
                "demo.bank:1.2:ge",
                "demo.bank:1.2:getx",
                "demo.bank:1.1:get",
                "demo.shop:1.2:get",
                "demo.bank",
                "",
            ] {
                assert!(!is_of(subject, other), "{other}");
            }
        }
        for other in ["ftn.v1.node.n2.demo-bank.1.2.get", "ftn.v1.demo-bank.1.2.get", "x", ""] {
            assert!(!is_of(other, "demo.bank:1.2:get"), "{other}");
        }
    }

    #[test]
    fn answers_go_to_inboxes() {
        let subjects = Subjects::new("ftn.v1");
        let long = "x".repeat(MAX_REPLY + 1);
        for (reply, expected) in [
            ("_INBOX.ftn-1.2", true),
            ("guest.7", true),
            ("ftn.v10.x", true),
            ("ftn.v1.ctl.n1.cancel", false),
            ("$SRV.PING", false),
            (&long[1..], true),
            (&long, false),
        ] {
            assert_eq!(subjects.is_answerable(reply), expected, "{reply}");
        }
    }
}
