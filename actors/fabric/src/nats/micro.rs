//! The micro service protocol of NATS (ADR-32), so that `nats micro` shows what nodes serve.

use std::sync::{Arc, Weak};

use async_nats::{Message, Subject};
use asyncsteps_executor::iface::IfaceVer;
use asyncsteps_executor::observe::FunctionFigures;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::connection::{NotSent, Subscription};
use super::link::Link;
use super::node_server::NodeServer;

/// The services of a node: one for each interface and major version.
#[derive(Clone, Debug)]
pub(super) struct Services {
    services: Arc<[MicroService]>,
    queue_group: String,
}

#[derive(Debug)]
struct MicroService {
    /// `demo-bank-v1`: the protocol allows no dots.
    name: String,
    interface: IfaceVer,
    functions: Vec<MicroFunction>,
}

#[derive(Debug)]
struct MicroFunction {
    name: String,
    subject: String,
}

/// The questions of the protocol.
#[derive(Clone, Copy, Debug)]
enum Question {
    Ping,
    Info,
    Stats,
}

impl Services {
    pub(super) fn new(server: &NodeServer) -> Self {
        let catalog = server.executor.catalog();
        let services = server.endpoints.iter().map(|endpoint| {
            let interface = endpoint.interface().clone();
            let (iface, version) = (interface.iface(), interface.version());
            let hosted = catalog.interfaces.iter().find(|it| it.iface == iface);
            let names = hosted.into_iter().flat_map(|hosted| &hosted.functions);
            let functions = names.filter(|function| function.implemented).map(|function| {
                let called = format!("{interface}:{}", function.name);
                let subject = called.parse().map(|called| server.link.subjects.call(&called, None));
                MicroFunction { name: function.name.clone(), subject: subject.unwrap_or_default() }
            });
            let name = format!("{}-v{}", iface.replace('.', "-"), version.major);
            let functions = functions.collect();
            MicroService { name, interface, functions }
        });
        Self { services: services.collect(), queue_group: server.link.config.queue_group.clone() }
    }

    /// Subscribes to the questions to all services, to services of a name, and to this node.
    pub(super) async fn subscribe(
        &self,
        link: &Link,
    ) -> Result<Vec<Box<dyn Subscription>>, NotSent> {
        let mut subjects = vec!["$SRV.*".to_owned()];
        for MicroService { name, .. } in &*self.services {
            subjects.push(format!("$SRV.*.{name}"));
            subjects.push(format!("$SRV.*.{name}.{}", link.node));
        }
        let mut subscriptions = Vec::with_capacity(subjects.len());
        for subject in subjects {
            subscriptions.push(link.subscribe(subject, None).await?);
        }
        Ok(subscriptions)
    }

    /// Answers questions as long as the node serves.
    pub(super) async fn answer(
        self,
        server: Weak<NodeServer>,
        mut questions: Box<dyn Subscription>,
    ) {
        while let Some(question) = questions.next().await {
            let Some(server) = server.upgrade() else { return };
            if server.is_draining() {
                continue;
            }
            for (reply, answer) in self.answers(&server, &question) {
                server.link.publish(reply, answer).await;
            }
        }
    }

    /// One answer for each service that is asked.
    fn answers(&self, server: &NodeServer, question: &Message) -> Vec<(Subject, Bytes)> {
        let mut tokens = question.subject.split('.').skip(1);
        let (asked, name) = (tokens.next().and_then(Question::parse), tokens.next());
        let (Some(asked), Some(reply)) = (asked, &question.reply) else { return Vec::new() };
        let services = self.services.iter().filter(|it| name.is_none_or(|name| name == it.name));
        let answers = services.map(|service| {
            let answer = match asked {
                Question::Ping => service.identity("ping", server),
                Question::Info => self.info(service, server),
                Question::Stats => self.stats(service, server),
            };
            (reply.clone(), Bytes::from(answer.to_string()))
        });
        answers.collect()
    }

    fn info(&self, service: &MicroService, server: &NodeServer) -> Value {
        let mut info = service.identity("info", server);
        let endpoints = service.functions.iter().map(|function| self.endpoint(function));
        info["description"] = format!("{} of FutoIn", service.interface).into();
        info["endpoints"] = endpoints.collect();
        info
    }

    fn stats(&self, service: &MicroService, server: &NodeServer) -> Value {
        let mut stats = service.identity("stats", server);
        let figures = server.executor.figures().functions;
        let endpoints = service.functions.iter().map(|function| {
            let mut endpoint = self.endpoint(function);
            let name = format!("{}:{}", service.interface, function.name);
            if let Some(figures) = figures.iter().find(|it| it.function == name) {
                add_figures(&mut endpoint, figures);
            }
            endpoint
        });
        stats["endpoints"] = endpoints.collect();
        stats["started"] = server.started.clone().into();
        stats
    }

    fn endpoint(&self, function: &MicroFunction) -> Value {
        let MicroFunction { name, subject } = function;
        json!({ "name": name, "subject": subject, "queue_group": self.queue_group })
    }
}

impl MicroService {
    fn identity(&self, kind: &str, server: &NodeServer) -> Value {
        json!({
            "type": format!("io.nats.micro.v1.{kind}_response"),
            "name": self.name,
            "id": server.link.node.as_str(),
            "version": format!("{}.0", self.interface.version()),
            "metadata": { "interface": self.interface.to_string() },
        })
    }
}

impl Question {
    fn parse(verb: &str) -> Option<Self> {
        match verb {
            "PING" => Some(Self::Ping),
            "INFO" => Some(Self::Info),
            "STATS" => Some(Self::Stats),
            _ => None,
        }
    }
}

/// Adds the figures of a function; the protocol has times in nanoseconds.
fn add_figures(endpoint: &mut Value, figures: &FunctionFigures) {
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (requests, total) = (figures.total.count(), nanos(figures.total.sum));
    endpoint["num_requests"] = requests.into();
    endpoint["num_errors"] = figures.errors.values().sum::<u64>().into();
    endpoint["processing_time"] = total.into();
    endpoint["average_processing_time"] = total.checked_div(requests).unwrap_or(0).into();
}
