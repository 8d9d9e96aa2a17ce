//! The check of open requests against a program that is not deployed yet.

use asyncsteps_durable::Options;
use asyncsteps_durable::journal::dump::Dump;

use crate::changes::{crashes, deployed, lab};
use crate::lab::Lab;
use crate::node::run;

/// What the check tells of the only request in a dump.
fn checked(lab: &Lab, dump: &Dump, program: u32) -> Option<String> {
    let new = lab.clone().with_program(program);
    let (durable, _) = new.process(lab.journal());
    let mut replayed = durable.replay_check(dump);
    assert_eq!(replayed.len(), dump.flows().len());
    replayed.pop().and_then(|request| request.divergence)
}

#[test]
fn open_requests_are_checked_without_carrying_anything_out() {
    run(async {
        let mut diverged = 0;
        for crash in crashes(4) {
            for (function, good, other) in [("renamed", 3, 0), ("shorter", 2, 5), ("looping", 2, 0)]
            {
                let lab = lab();
                let journal = lab.journal();
                let uid = lab.submit(&journal, function, Options::default()).await;
                if deployed(&lab, (&journal, uid), &[(1, Some(crash))]).await.is_some() {
                    continue;
                }
                let (durable, _) = lab.process(journal.clone());
                let dump = durable.dump().await.expect("the journal is there");
                let bytes = dump.to_bytes().expect("it was stored");
                let dump = Dump::from_bytes(&bytes).expect("it was written");
                let counted = lab.all_counted();
                assert_eq!(checked(&lab, &dump, 1), None, "{function}, {crash:?}");
                assert_eq!(checked(&lab, &dump, good), None, "{function}, {crash:?}");
                if other > 0
                    && let Some(why) = checked(&lab, &dump, other)
                {
                    let recorded = "is recorded, and the program has only test.lab:1:shorter/hold,";
                    assert!(why.contains(recorded), "{why}");
                    diverged += 1;
                }
                assert_eq!(lab.all_counted(), counted, "{function}, {crash:?}: a body ran");
                let records = durable.records(uid).await.expect("it is known");
                assert_eq!(records, dump.flows()[0].records, "{function}, {crash:?}");
            }
        }
        assert!(diverged >= 4, "{diverged}");
    });
}

#[test]
fn bytes_that_are_no_dump_are_refused() {
    run(async {
        let lab = lab();
        let journal = lab.journal();
        lab.submit(&journal, "shorter", Options::default()).await;
        let (durable, _) = lab.process(journal);
        let bytes = durable.dump().await.expect("the journal is there").to_bytes();
        let bytes = bytes.expect("it was stored");
        for end in 0..bytes.len() {
            assert!(Dump::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        let longer = [&*bytes, &[0]].concat();
        assert!(Dump::from_bytes(&longer).is_err());
        let empty = Dump::default().to_bytes().expect("it is empty");
        assert_eq!(Dump::from_bytes(&empty).expect("it was written").flows().len(), 0);
    });
}
