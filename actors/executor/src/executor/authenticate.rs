//! From the credentials of a request to its caller (FTN6 §1.2, §1.4, FTN8).

use asyncsteps_actors::{budget, timer};
use asyncsteps_core::{Time, codes};
use tokio::task::spawn_blocking;

use super::admission::{self, GraceEnd};
use super::caller::Caller;
use super::estimate;
use super::handle::Shared;
use super::hashing::HashPermit;
use super::refused::Refused;
use super::request_parts::RequestParts;
use crate::channel::ChannelKind;
use crate::security::{
    Attempt, AuthOutcome, Client, Credentials, Grant, Refusal, RequestContext, SECURITY_ERROR, User,
};

/// The limits of the checks of a request's credentials, which may take a while.
#[derive(Clone, Copy)]
pub(super) struct AuthContext<'a> {
    /// The client that the request is counted for in the budget.
    pub(super) client: &'a budget::Client,
    pub(super) deadline: Time,
    pub(super) grace_end: &'a GraceEnd,
}

/// What a request says of its caller, to be verified.
pub(super) enum Claim {
    /// The caller is known.
    Known(Caller),
    /// The security provider decides by these credentials.
    Credentials(Credentials),
    /// The security provider decides by headers and connection.
    Verdict(AuthOutcome),
}

impl Shared {
    /// What a request says of its caller.
    pub(super) fn claim(&self, incoming: &mut RequestParts) -> Result<Claim, Refused> {
        let credentials = match (incoming.request.sec(), incoming.credentials.take()) {
            (Some(sec), _) => Some(Credentials::parse(sec)?),
            (None, Some(credentials)) => Some(credentials?),
            (None, None) => None,
        };
        match credentials {
            None => Ok(match incoming.caller.take() {
                Some(known) => Claim::Known(known),
                None => self.identify(incoming)?,
            }),
            Some(Credentials::Internal) if incoming.channel.kind() == ChannelKind::Local => {
                Ok(Claim::Known(Caller::system()))
            }
            Some(Credentials::Internal) => Err(Refusal::not_internal().into()),
            Some(credentials) => Ok(Claim::Credentials(credentials)),
        }
    }

    /// The claim of a request without credentials in its message, by its headers and connection.
    fn identify(&self, incoming: &RequestParts) -> Result<Claim, Refused> {
        let provider = self.config.security.as_ref();
        let verdict = provider.and_then(|provider| {
            let client = client(incoming);
            provider.identify(&beside_message(incoming, &client))
        });
        if let Some(verdict) = verdict {
            return Ok(Claim::Verdict(verdict));
        }
        let headers = incoming.headers.as_deref();
        if headers.is_some_and(|headers| headers.has_header("authorization")) {
            // who shows credentials must not be taken for somebody without them
            let text = match provider.map(|provider| provider.schemes().join(", ")) {
                Some(schemes) => format!("Authorization is not checked here but for: {schemes}"),
                None => "Authorization is not checked here".to_owned(),
            };
            return Err(Refused::new(SECURITY_ERROR, text));
        }
        Ok(Claim::Known(Caller::default()))
    }

    /// The caller who makes a claim, within the time of the request.
    pub(super) async fn verified(
        &self,
        incoming: &mut RequestParts,
        claim: Claim,
        context: AuthContext<'_>,
    ) -> Result<Caller, Refused> {
        let credentials = match claim {
            Claim::Known(known) => return Ok(known),
            Claim::Verdict(verdict) => return self.granted(incoming, verdict, None, context).await,
            Claim::Credentials(credentials) => credentials,
        };
        let Some(provider) = &self.config.security else {
            return Err(Refusal::credentials().into());
        };
        self.check_algorithm(&credentials)?;
        let verdict = {
            let (signed, client) = (incoming.request.signed_fields(), client(incoming));
            let beside = beside_message(incoming, &client);
            provider.check(&Attempt::new(&credentials, &signed, &client).with_context(beside))
        };
        let caller = self.granted(incoming, verdict, credentials.user(), context).await?;
        Ok(caller.with_signature(credentials.is_signature()))
    }

