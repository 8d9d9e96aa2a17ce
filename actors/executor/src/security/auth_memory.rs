//! Users that an AuthService has confirmed a short time ago.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use parking_lot::Mutex;

use super::{MacAlgorithm, MacKey, MemoryOptions, Secret, User};
use crate::recent::Recent;

/// Remembers the secrets of confirmed users by their local ids. Clones share the memory.
#[derive(Clone, derive_more::Debug)]
#[debug("UserMemory {{ time: {:?}, .. }}", self.0.time)]
pub(super) struct UserMemory(Arc<Inner>);

struct Inner {
    /// Hides passwords; `None` if the system had no random bytes: then none is remembered.
    hide: Option<MacKey>,
    time: Duration,
    clock: Clock,
    known: Mutex<Known>,
}

struct Known {
    users: Recent<String, Secrets>,
    /// How often users were forgotten.
    forgotten: u64,
}

/// The memory of a user.
#[derive(Default)]
struct Secrets {
    /// The code of the password that was right.
    password: Option<Remembered<String>>,
    key: Option<Remembered<Arc<MacKey>>>,
}

struct Remembered<T> {
    secret: T,
    user: User,
    /// On the clock of the memory.
    until: Duration,
}

/// When a check began: its result is not remembered if a user was forgotten since then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Began(u64);

impl UserMemory {
    pub(super) fn new(options: MemoryOptions) -> Self {
        let mut key = [0; 32];
        let hide = getrandom::fill(&mut key).is_ok().then(|| MacKey::new(&key));
        let MemoryOptions { time, passwords } = options;
        let known = Mutex::new(Known { users: Recent::new(passwords), forgotten: 0 });
        Self(Arc::new(Inner { hide, time, clock: Clock::start(), known }))
    }

    /// A check begins.
    pub(super) fn began(&self) -> Began {
        Began(self.0.known.lock().forgotten)
    }

    /// The user, if this password was confirmed lately.
    pub(super) fn password(&self, id: &str, password: &Secret) -> Option<User> {
        let code = self.code(id, password)?;
        let known = self.0.known.lock();
        let remembered = known.users.get(id)?.password.as_ref()?;
        (remembered.secret == code && self.is_fresh(remembered)).then(|| remembered.user.clone())
    }

    /// The user and its key, if a signature with it was confirmed lately.
    pub(super) fn key(&self, id: &str) -> Option<(Arc<MacKey>, User)> {
        let known = self.0.known.lock();
        let remembered = known.users.get(id)?.key.as_ref().filter(|it| self.is_fresh(it))?;
        Some((Arc::clone(&remembered.secret), remembered.user.clone()))
    }

    pub(super) fn remember_password(&self, began: Began, id: &str, password: &Secret, user: &User) {
        let Some(code) = self.code(id, password) else { return };
        let remembered = self.remembered(code, user);
        self.change(began, id, |secrets| secrets.password = Some(remembered));
    }

    pub(super) fn remember_key(&self, began: Began, id: &str, key: &Arc<MacKey>, user: &User) {
        let remembered = self.remembered(Arc::clone(key), user);
        self.change(began, id, |secrets| secrets.key = Some(remembered));
    }

    pub(super) fn forget(&self, id: &str) {
        let mut known = self.0.known.lock();
        known.forgotten += 1;
        known.users.remove(id);
    }

    fn change(&self, began: Began, id: &str, change: impl FnOnce(&mut Secrets)) {
        let mut known = self.0.known.lock();
        if began == Began(known.forgotten) {
            change(known.users.get_or_insert_with(id.to_owned(), Secrets::default));
        }
    }

    fn remembered<T>(&self, secret: T, user: &User) -> Remembered<T> {
        let until = self.0.clock.elapsed().saturating_add(self.0.time);
        Remembered { secret, user: user.clone(), until }
    }

    fn is_fresh<T>(&self, remembered: &Remembered<T>) -> bool {
        self.0.clock.elapsed() < remembered.until
    }

    fn code(&self, id: &str, password: &Secret) -> Option<String> {
        // an id has no line ends
        let base = format!("{id}\n{}", password.expose());
        self.0.hide.as_ref().map(|key| key.sign(MacAlgorithm::Sha256, base.as_bytes()))
    }
}
