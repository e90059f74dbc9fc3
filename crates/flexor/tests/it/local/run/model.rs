//! Histories of a job, played twice: by the pure controller in a world that does at once what it says, and by the laptop
//! cluster with real processes. Both come to the same state after every act, also where the cluster is stopped between
//! any two of its own and another takes it over.

mod real;

use flexor_model::IdRule;

use self::real::Real;
use crate::model::history::{Act, Dice, acts};
use crate::model::pure::Pure;

/// Plays a history in both worlds. How often the cluster was stopped.
fn play(ids: IdRule, history: &[Act], stop_after: Option<usize>, what: &str) -> usize {
    let mut real = Real::new(ids, stop_after);
    let mut pure = Pure::new(real.job());
    pure.settle();
    real.comes_to(&pure.state(), what);
    for (number, act) in history.iter().enumerate() {
        pure.act(act);
        pure.settle();
        real.act(act);
        real.comes_to(&pure.state(), &format!("{what}, act {number}: {act:?} of {history:?}"));
    }
    real.stops()
}

#[test]
fn the_cluster_comes_to_the_state_of_the_pure_controller() {
    flexor_seeds::each(0..6, |seed| {
        let ids = if seed % 2 == 0 { IdRule::Rank } else { IdRule::Increasing };
        play(ids, &acts(&mut Dice(seed), 8), None, &format!("seed {seed}"));
    });
}

#[test]
fn another_that_takes_over_between_any_two_acts_comes_to_the_same_state() {
    let (kills, ends) = ([Act::Kill(0), Act::Scale(3), Act::Delete(1)], [0, 1, 2].map(|rank| Act::Exit(rank, 0)));
    // Every boundary once; every third also where a replacement has another name, and may come beside what it replaces.
    for (ids, migrates, step) in [(IdRule::Rank, None, 1), (IdRule::Increasing, Some(Act::Migrate(0)), 3)] {
        let history: Vec<Act> = kills.iter().cloned().chain(migrates).chain(ends.iter().cloned()).collect();
        for after in (1..).step_by(step) {
            if play(ids, &history, Some(after), &format!("{ids:?}, stopped after {after}")) == 0 {
                assert!(after > 20, "there are more acts in it than {after}");
                break;
            }
        }
    }
}
