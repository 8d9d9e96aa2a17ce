//! The checks of a request, in the order of FTN6 §1.2, and its admission.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::budget::{Client, PendingPermit, Permit};
use asyncsteps_actors::clock;
use asyncsteps_actors::drain::DrainGuard;
use asyncsteps_actors::flow::earliest;
use asyncsteps_core::{Template, Time, codes};
use asyncsteps_futoin::iface::FunctionName;
use asyncsteps_futoin::message::{Coding, Request};
use serde_json::{Map, Value};

use super::admission::{self, Admission};
use super::authenticate::{AuthContext, Claim};
use super::caller::Caller;
use super::estimate;
use super::handle::Shared;
use super::over::{QueueTime, Timings};
use super::refused::{RefusalReason, Refused};
use super::registry::HostedFunction;
use super::reply_context::ReplyContext;
use super::request_checks::CheckFor;
use super::request_parts::RequestParts;
use crate::channel::{Channel, ChannelKind};

/// A request that passed the checks.
pub(super) struct Checked {
    pub(super) function: Arc<HostedFunction>,
    pub(super) template: Template,
    /// The function as the caller named it.
    pub(super) called: FunctionName,
    pub(super) params: Map<String, Value>,
}

/// A request whose flow may begin.
pub(super) struct Admitted {
    pub(super) checked: Checked,
    pub(super) admission: Admission,
    pub(super) deadline: Time,
    /// How long it may take in all, and how long raw data may pause.
    pub(super) patience: Duration,
}

impl Arrived {
    fn admitted(
        checked: Checked,
        entered: DrainGuard,
        permit: Permit,
        incoming: &mut RequestParts,
        (deadline, patience): (Time, Duration),
    ) -> Self {
        let client = mem::take(&mut incoming.client_permit);
        let admission = Admission { entered, _permit: permit, _client: client };
        Self::Admitted(Admitted { checked, admission, deadline, patience })
    }
}

/// How long a request may wait for its permit if it has no time limit: a year.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// How far a request is on its way to its flow.
pub(super) enum Arrived {
    Admitted(Admitted),
    /// It waits for the verdict about its caller.
    Claimed {
        entered: DrainGuard,
        client: Client,
        claim: Claim,
    },
    /// It passed the checks and waits for its permit.
    Queued {
        checked: Checked,
        entered: DrainGuard,
        pending: PendingPermit,
        deadline: Time,
        patience: Duration,
    },
}

impl Shared {
    /// Checks a request and takes its permit, as far as neither has to wait; records the caller.
    pub(super) fn admit(
        &self,
        incoming: &mut RequestParts,
        reply_to: &mut ReplyContext,
        times: &mut Timings,
    ) -> Result<Arrived, Refused> {
        let mut entered = match incoming.is_inside {
            true => self.drain.admit_inside(),
            false => self.drain.admit().ok_or_else(Refused::closing)?,
        };
        // asked before the checks take fields out of the request
        let client = (self.config.client)(&incoming.request, &incoming.channel);
        match self.claim(incoming) {
            Ok(Claim::Known(caller)) => {
                self.admit_caller(caller, entered, &client, (incoming, reply_to, times))
            }
            Ok(claim @ (Claim::Credentials(_) | Claim::Verdict(_))) => {
                Ok(Arrived::Claimed { entered, client, claim })
            }
            Err(refused) => {
                entered.finish();
                Err(refused)
            }
        }
    }

    /// Waits until a request is admitted; records the caller and the time in the queue.
    pub(super) async fn admitted(
        &self,
        mut arrived: Arrived,
        incoming: &mut RequestParts,
        reply_to: &mut ReplyContext,
        times: &mut Timings,
    ) -> Result<Admitted, Refused> {
        loop {
            arrived = match arrived {
                Arrived::Admitted(admitted) => return Ok(admitted),
                Arrived::Claimed { mut entered, client, claim } => {
                    // within the time of the request
                    let deadline = deadline(incoming, times, self.config.patience(false));
                    let context =
                        AuthContext { client: &client, deadline, grace_end: &self.grace_end };
                    let caller = match self.verified(incoming, claim, context).await {
                        Ok(caller) => caller,
                        Err(refused) => {
                            entered.finish();
                            return Err(refused);
                        }
                    };
                    self.admit_caller(caller, entered, &client, (incoming, reply_to, times))?
                }
                Arrived::Queued { checked, entered, pending, deadline, patience } => {
                    let permit = admission::queued(pending, deadline, &self.grace_end).await;
                    times.queued = QueueTime::For(times.queued.so_far());
                    Arrived::admitted(checked, entered, permit?, incoming, (deadline, patience))
                }
            };
        }
    }

    /// The checks of FTN6 for a caller who is known, in their order, and the permit.
    fn admit_caller(
        &self,
        caller: Caller,
        mut entered: DrainGuard,
        client: &Client,
        (incoming, reply_to, times): (&mut RequestParts, &mut ReplyContext, &mut Timings),
    ) -> Result<Arrived, Refused> {
        let checked = match self.check_as(caller, incoming, reply_to) {
            Ok(checked) => checked,
            Err(refused) => {
                entered.finish();
                return Err(refused);
            }
        };
        let patience = self.config.patience(checked.function.declared().heavy());
        let deadline = deadline(incoming, times, patience);
        let rid = reply_to.rid.as_ref();
        let memory = estimate::of_request(&checked.params, rid) + incoming.transport_memory;
        let permit = match incoming.permit.take() {
            Some(mut permit) => {
                permit.resize(memory).map_err(Refused::over_budget)?;
                permit
            }
            None => match self.config.budget.admit(client, memory).decided() {
                Ok(decided) => decided.map_err(Refused::over_budget)?,
                Err(pending) => {
                    times.queued = QueueTime::Since(clock::now());
                    return Ok(Arrived::Queued { checked, entered, pending, deadline, patience });
                }
            },
        };
        Ok(Arrived::admitted(checked, entered, permit, incoming, (deadline, patience)))
    }

