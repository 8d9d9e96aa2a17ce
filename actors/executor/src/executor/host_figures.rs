//! The hosts whose figures an executor shows.

use std::sync::{Arc, Weak};

use futures_util::future::join_all;

use super::handle::Executor;
use crate::observe::{HostFigures, HostMetric};

impl Executor {
    /// Shows the figures of a host of requests among its own, as long as the host is there.
    pub fn shows(&self, host: &Arc<dyn HostFigures>) {
        let (mut all, host) = (self.shared.hosts.lock(), Arc::downgrade(host));
        all.retain(|it| it.strong_count() > 0 && !it.ptr_eq(&host));
        all.push(host);
    }

    /// The figures of all hosts: a metric has the samples of each.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn host_metrics(&self) -> Vec<HostMetric> {
        let hosts: Vec<_> = self.shared.hosts.lock().iter().filter_map(Weak::upgrade).collect();
        let mut all: Vec<HostMetric> = Vec::new();
        for metric in join_all(hosts.iter().map(|host| host.figures())).await.into_iter().flatten()
        {
            match all.iter_mut().find(|known| known.name == metric.name) {
                Some(known) => known.samples.extend(metric.samples),
                None => all.push(metric),
            }
        }
        all
    }
}
