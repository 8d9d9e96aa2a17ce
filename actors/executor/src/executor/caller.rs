//! Who calls: from the credentials of a request to a user and a level (FTN6 §1.2, §1.4, FTN8).

use std::fmt;
use std::sync::{Arc, LazyLock};

use asyncsteps::{Time, codes};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{Asked, Incoming, Refused, Shared, admission, hashing};
use crate::channel::ChannelKind;
use crate::security::{
    Attempt, Client, Credentials, Denied, Grant, RequestContext, SecurityLevel, Signer, User,
    Verdict,
};
use asyncsteps_actors::timer;

/// Who a call is made for: a user with a level, or an anonymous caller (FTN3 §1.11).
///
/// [`RequestInfo::caller`](super::RequestInfo::caller) has that of a request. It can be sent to other
/// threads, so that what a request starts there can act for the same user.
#[derive(Clone, Default)]
pub struct Caller {
    user: Option<Arc<User>>,
    /// The message had a signature, or never left the process.
    signed: bool,
    signer: Option<Arc<dyn Signer>>,
}

/// The fields of `obf` (FTN3 §1.6).
const OBF: [&str; 3] = ["lid", "gid", "slvl"];

/// The user that stands for this process itself (FTN6 §1.4).
static INTERNAL: LazyLock<Arc<User>> =
    LazyLock::new(|| Arc::new(User::new("-internal", SecurityLevel::System)));

impl Caller {
    /// A caller without a user.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default().within()
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.user.is_none()
    }

    pub(super) fn is_signed(&self) -> bool {
        self.signed
    }

    pub(super) fn level(&self) -> SecurityLevel {
        self.user().map_or(SecurityLevel::Anonymous, User::level)
    }

    pub(super) fn signer(&self) -> Option<&Arc<dyn Signer>> {
        self.signer.as_ref()
    }

    pub(super) fn user(&self) -> Option<&User> {
        self.user.as_deref()
    }

    /// The same for what its request contains: only the answer to the request itself is signed.
    pub(super) fn without_signer(&self) -> Self {
        Self { signer: None, ..self.clone() }
    }

    /// The same for calls that the request makes: they do not leave the process, so nobody can change
    /// them, and their answers are not signed.
    pub(super) fn within(&self) -> Self {
        Self { user: self.user.clone(), signed: true, signer: None }
    }

    /// This process itself.
    pub(super) fn system() -> Self {
        Self { user: Some(Arc::clone(&INTERNAL)), signed: true, signer: None }
    }

    /// Acts for another user, as `obf` says (FTN3 §1.11): only who is trusted with everything may.
    fn on_behalf(mut self, obf: &Value) -> Result<Self, Refused> {
        if self.level() < SecurityLevel::System {
            return Err(Refused::new(codes::SECURITY_ERROR, "On-behalf-of is not allowed"));
        }
        let invalid = || Refused::new(codes::INVALID_REQUEST, "Invalid message: obf");
        let fields = obf.as_object().ok_or_else(invalid)?;
        if fields.iter().any(|(name, value)| !OBF.contains(&&**name) || !value.is_string()) {
            return Err(invalid());
        }
        let field = |name: &str| fields.get(name).and_then(Value::as_str);
        let level = field("slvl").map(str::parse).transpose();
        let (Some(local), Ok(level)) = (field("lid"), level) else {
            return Err(invalid());
        };
        let user = User::new(local, level.unwrap_or_default());
        self.user = Some(Arc::new(match field("gid") {
            Some(global) => user.with_global_id(global),
            None => user,
        }));
        Ok(self)
    }
}