    fn check_as(
        &self,
        caller: Caller,
        incoming: &mut RequestParts,
        reply_to: &mut ReplyContext,
    ) -> Result<Checked, Refused> {
        reply_to.caller = match incoming.request.obf() {
            Some(obf) => caller.on_behalf(obf)?,
            None => caller,
        };
        self.check(incoming, reply_to)
    }

    /// The checks of a request whose caller is known.
    fn check(
        &self,
        incoming: &mut RequestParts,
        reply_to: &mut ReplyContext,
    ) -> Result<Checked, Refused> {
        let caller = &reply_to.caller;
        let RequestParts { request, channel, size, input, memory, hosted, .. } = incoming;
        let hosted = hosted.take().filter(|_| !caller.is_anonymous());
        let found = match hosted {
            Some(hosted) => Some((request.function_name()?, hosted)),
            None => self.registry.find(request.f(), caller),
        };
        let (called, function) = match found {
            Some(found) => found,
            None => {
                let called = request.function_name()?;
                let function = self.resolve(&called, channel.kind(), caller)?;
                (called, function)
            }
        };
        reply_to.function = Some(Arc::clone(&function));
        let caller = &reply_to.caller;
        let declared = function.declared();
        if *size > declared.max_request_size() {
            return Err(Refused::request_too_large());
        }
        if function.is_forwarded() {
            check_forwarded(request, input.is_some())?;
        } else if input.is_some() && !declared.rawupload() {
            let text = "Raw upload is not allowed: parameters are in the query of the URL, or an object in \
                a body of the type application/json";
            return Err(Refused::new(codes::INVALID_REQUEST, text));
        }
        function.check_conditions(channel, caller, request.coding())?;
        let mut params = request.take_params(&called, declared)?;
        if !function.is_forwarded() {
            declared.check_params(&called, &mut params)?;
        }
        request.check_fields()?;
        let template = function.implementation()?.template(memory.is_some()).clone();
        if declared.rawresult() && !channel.carries_raw_data() {
            let text = "Raw result is not supported by this channel";
            return Err(Refused::new(codes::INTERNAL_ERROR, text));
        }
        Ok(Checked { function, template, called, params })
    }
}

impl Shared {
    /// The function of this name, or what stands for it where it is hosted elsewhere.
    fn resolve(
        &self,
        called: &FunctionName,
        channel: ChannelKind,
        caller: &Caller,
    ) -> Result<Arc<HostedFunction>, Refused> {
        let forwarded = self.config.forwarded.as_ref();
        match forwarded.filter(|_| self.registry.forwards(called, channel)) {
            Some(forwarded) => Ok(Arc::clone(forwarded)),
            None => self.registry.resolve(called, caller),
        }
    }

    /// The refusal of a request to a function that is not known here, unless anonymous callers may not know that.
    pub(super) fn unknown(&self, called: &FunctionName, channel: ChannelKind) -> Option<Refused> {
        if self.config.forwarded.is_some() && self.registry.forwards(called, channel) {
            return None;
        }
        let refused = self.registry.resolve(called, &Caller::anonymous()).err()?;
        (refused.reason() == RefusalReason::Unknown).then_some(refused)
    }

    /// The checks of a request that is not dispatched, but stored: see [`RequestChecks`](super::RequestChecks).
    pub(super) fn check_stored(
        &self,
        request: Request,
        caller: &Caller,
        wanted: CheckFor,
    ) -> Result<Map<String, Value>, Refused> {
        let (caller, mut request) = (caller.within(), request);
        let called = request.function_name()?;
        let function = self.registry.resolve(&called, &caller)?;
        if wanted == CheckFor::Outside {
            function.check_outside(&caller)?;
        }
        function.check_conditions(&Channel::local(), &caller, request.coding())?;
        let declared = function.declared();
        let mut params = request.take_params(&called, declared)?;
        declared.check_params(&called, &mut params)?;
        Ok(match wanted {
            CheckFor::Comparison => declared.canonical_params(&params),
            CheckFor::Program | CheckFor::Outside => params,
        })
    }
}

/// When a request ends that may take so long.
fn deadline(incoming: &RequestParts, times: &Timings, patience: Duration) -> Time {
    let patience = if incoming.memory.is_some() { LONG } else { patience };
    let own = times.arrived + patience;
    let deadline = incoming.deadline.map_or(own, |of_caller| of_caller.min(own));
    earliest(Some(deadline)).unwrap_or(deadline)
}

/// Refuses requests that cannot be forwarded while the definition of the function is not known: raw
/// data, and binary codings, which write texts and byte strings as the definition says.
fn check_forwarded(request: &Request, has_input: bool) -> Result<(), Refused> {
    let refuse = |text| Err(Refused::new(codes::INVALID_REQUEST, text));
    if has_input {
        return refuse("Raw data is not forwarded: call the node that hosts the function");
    }
    if request.coding() != Coding::Json {
        return refuse("Only JSON is forwarded: the definition of the function is not known here");
    }
    Ok(())
}
