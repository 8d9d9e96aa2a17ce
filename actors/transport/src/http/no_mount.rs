//! Without the feature `actix-web` no application mounts the service.

use std::io;
use std::iter::Empty;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderValue, Version};

/// There is none.
pub(super) enum MountedHead {}

impl MountedHead {
    pub(super) fn detached<T: From<Self>>(&self, _: Option<HeaderValue>) -> T {
        match *self {}
    }

    pub(super) fn method(&self) -> &str {
        match *self {}
    }

    pub(super) fn path(&self) -> &str {
        match *self {}
    }

    pub(super) fn query(&self) -> &str {
        match *self {}
    }

    pub(super) fn authority(&self) -> Option<&str> {
        match *self {}
    }

    pub(super) fn version(&self) -> Version {
        match *self {}
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match *self {}
    }

    pub(super) fn connection_data<T: 'static>(&self) -> Option<&T> {
        match *self {}
    }

    pub(super) fn is_secure(&self) -> bool {
        match *self {}
    }

    pub(super) fn values(&self, _: &str) -> Empty<Option<&str>> {
        match *self {}
    }

    pub(super) fn fields(&self) -> Empty<(&str, &str)> {
        match *self {}
    }

    pub(super) fn lengths(&self) -> Empty<(&str, usize)> {
        match *self {}
    }
}

/// There is none.
pub(super) enum Upload {}

impl Upload {
    pub(super) fn length(&self) -> Option<u64> {
        match *self {}
    }
}

impl Stream for Upload {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match *self {}
    }
}
