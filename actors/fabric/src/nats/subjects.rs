//! The subjects of calls and of control.

use std::fmt::Write;

use asyncsteps_executor::iface::{FunctionName, IfaceVer};

use crate::node::NodeId;

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
        let mut subject = self.begin(node);
        let version = function.version();
        write_iface(&mut subject, function.iface());
        write(&mut subject, format_args!(".{}.{}.", version.major, version.minor));
        subject += function.func();
        subject
    }

    /// The calls that a node takes of an interface in this and each older minor version.
    pub(super) fn served(&self, interface: &IfaceVer, node: Option<&NodeId>) -> Vec<String> {
        let version = interface.version();
        let minors = 0..=version.minor;
        let subjects = minors.map(|minor| {
            let mut subject = self.begin(node);
            write_iface(&mut subject, interface.iface());
            write(&mut subject, format_args!(".{}.{minor}.*", version.major));
            subject
        });
        subjects.collect()
    }

    /// What a node, or `all`, is told.
    pub(super) fn control(&self, node: &str, order: &str) -> String {
        format!("{}.ctl.{node}.{order}", self.prefix)
    }

    /// Whether this part of a subject of control, all but the order, is that of the node.
    pub(super) fn is_to(&self, part: &str, node: &NodeId) -> bool {
        part.rsplit_once('.').is_some_and(|(_, to)| to == node.as_str())
    }

    fn begin(&self, node: Option<&NodeId>) -> String {
        let mut subject = String::with_capacity(self.prefix.len() + 64);
        subject += &self.prefix;
        match node {
            Some(node) => write(&mut subject, format_args!(".node.{node}.")),
            None => subject += ".rpc.",
        }
        subject
    }
}

/// The name of an interface as one token.
fn write_iface(subject: &mut String, iface: &str) {
    subject.extend(iface.chars().map(|char| if char == '.' { '-' } else { char }));
}

fn write(subject: &mut String, text: std::fmt::Arguments<'_>) {
    let written = subject.write_fmt(text);
    debug_assert!(written.is_ok(), "a string takes all text");
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
        assert_eq!(subjects.control("shop-1", "ping"), "ftn.v1.ctl.shop-1.ping");
    }
}
