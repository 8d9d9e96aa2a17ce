//! The promise: a client that sends wrong passwords, however many, locks no other client out
//! (FTN6 §1.5).

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use asyncsteps_core::Template;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::security::{
    Attempt, AuthOutcome, Grant, MemoryOptions, PasswordHash, PasswordMemory, Refusal, Secret,
    SecurityLevel, SecurityProvider, StaticUsers, User,
};
use asyncsteps_executor::{Executor, Incoming, RequestSteps};
use asyncsteps_support::conform;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// Where wrong passwords come from.
const ATTACKER: &str = "192.0.2.1:1";

/// Hashes passwords of all users but some when the test says so.
#[derive(Debug)]
struct Slow {
    users: StaticUsers,
    /// Gets each user whose hash is begun, and what lets it end.
    begun: Mutex<UnboundedSender<(String, Sender<()>)>>,
}

impl SecurityProvider for Slow {
    fn check(&self, attempt: &Attempt<'_>) -> AuthOutcome {
        let user = attempt.credentials().user().unwrap_or_default().to_owned();
        if user.starts_with("static") {
            return self.users.check(attempt);
        }
        let begun = self.begun.lock().expect("no panic").clone();
        AuthOutcome::compute(move || {
            let (end, ended) = channel();
            // the receiver is dropped when the test is over
            let _ = begun.send((user.clone(), end));
            let _ = ended.recv();
            if user == "ann" {
                Ok(Grant::new(User::new(user, SecurityLevel::SafeOps)))
            } else {
                Err(Refusal::credentials())
            }
        })
    }
}

fn executor() -> (UnboundedReceiver<(String, Sender<()>)>, Executor) {
    let (begun, begins) = unbounded_channel();
    let hash = PasswordHash::new(&Secret::new("pass")).expect("random bytes");
    let users = StaticUsers::new().with_password("static", hash);
    let answer = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(42));
    });
    let executor = Executor::builder()
        .request_timeout(Duration::from_secs(600))
        .security(Slow { users, begun: Mutex::new(begun) })
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
            functions.add("answer", &answer);
        })
        .build();
    (begins, executor.expect("a right configuration"))
}

/// The answer to a request with credentials from an address.
fn answer(executor: &Executor, sec: &str, peer: &str) -> impl Future<Output = String> + 'static {
    let message = json!({ "f": "conform.main:1.2:answer", "sec": sec }).to_string();
    let request = Request::parse(message.as_bytes()).expect("a message");
    let peer: SocketAddr = peer.parse().expect("an address");
    let channel = Channel::new(ChannelKind::Http).with_peer(peer);
    let executor = executor.clone();
    async move {
        let reply = executor.dispatch(Incoming::new(request, channel)).await;
        String::from_utf8(reply.into_bytes().expect("a message")).expect("text")
    }
}

/// A thousand requests with wrong passwords from one address; ready when each has its place or its
/// answer.
async fn flood(executor: &Executor, user: impl Fn(usize) -> String) -> Vec<JoinHandle<String>> {
    const REQUESTS: usize = 1_000;
    let ask = |n| actix_rt::spawn(answer(executor, &format!("{}:wrong", user(n)), ATTACKER));
    let answers: Vec<_> = (0..REQUESTS).map(ask).collect();
    let is_settled = || {
        let answered = answers.iter().filter(|answer| answer.is_finished()).count();
        answered + executor.in_flight_count() == REQUESTS && answered > 0
    };
    while !is_settled() {
        tokio::task::yield_now().await;
    }
    assert!(executor.in_flight_count() < REQUESTS / 10, "most are refused at once");
    answers
}

/// Ann's request, which waits for its hash when this is ready.
async fn ann(executor: &Executor, peer: &str) -> JoinHandle<String> {
    let mut answer = Box::pin(answer(executor, "ann:right", peer));
    let first = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await;
    assert!(first.is_pending());
    actix_rt::spawn(answer)
}

