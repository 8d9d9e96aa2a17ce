//! What came with a request beside its parameters (FTN6 §2.2, FTN5 §3.6).

use std::rc::Rc;

use asyncsteps_core::{Error, Time, codes};
use asyncsteps_futoin::message::header_name;
use asyncsteps_futoin::net::SourceAddress;

use super::exchange::Exchange;
use super::key::{IDEMPOTENCY_KEY, KeyPolicy, key_of_header};
use super::received_parts::ReceivedParts;
use crate::channel::ChannelKind;
use crate::raw::{RawFlow, RawInput};

/// What came with a request beside its parameters: headers, cookies, when and from where.
///
/// [`ServedRequest::received`](super::ServedRequest::received) returns it in bodies; in steps of FTN12
/// [`RequestInfo`](super::RequestInfo) has the same.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("Received {{ from: {:?}, .. }}", self.source_address())]
pub struct Received<'a>(pub(super) &'a Rc<Exchange>);

impl<'a> Received<'a> {
    /// When the request began to be served, on the clock of [`AsyncSteps::now`](asyncsteps_core::AsyncSteps::now)
    /// (FTN6 §2.2 `REQUEST_TIME_FLOAT`).
    #[must_use]
    pub fn begun(self) -> Time {
        self.0.times.arrived
    }

    /// Where the request came from, if its transport knows it (FTN6 §2.2 `CLIENT_ADDR`).
    #[must_use]
    pub fn source_address(self) -> Option<SourceAddress> {
        self.0.reply_to.channel.source_address()
    }

    /// The request in the terms of its transport, if that is of this type: a
    /// `RequestHead` of `asyncsteps-transport` over HTTP, or the head of the upgrade over WebSocket. It has the
    /// server's data about the connection, such as the client's certificate (FTN6 §2.2 `X509_CN`); see
    /// [`RequestContext::transport`](crate::security::RequestContext::transport).
    #[must_use]
    pub fn transport<T: 'static>(self) -> Option<&'a T> {
        self.parts().headers.as_ref()?.transport()?.downcast_ref()
    }

    /// The first header of this name, in any case, of an HTTP request. Over WebSocket it is a header of the upgrade.
    #[must_use]
    pub fn header(self, name: &str) -> Option<&'a str> {
        self.parts().headers.as_ref()?.header(&header_name(name))
    }

    /// Whether an HTTP request, or the upgrade, has a header of this name, including a header that is no text, which
    /// [`header`](Self::header) does not return.
    #[must_use]
    pub fn has_header(self, name: &str) -> bool {
        self.parts().headers.as_ref().is_some_and(|headers| headers.has_header(&header_name(name)))
    }

    /// All headers of an HTTP request, or of the upgrade, with their names in lower case (FTN5 §3.6
    /// `getRequestHeaders`).
    pub fn headers(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.parts().headers.iter().flat_map(|headers| headers.headers())
    }

    /// The [key](super::IDEMPOTENCY_KEY) of its caller with its policy, if it has one. The headers of a WebSocket belong to the connection,
    /// and not to each request that comes over it.
    ///
    /// # Errors
    /// InvalidRequest with a header that is [no key](super::checked_key), and with several of them.
    pub fn idempotency_key(self) -> Result<Option<(&'a str, KeyPolicy)>, Error> {
        let kind = self.0.reply_to.channel.kind();
        if kind == ChannelKind::WebSocket || !self.has_header(IDEMPOTENCY_KEY) {
            return Ok(None);
        }
        let headers = self.parts().headers.as_ref();
        let key = headers.filter(|headers| !headers.is_repeated(IDEMPOTENCY_KEY));
        key_of_header(key.and_then(|headers| headers.header(IDEMPOTENCY_KEY))).map(Some)
    }

    /// The cookie of this name of an HTTP request.
    #[must_use]
    pub fn cookie(self, name: &str) -> Option<&'a str> {
        let pairs = self.header("cookie")?.split(';');
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// Whether there is a raw upload that was not taken yet (FTN6 §2.2 `HAVE_RAW_UPLOAD`).
    #[must_use]
    pub fn has_raw_input(self) -> bool {
        self.parts().input.borrow().is_some()
    }

    /// Whether the result has to be raw data and none was written yet (FTN6 §2.2 `HAVE_RAW_RESULT`).
    #[must_use]
    pub fn expects_raw_output(self) -> bool {
        self.0.function.declared().rawresult() && self.0.can_reply()
    }

    /// Takes the raw upload (FTN6 §2.2 `rawInput`). While it comes, the request's time limit counts
    /// from the last chunk. It ends with InvalidRequest behind [`max_upload`](crate::Builder::max_upload) bytes.
    ///
    /// # Errors
    /// InternalError if there is none or it was taken.
    pub fn raw_input(self) -> Result<RawInput, Error> {
        let input =
            self.parts().input.borrow_mut().take().ok_or_else(|| {
                Error::with_info(codes::INTERNAL_ERROR, "Raw input is not available")
            })?;
        let flow: Rc<dyn RawFlow> = Rc::<Exchange>::clone(self.0);
        Ok(input.of_request(flow, self.0.reply_to.shared.config.max_upload))
    }

    fn parts(self) -> &'a ReceivedParts {
        &self.0.received
    }
}
