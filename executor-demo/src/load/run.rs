//! One run at one rate.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::books::Books;
use super::check::{Found, check};
use super::client::Client;
use super::measured::Measured;
use super::mix::Mix;
use super::options::LoadOptions;
use super::pacer::pace;
use super::progress::Progress;
use super::schedule::Schedule;

/// The state that all runs against a server share.
pub(super) struct Load {
    pub(super) client: Client,
    books: RefCell<Books>,
    mix: RefCell<Mix>,
}

/// A run that has ended.
pub(super) struct Run {
    pub(super) rate: f64,
    pub(super) measured: Measured,
    /// From the first request to the last answer.
    pub(super) took: Duration,
}

impl Load {
    pub(super) fn new(client: Client, books: Books, mix: Mix) -> Rc<Self> {
        Rc::new(Self { client, books: RefCell::new(books), mix: RefCell::new(mix) })
    }

    /// Sends requests at this rate, and waits for their answers.
    pub(super) async fn run(
        self: &Rc<Self>,
        options: &LoadOptions,
        rate: f64,
    ) -> anyhow::Result<Run> {
        let duration = options.duration();
        let schedule = Schedule::new(options.arrivals, rate, duration, options.seed);
        let progress = Progress::start(options.quiet, rate, duration);
        let measured = Rc::new(RefCell::new(Measured::new()?));
        let start = Instant::now();
        let mut due = pace(schedule, start)?;
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                // answers first: they make room
                biased;
                Some(_) = requests.join_next() => {}
                next = due.recv() => {
                    let Some(due) = next else { break };
                    let mut measured_now = measured.borrow_mut();
                    measured_now.late.record((start + due).elapsed());
                    if requests.len() >= options.in_flight.get() {
                        measured_now.held_back += 1;
                    } else {
                        requests.spawn_local(Rc::clone(self).request(start + due, Rc::clone(&measured)));
                    }
                }
            }
            progress.show(&measured.borrow(), start.elapsed(), requests.len());
        }
        while requests.join_next().await.is_some() {
            progress.show(&measured.borrow(), start.elapsed(), requests.len());
        }
        let took = start.elapsed();
        progress.end();
        let measured = measured.replace(Measured::new()?);
        Ok(Run { rate, measured, took })
    }

    /// Differences of the server from its answers, and the checks that did not fit in this time.
    pub(super) async fn check(&self, limit: Duration) -> Found {
        // no request is in flight that would note something
        let mut books = self.books.take();
        let call = async |function: &str, params: &Value| self.client.call(function, params).await;
        check(call, &mut books, limit).await
    }

    /// One request, which was due then.
    async fn request(self: Rc<Self>, due: Instant, measured: Rc<RefCell<Measured>>) {
        let call = self.mix.borrow_mut().next();
        let sent = Instant::now();
        let (answer, waited) = self.client.call_timed(call.function(), &call.params()).await;
        let took = sent.elapsed().saturating_sub(waited);
        measured.borrow_mut().record(call.function(), &answer, due.elapsed(), took);
        measured.borrow_mut().connection.record(waited);
        self.mix.borrow_mut().learn(&call, &answer);
        self.books.borrow_mut().record(call, &answer);
    }
}
