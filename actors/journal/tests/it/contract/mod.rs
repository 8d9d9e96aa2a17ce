//! What every journal must keep. Each rule is a function of a fresh journal with the limits below.
#![expect(clippy::unwrap_used, reason = "rules are tests, in functions that several tests call")]

mod claims;
mod emits;
mod histories;
mod inbox;
mod model;
mod operator;
mod quotas;
mod records;
mod removal;
mod schedules;
mod world;

use std::pin::Pin;

use asyncsteps_journal::{Journal, Limits};

/// Small, so that rules reach them.
const LIMITS: Limits = Limits {
    records: 40,
    signals: 5,
    signal_bytes: 10_000,
    events: 5,
    event_bytes: 20_000,
    claims: 3,
};

/// A rule that runs.
type Checked<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A rule.
type Rule = for<'a> fn(&'a dyn Journal) -> Checked<'a>;

macro_rules! rules {
    ($($file:ident: $($rule:ident)*;)*) => {
        /// All rules with their names.
        const RULES: &[(&str, Rule)] =
            &[$($((stringify!($rule), |journal| Box::pin($file::$rule(journal))),)*)*];

        /// Makes a test of each rule, which `$check` runs.
        macro_rules! one_test_per_rule {
            ($check:path) => {
                $($(
                    #[test]
                    fn $rule() {
                        $check(stringify!($rule));
                    }
                )*)*
            };
        }
    };
}

rules! {
    records:
        a_submitted_flow_is_loaded
        a_submit_is_repeated_once
        a_key_gives_the_first_flow_and_refuses_other_parameters
        records_of_all_kinds_come_back_in_order
        a_stale_epoch_cannot_append_and_the_batch_goes_on
        a_lost_answer_is_repeated_once
        a_repeat_after_the_end_or_a_takeover_is_still_answered
        a_repeat_of_what_a_later_owner_has_replaced_is_stale
        numbers_cannot_be_used_again
        an_iteration_replaces_its_records
        live_records_are_bounded
        what_is_too_large_is_refused_alone
        an_ended_flow_tells_its_result_until_it_is_trimmed
        flows_are_listed_in_pages
        a_list_says_whose_a_flow_is_and_how_it_ended
        a_list_says_until_when_a_flow_waits
        open_flows_are_counted_by_state
        a_flow_that_is_not_there_is_named;
    removal:
        a_failed_flow_leaves_its_key_to_one_that_reruns_it
        flows_of_a_user_and_of_a_key_are_listed
        flows_are_listed_by_their_tags
        what_has_ended_is_removed_with_its_key;
    schedules:
        schedules_are_kept_by_name
        schedules_are_bounded;
    claims:
        two_claims_never_give_the_same_flow
        a_claim_races_with_an_append
        a_claim_whose_answer_was_lost_is_repeated
        begun_flows_come_before_new_ones_and_oldest_first
        awaited_flows_come_first_and_functions_take_turns
        a_node_gets_flows_of_its_versions_only
        a_node_without_a_lease_gets_nothing
        a_dead_owner_loses_its_flows
        a_released_flow_is_not_counted
        a_flow_that_kills_its_owners_becomes_a_dead_letter
        progress_resets_the_count
        a_suspect_that_waits_has_no_reason
        deaths_without_an_open_effect_are_told_and_not_counted
        suspects_run_one_at_a_time
        a_death_counts_for_a_suspect_that_was_the_only_one
        a_death_counts_for_no_suspect_beside_another_open_effect
        a_suspect_that_waits_does_not_count_beside_one_that_has_begun
        a_flow_that_kills_each_owner_beside_others_is_found
        a_delayed_start_waits_for_its_time;
    inbox:
        the_first_of_cancel_and_end_wins
        a_cancel_is_seen_at_the_next_append
        of_a_cancel_and_a_record_the_first_wins
        a_cancel_says_who_or_what_it_was
        a_cancel_races_with_an_end
        a_signal_before_its_wait_is_kept_until_it_is_taken
        a_repeated_signal_is_stored_once
        a_signal_and_a_timeout_are_decided_by_one_append
        signals_are_bounded
        bytes_of_signals_are_bounded
        a_parked_flow_is_woken_by_time_and_by_signals
        a_flow_that_was_refused_says_why_until_it_is_claimed
        a_signal_that_races_with_parking_is_not_slept_over
        news_names_the_flows_with_something_unseen
        changes_tell_of_work;
    emits:
        events_have_numbers_without_gaps_and_are_emitted_once
        events_at_once_are_numbered_without_gaps
        events_are_of_the_owner
        events_are_bounded_and_what_is_refused_is_refused_alone
        events_stay_until_their_flow_is_removed
        a_flow_that_begins_anew_emits_again;
    operator:
        a_paused_flow_waits_for_an_operator
        a_step_is_done_again_without_its_records
        a_flow_begins_again_with_a_new_run
        a_flow_does_not_begin_again_with_an_effect
        a_flow_that_undoes_does_not_go_back
        a_flow_stays_on_its_version
        a_dead_letter_is_replayed
        a_cancel_lets_a_paused_flow_undo
        a_cancel_lets_a_cancelled_flow_go_on
        of_orders_at_once_one_is_carried_out
        an_order_is_stored_once_however_many_signals_wait;
    quotas:
        no_more_flows_of_a_caller_wait_than_its_quota
        what_runs_or_has_ended_is_not_counted
        callers_of_a_group_have_a_quota_together
        submits_at_once_do_not_exceed_a_quota;
    histories:
        owners_at_once_are_explained_by_a_model;
}