/// Ends one hash after the other until that of `user` begins, and lets it end too; gives how many
/// there were before.
async fn turns_until(user: &str, begins: &mut UnboundedReceiver<(String, Sender<()>)>) -> usize {
    for turn in 0..10_000 {
        let (begun, end) = begins.recv().await.expect("an executor");
        end.send(()).expect("it waits");
        if begun == user {
            return turn;
        }
    }
    panic!("{user} has no turn");
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[actix::test]
async fn a_flood_for_one_user_does_not_keep_others_of_its_address_waiting() {
    let (mut begins, executor) = executor();
    let flood = flood(&executor, |_| "eve".to_owned()).await;
    let ann = ann(&executor, ATTACKER).await;
    let turns = turns_until("ann", &mut begins).await;
    assert!(turns <= 2 * processors(), "{turns} wrong passwords went before the right one");
    assert_eq!(ann.await.unwrap(), r#"{"r":42}"#);
    drop(begins);
    for answer in flood {
        let answer = answer.await.unwrap();
        assert!(answer.contains("SecurityError") || answer.contains("DefenseRejected"), "{answer}");
    }
}

#[actix::test]
async fn a_flood_for_many_users_does_not_keep_other_addresses_waiting() {
    let (mut begins, executor) = executor();
    let flood = flood(&executor, |n| format!("user{n}")).await;
    let ann = ann(&executor, "192.0.2.2:1").await;
    let turns = turns_until("ann", &mut begins).await;
    assert!(turns <= 2 * processors(), "{turns} wrong passwords went before the right one");
    assert_eq!(ann.await.unwrap(), r#"{"r":42}"#);
    drop((begins, flood));
}

#[actix::test]
async fn wrong_passwords_of_many_addresses_do_not_keep_a_first_sign_in_waiting() {
    const ADDRESSES: usize = 40;
    const REQUESTS: usize = 10 * ADDRESSES;
    let (mut begins, executor) = executor();
    let ask = |n| {
        let peer = format!("192.0.2.{}:1", 100 + n % ADDRESSES);
        actix_rt::spawn(answer(&executor, "eve:wrong", &peer))
    };
    // each address was wrong once
    let first: Vec<_> = (0..ADDRESSES).map(ask).collect();
    for _ in 0..ADDRESSES {
        let (_, end) = begins.recv().await.expect("an executor");
        end.send(()).expect("it waits");
    }
    for answer in first {
        assert!(answer.await.unwrap().contains("SecurityError"));
    }
    let flood: Vec<_> = (0..REQUESTS).map(ask).collect();
    while executor.in_flight_count() < REQUESTS {
        tokio::task::yield_now().await;
    }
    let ann = ann(&executor, "198.51.100.1:1").await;
    let turns = turns_until("ann", &mut begins).await;
    assert!(turns <= 2 * processors(), "{turns} wrong passwords went before the right one");
    assert_eq!(ann.await.unwrap(), r#"{"r":42}"#);
    drop((begins, flood));
}

#[actix::test]
async fn a_user_that_was_admitted_lately_does_not_wait() {
    let (begins, executor) = executor();
    let answer = || answer(&executor, "static:pass", ATTACKER);
    assert_eq!(answer().await, r#"{"r":42}"#);
    let flood = flood(&executor, |n| format!("user{n}")).await;
    // no hash ends before this test lets it
    assert_eq!(answer().await, r#"{"r":42}"#);
    drop((begins, flood));
}

#[actix::test]
async fn a_right_password_is_known_for_a_while_and_with_its_hash_only() {
    tokio::time::pause();
    let hash = |password: &str| PasswordHash::new(&Secret::new(password)).expect("random bytes");
    let options = MemoryOptions { time: Duration::from_secs(60), passwords: 2 };
    let memory = PasswordMemory::new(options);
    let (old, new, right) = (hash("right"), hash("right"), Secret::new("right"));
    assert!(!memory.verify(&old, &Secret::new("wrong")));
    assert!(!memory.knows(&old, &Secret::new("wrong")) && !memory.knows(&old, &right));
    assert!(memory.verify(&old, &right) && memory.knows(&old, &right));
    assert!(!memory.knows(&new, &right) && !memory.knows(&old, &Secret::new("wrong")));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(memory.knows(&old, &right));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!memory.knows(&old, &right));
    // as many as it may, and no more
    let hashes: Vec<_> = (0..3).map(|_| hash("right")).collect();
    assert!(hashes.iter().all(|hash| memory.verify(hash, &right)));
    let known = hashes.iter().filter(|hash| memory.knows(hash, &right)).count();
    assert_eq!(known, 2);
}
