//! Whatever facts are found behind the damage of a journal, the count of what is open again has a bound and is told.
#![no_main]

use std::sync::LazyLock;

use flexor_engine::ledger::{DatasetSpec, Fact, Ledger, LostFacts};
use libfuzzer_sys::fuzz_target;

static BEFORE: LazyLock<Vec<Fact>> = LazyLock::new(|| {
    let mut facts = Vec::new();
    let spec = DatasetSpec::new("d", 1000, 10).expect("a dataset").with_epochs(None);
    Ledger::default().register(spec, &mut facts).expect("it is new");
    facts.push(Fact::EpochBegun { dataset: "d".into(), epoch: 0 });
    facts
});

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(behind) = serde_json::from_slice::<Vec<Fact>>(rest) else { return };
    let mut ledger = Ledger::default();
    BEFORE.iter().for_each(|fact| ledger.replay(fact));
    let open = ledger.reopen_lost(&LostFacts { behind, may_hold_grants: *first % 2 == 1 });
    let totals = ledger.totals("d").expect("it is registered");
    assert_eq!((totals.reopened_at_most, totals.repeated_at_most), (open, open));
});