/// Every rule is kept by sealed journals too.
#[cfg(feature = "encryption")]
fn keys() -> asyncsteps_journal::Keys {
    asyncsteps_journal::Keys::new([("a", &[1; 32])]).expect("a key")
}

fn run(name: &str, journal: &dyn Journal) {
    let (_, rule) = RULES.iter().find(|(rule, _)| *rule == name).expect("a rule");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(rule(journal));
}

mod memory {
    use asyncsteps_journal::memory::{Memory, SeededFaults};

    fn check(name: &str) {
        super::run(name, &Memory::default().limits(super::LIMITS));
        #[cfg(feature = "encryption")]
        super::run(name, &Memory::default().limits(super::LIMITS).keys(super::keys()));
    }

    one_test_per_rule!(check);

    #[test]
    fn owners_whose_answers_are_lost_are_explained_by_a_model() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for seed in 0..200 {
            let journal = Memory::default().limits(super::LIMITS);
            let faulty = journal.clone().faults(SeededFaults::new(seed, 6, 3));
            runtime.block_on(super::histories::check(&journal, &[&faulty], seed));
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::{env, fs, process};

    use asyncsteps_journal::sqlite::{Options, Sqlite};

    fn check(name: &str) {
        let options = Options { limits: super::LIMITS, ..Options::new("test") };
        #[cfg(feature = "encryption")]
        check_with(name, Options { keys: Some(super::keys()), ..options.clone() });
        check_with(name, options);
    }

    fn check_with(name: &str, options: Options) {
        let folder = env::temp_dir().join(format!("journal-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let journal = Sqlite::open(folder.join("journal.db"), options).expect("a journal");
        super::run(name, &journal);
        drop(journal);
        fs::remove_dir_all(&folder).expect("the folder is there");
    }

    one_test_per_rule!(check);
}

#[cfg(feature = "postgres")]
mod postgres {
    use asyncsteps_journal::postgres::{Config, Options, Postgres};
    use asyncsteps_postgres_server::Server;

    /// All in one test, because they share a server. Every second rule is asked through a pooler that keeps sessions, and in
    /// the long run each in both ways.
    #[test]
    fn postgresql_keeps_every_rule() {
        let Some(mut server) = Server::start() else { return };
        _ = server.pool("session", 60);
        for (number, (name, rule)) in super::RULES.iter().enumerate() {
            println!("{name}");
            let is_first_pooled = (number / 2).is_multiple_of(2);
            check(if is_first_pooled { server.config() } else { server.direct() }, number, *rule);
            if std::env::var_os("LONG_TESTS").is_some() {
                let other = if is_first_pooled { server.direct() } else { server.config() };
                check(other, number + super::RULES.len(), *rule);
            }
        }
        println!("nodes with their own connections are explained by a model");
        run(async {
            let connect = async |config| {
                let options = Options { schema: "histories".to_owned(), ..Options::new("test") };
                Postgres::connect(config, options).await.expect("a journal")
            };
            let (one, two) = (connect(server.direct()).await, connect(server.direct()).await);
            let three = connect(server.config()).await;
            for seed in 0..20 {
                super::histories::check(&one, &[&one, &two, &three], seed).await;
            }
        });
    }

    fn check(config: Config, number: usize, rule: super::Rule) {
        run(async {
            let schema = format!("rule_{number}");
            let options = Options { schema, limits: super::LIMITS, ..Options::new("test") };
            // both are the same for the server: SQLite has each rule with and without keys
            #[cfg(feature = "encryption")]
            let options = Options {
                keys: Some(super::keys()).filter(|_| number.is_multiple_of(2)),
                ..options
            };
            let journal = Postgres::connect(config, options).await.expect("a journal");
            rule(&journal).await;
        });
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(test);
    }
}
