//! What stands for the connection to the other nodes in a program that is built without NATS: there is none.
#![expect(clippy::unused_async, reason = "with NATS they wait")]

use actix_rt::ArbiterHandle;
use anyhow::bail;
use asyncsteps::Executor;
use asyncsteps::fabric::{
    Call, CallError, Capabilities, Endpoint, Fabric, NodeId, NodeInfo, Pending, Response,
    ServeGuard,
};
use asyncsteps::health::ConnectionState;
use futures_util::future::BoxFuture;

use super::options::NatsOptions;

#[derive(Clone, Debug)]
pub(crate) enum NatsFabric {}

pub(super) async fn join(
    nats: &NatsOptions,
    _: Option<&NodeId>,
) -> anyhow::Result<Option<NatsFabric>> {
    match nats.nats {
        None => Ok(None),
        Some(_) => bail!("this program is built without NATS: build it with `--features nats`"),
    }
}

impl NatsFabric {
    pub(super) fn node(&self) -> &NodeId {
        match *self {}
    }

    pub(super) async fn serve_on(
        &self,
        _: Vec<ArbiterHandle>,
        _: Vec<Endpoint>,
        _: Executor,
    ) -> Result<ServeGuard, CallError> {
        match *self {}
    }

    pub(super) async fn order_drain(&self, _: &NodeId) -> Result<(), CallError> {
        match *self {}
    }

    pub(super) async fn drain_ordered(&self) {
        match *self {}
    }

    pub(super) fn connection_state(&self) -> ConnectionState {
        match *self {}
    }

    pub(super) async fn close(&self) {
        match *self {}
    }
}

impl Fabric for NatsFabric {
    fn call(&self, _: Call) -> Pending<'_, Result<Response, CallError>> {
        match *self {}
    }

    fn serve(&self, _: Vec<Endpoint>, _: Executor) -> Pending<'_, Result<ServeGuard, CallError>> {
        match *self {}
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<NodeInfo>, CallError>> {
        match *self {}
    }

    fn capabilities(&self) -> Capabilities {
        match *self {}
    }
}