impl From<&User> for Caller {
    fn from(user: &User) -> Self {
        Self { user: Some(Arc::new(user.clone())), signed: true, signer: None }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Shared {
    /// Finds out who calls, within the time of the request.
    pub(super) async fn authenticate(
        &self,
        incoming: &mut Incoming,
        asked: Asked<'_>,
    ) -> Result<Caller, Refused> {
        let credentials = match (incoming.request.sec(), incoming.credentials.take()) {
            (Some(sec), _) => Some(Credentials::parse(sec)?),
            (None, Some(credentials)) => Some(credentials?),
            (None, None) => None,
        };
        let caller = match credentials {
            None => match incoming.caller.take() {
                Some(known) => known,
                None => self.identify(incoming, asked).await?,
            },
            Some(Credentials::Internal) if incoming.channel.kind() == ChannelKind::Local => {
                Caller::system()
            }
            Some(Credentials::Internal) => return Err(Denied::not_internal().into()),
            // in a box, because most requests have none and need no room for it
            Some(credentials) => Box::pin(self.verified(incoming, credentials, asked)).await?,
        };
        match incoming.request.obf() {
            Some(obf) => caller.on_behalf(obf),
            None => Ok(caller),
        }
    }

    /// Who calls without credentials, by what came beside the message.
    async fn identify(&self, incoming: &mut Incoming, asked: Asked<'_>) -> Result<Caller, Refused> {
        let Some(provider) = &self.config.security else { return Ok(Caller::default()) };
        let client = client(incoming);
        match provider.identify(&context(incoming, &client)) {
            None => Ok(Caller::default()),
            // in a box, because most callers are anonymous and need no room for it
            Some(verdict) => Box::pin(self.granted(incoming, verdict, None, asked)).await,
        }
    }

    /// Who shows these credentials.
    async fn verified(
        &self,
        incoming: &mut Incoming,
        credentials: Credentials,
        asked: Asked<'_>,
    ) -> Result<Caller, Refused> {
        let Some(provider) = &self.config.security else {
            return Err(Denied::credentials().into());
        };
        let verdict = {
            let (signed, client) = (incoming.request.signed_fields(), client(incoming));
            let context = context(incoming, &client);
            provider.check(&Attempt::new(&credentials, &signed, &client).with_context(context))
        };
        let caller = self.granted(incoming, verdict, credentials.user(), asked).await?;
        Ok(Caller { signed: credentials.is_signature(), ..caller })
    }

    /// Whom the provider lets in, let in by the limits of users too.
    async fn granted(
        &self,
        incoming: &mut Incoming,
        verdict: Verdict,
        user: Option<&str>,
        asked: Asked<'_>,
    ) -> Result<Caller, Refused> {
        let grant = self.judge(incoming, verdict, user, asked).await?;
        self.admit_user(grant.user(), incoming, asked.deadline).await?;
        let user = Some(Arc::new(grant.user().clone()));
        Ok(Caller { user, signed: false, signer: grant.signer().cloned() })
    }

    /// Gives a request the limits of its user in place of those of its address, over whatever it
    /// came. What this process or a burst asks for a user it has let in is not limited again: that
    /// would wait for the place of the request it is a part of.
    async fn admit_user(
        &self,
        user: &User,
        incoming: &mut Incoming,
        deadline: Time,
    ) -> Result<(), Refused> {
        let Some(gate) = &self.config.gate else { return Ok(()) };
        let Incoming { channel, pass, .. } = incoming;
        let entered = within(deadline, gate.enter_user(user.local_id(), channel, pass)).await?;
        entered.map_err(admission::rejected)
    }

    /// Waits for a verdict that is not known yet; `user` is whom the request claims to come from.
    async fn judge(
        &self,
        incoming: &mut Incoming,
        verdict: Verdict,
        user: Option<&str>,
        asked: Asked<'_>,
    ) -> Result<Grant, Refused> {
        let Asked { flight, client, deadline } = asked;
        if !matches!(verdict, Verdict::Known(_)) {
            // while it waits it is in memory, so it has its place from now on
            let bytes = admission::memory_of_message(incoming.size);
            let admission = self.config.budget.admit(client, bytes);
            incoming.permit = Some(flight.wait(admission, deadline).await?);
        }
        let result = match verdict {
            Verdict::Known(result) => result,
            Verdict::Compute(work) => {
                let place = self.hashing.enter(flight, client, user, deadline).await?;
                within(deadline, compute(work, place)).await??
            }
            Verdict::Wait(verdict) => within(deadline, verdict).await?,
        };
        Ok(result?)
    }
}

/// Runs work on a thread that may block. The place is taken until the work is done, be there still a
/// request for it or not.
async fn compute(
    work: Box<dyn FnOnce() -> Result<Grant, Denied> + Send>,
    place: hashing::Place,
) -> Result<Result<Grant, Denied>, Refused> {
    let work = move || {
        let _place = place;
        work()
    };
    spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "the security provider failed");
        Refused::bare(codes::INTERNAL_ERROR)
    })
}

/// What happens within the time of the request; after it the request is answered as one whose flow
/// took too long.
async fn within<T>(deadline: Time, work: impl Future<Output = T>) -> Result<T, Refused> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = timer::sleep_until(deadline) => Err(Refused::bare(codes::INTERNAL_ERROR)),
    }
}

/// What came with a request beside its message.
fn context<'a>(incoming: &'a Incoming, client: &'a Client) -> RequestContext<'a> {
    RequestContext::new(client).with_headers(incoming.headers.as_deref())
}

/// What is known of the other end without its credentials.
fn client(incoming: &Incoming) -> Client {
    let Incoming { channel, headers, .. } = incoming;
    let agent = headers.as_ref().and_then(|headers| headers.header("user-agent"));
    let mut client = Client::default();
    client.source = channel.peer().map(|peer| peer.ip().to_canonical());
    client.secure = channel.is_secure();
    client.user_agent = agent.map(str::to_owned);
    client
}