    /// Refuses signatures whose algorithm is not accepted (FTN6 §1.3.3).
    fn check_algorithm(&self, credentials: &Credentials) -> Result<(), Refused> {
        let (Credentials::Mac { algorithm, .. }, Some(accepted)) =
            (credentials, &self.config.mac_algorithms)
        else {
            return Ok(());
        };
        if accepted.contains(algorithm) {
            return Ok(());
        }
        let text = format!("MAC algorithm is not accepted: {}", algorithm.name());
        Err(Refused::new(SECURITY_ERROR, text))
    }

    /// The caller that the provider admits, once the limits of users admit it too.
    async fn granted(
        &self,
        incoming: &mut RequestParts,
        verdict: AuthOutcome,
        user: Option<&str>,
        context: AuthContext<'_>,
    ) -> Result<Caller, Refused> {
        let grant = self.judge(incoming, verdict, user, context).await?;
        self.admit_user(grant.user(), incoming, context.deadline).await?;
        Ok(Caller::granted(&grant))
    }

    /// Puts a request under the limits of its user instead of the limits of its address.
    ///
    /// Calls of this process and of a burst for a user are not limited again: they would wait for the
    /// permit of the request that they are a part of.
    async fn admit_user(
        &self,
        user: &User,
        incoming: &mut RequestParts,
        deadline: Time,
    ) -> Result<(), Refused> {
        let Some(limits) = &self.config.client_limits else { return Ok(()) };
        let RequestParts { channel, client_permit, .. } = incoming;
        let entered = limits.enter_user(user.local_id(), channel, client_permit);
        within(deadline, entered).await?
    }

    /// Waits for a verdict that is not known yet; `user` is the user that the request names.
    async fn judge(
        &self,
        incoming: &mut RequestParts,
        verdict: AuthOutcome,
        user: Option<&str>,
        context: AuthContext<'_>,
    ) -> Result<Grant, Refused> {
        let AuthContext { client, deadline, grace_end } = context;
        if !matches!(verdict, AuthOutcome::Known(_)) {
            // it is in memory while it waits, so it counts in the budget from now on
            let pending = self.config.budget.admit(client, estimate::of_message(incoming.size));
            incoming.permit = Some(admission::permit(pending, deadline, grace_end).await?);
        }
        let result = match verdict {
            AuthOutcome::Known(result) => result,
            AuthOutcome::Compute(work) => {
                let permit = self.hashing.enter(client, user, deadline, grace_end).await?;
                within(deadline, compute(work, permit)).await??
            }
            AuthOutcome::Wait(verdict) => within(deadline, verdict).await?,
        };
        Ok(result?)
    }
}

/// Runs work on a thread that may block. The permit is held until the work is done, even if its
/// request has ended meanwhile.
async fn compute(
    work: Box<dyn FnOnce() -> Result<Grant, Refusal> + Send>,
    permit: HashPermit,
) -> Result<Result<Grant, Refusal>, Refused> {
    let work = move || {
        let result = work();
        // also if its request has ended meanwhile
        permit.judge(result.is_ok());
        result
    };
    spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "the security provider failed");
        Refused::without_text(codes::INTERNAL_ERROR)
    })
}

/// Bounds a part of the checks by the time of the request; afterwards the answer is the one of a
/// request whose flow took too long.
async fn within<T>(deadline: Time, work: impl Future<Output = T>) -> Result<T, Refused> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = timer::sleep_until(deadline) => Err(Refused::without_text(codes::INTERNAL_ERROR)),
    }
}

/// The parts of a request outside of its message, for the security provider.
fn beside_message<'a>(incoming: &'a RequestParts, client: &'a Client) -> RequestContext<'a> {
    RequestContext::new(client).with_headers(incoming.headers.as_deref())
}

/// The identity of the other end without its credentials.
fn client(incoming: &RequestParts) -> Client {
    let RequestParts { channel, headers, .. } = incoming;
    let agent = headers.as_ref().and_then(|headers| headers.header("user-agent"));
    let mut client = Client::default();
    client.source = channel.peer().map(|peer| peer.ip().to_canonical());
    client.secure = channel.is_secure();
    client.user_agent = agent.map(str::to_owned);
    client
}
