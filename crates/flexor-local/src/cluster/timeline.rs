//! What a job did with its time: when it waited, trained and recovered, and with how many nodes.
//!
//! Taken from what the cluster sees at each change, so a state that nobody saw is not in it. It is for people and reports;
//! nothing is decided by it.

use std::time::Duration;

use flexor_model::UnixTime;
use serde::{Deserialize, Serialize};

/// What a job does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Activity {
    /// It has not trained yet, waits for room, or is to have nobody who trains.
    Waiting,
    /// Its world stands, or where it has none, its workers run. More of them may be on their way.
    Training,
    /// It trained before, and something that was lost is being put right.
    Recovering,
}

/// A part of a job's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its beginning.
    pub from: UnixTime,
    /// Its end; it goes on where there is none.
    pub to: Option<UnixTime>,
    /// What the job did.
    pub activity: Activity,
    /// With how many nodes: of the world, or where there is none, workers that run. None while it waits.
    pub nodes: u32,
}

/// A job's time so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// One after the other, without gaps.
    pub spans: Vec<Span>,
    /// There was a world.
    #[serde(default)]
    meets: bool,
    /// How many workers ran of those that are wanted, at most, and how many of the others: fewer are a loss.
    #[serde(default)]
    had_workers: u32,
    #[serde(default)]
    had_others: u32,
    /// How many records were accounted for when they were counted first.
    #[serde(default)]
    had_records: Option<u64>,
}

/// What is seen of a job at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// The world that its master tells of.
    pub(super) world: WorldSeen,
    /// Its workers.
    pub(super) workers: Crowd,
    /// What they need: its master and its parameter servers.
    pub(super) others: Crowd,
    /// Partitions of parameters are without a server.
    pub(super) unowned: bool,
    /// How many records are accounted for, where they are counted.
    pub(super) records: Option<u64>,
    /// Some worker waits for room.
    pub(super) waits_for_room: bool,
    /// No worker is wanted, or none of the parameter servers that workers wait for.
    pub(super) halted: bool,
}

/// Some pods of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Crowd {
    /// How many run.
    pub(super) running: u32,
    /// How many there should be.
    pub(super) wanted: u32,
}

impl Crowd {
    /// Whether fewer run than did, of those that are still wanted. Takes note of how many do.
    fn has_lost(self, had: &mut u32) -> bool {
        *had = self.running.max(*had).min(self.wanted);
        self.running < *had
    }
}

/// A world, as it is seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorldSeen {
    /// There was none so far; not all programs meet.
    None,
    /// Its nodes wait for one another.
    Meeting,
    /// It stands, with so many nodes.
    Stands(u32),
}

/// More changes than this are not kept apart: a report of so many would show nothing.
const MOST_SPANS: usize = 20_000;

impl Timeline {
    /// Takes note of what is seen now.
    pub(super) fn see(&mut self, moment: Moment, now: UnixTime) {
        if moment.world != WorldSeen::None && !self.meets {
            self.meets = true;
            // Its programs meet, so that they did not train before they had.
            for span in &mut self.spans {
                (span.activity, span.nodes) = (Activity::Waiting, 0);
            }
        }
        let Crowd { running, wanted } = moment.workers;
        let has_lost_workers = moment.workers.has_lost(&mut self.had_workers);
        let has_lost_others = moment.others.has_lost(&mut self.had_others);
        let has_lost_servers = has_lost_others || moment.unowned;
        let has_lost = has_lost_workers || has_lost_servers;
        self.had_records = self.had_records.or(moment.records);
        let has_begun = wanted > 0 && running >= wanted || running > 0 && moment.records > self.had_records;
        let trained = self.spans.iter().any(|span| span.activity == Activity::Training);
        let (activity, nodes) = match moment.world {
            WorldSeen::Stands(nodes) => (Activity::Training, nodes),
            WorldSeen::None | WorldSeen::Meeting if moment.halted => (Activity::Waiting, 0),
            // Those that have yet to come were not there before, and nothing has to be put right for them.
            WorldSeen::None if trained && !has_lost => (Activity::Training, running),
            WorldSeen::None if !trained && has_begun => (Activity::Training, running),
            // The others go on.
            WorldSeen::None if trained && moment.waits_for_room && running > 0 && !has_lost_servers => {
                (Activity::Training, running)
            }
            WorldSeen::None | WorldSeen::Meeting if trained && !moment.waits_for_room => {
                (Activity::Recovering, running)
            }
            WorldSeen::None | WorldSeen::Meeting => (Activity::Waiting, 0),
        };
        match self.spans.last_mut() {
            Some(last) if last.to.is_none() && last.activity == activity && last.nodes == nodes => return,
            // How many are there already says nothing where a job does not train.
            Some(last) if last.to.is_none() && last.activity == activity && activity != Activity::Training => {
                last.nodes = nodes;
                return;
            }
            Some(last) if last.to.is_none() => last.to = Some(now),
            Some(_) | None => {}
        }
        if self.spans.len() < MOST_SPANS {
            self.spans.push(Span { from: now, to: None, activity, nodes });
        }
    }

    /// The job is over.
    pub(super) fn end(&mut self, now: UnixTime) {
        if let Some(last) = self.spans.last_mut() {
            last.to.get_or_insert(now);
        }
    }

    /// How long the job was at each, until now.
    pub fn split(&self, now: UnixTime) -> Split {
        let mut split = Split::default();
        for span in &self.spans {
            let lasted = span.to.unwrap_or(now).min(now).saturating_sub(span.from);
            match span.activity {
                Activity::Waiting => split.waiting += lasted,
                Activity::Training => split.training += lasted,
                Activity::Recovering => split.recovering += lasted,
            }
        }
        split
    }
}

/// A job's time by what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    /// Not trained yet, without room, or with nobody who trains.
    pub waiting: Duration,
    /// Its world stood.
    pub training: Duration,
    /// Something was put right.
    pub recovering: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn second(number: u64) -> UnixTime {
        UnixTime::from_secs(number)
    }

    fn moment(world: WorldSeen, running: u32) -> Moment {
        let workers = Crowd { running, wanted: 2 };
        let others = Crowd::default();
        Moment { world, workers, others, unowned: false, records: None, waits_for_room: false, halted: false }
    }

    #[test]
    fn time_is_split_without_gaps() {
        let mut timeline = Timeline::default();
        let seen = [
            moment(WorldSeen::None, 0),
            // Its programs run but have not met, which is known only afterwards.
            moment(WorldSeen::None, 2),
            moment(WorldSeen::Stands(2), 2),
            moment(WorldSeen::Meeting, 1),
            moment(WorldSeen::Stands(2), 2),
        ];
        for (at, moment) in (1..).zip(seen) {
            timeline.see(moment, second(at));
        }
        timeline.end(second(9));
        let split = timeline.split(second(100));
        assert_eq!(split, Split { waiting: SECOND * 2, training: SECOND * 5, recovering: SECOND });
        assert!(timeline.spans.windows(2).all(|pair| pair[0].to == Some(pair[1].from)), "{timeline:?}");
    }

    #[test]
    fn without_a_world_a_job_trains_while_all_its_workers_run() {
        let mut timeline = Timeline::default();
        for (at, running) in [(0, 0), (1, 2), (5, 1), (6, 2)] {
            timeline.see(moment(WorldSeen::None, running), second(at));
        }
        let split = timeline.split(second(10));
        assert_eq!(split, Split { waiting: SECOND, training: SECOND * 8, recovering: SECOND });
    }

    #[test]
    fn whoever_learns_trains_though_others_are_not_there_yet() {
        let mut timeline = Timeline::default();
        let of = |running, records| Moment { records, ..moment(WorldSeen::None, running) };
        // It goes on from where it was before.
        for (at, moment) in [(0, of(0, None)), (1, of(0, Some(500))), (2, of(1, Some(500))), (4, of(1, Some(501)))] {
            timeline.see(moment, second(at));
        }
        let last = *timeline.spans.last().unwrap();
        assert_eq!((last.from, last.activity, last.nodes), (second(4), Activity::Training, 1), "{timeline:?}");
        assert_eq!(timeline.spans[0].nodes, 0, "{timeline:?}");
        // One of them has to go and waits for room.
        timeline.see(of(2, Some(600)), second(5));
        timeline.see(Moment { waits_for_room: true, ..of(1, Some(700)) }, second(6));
        let last = *timeline.spans.last().unwrap();
        assert_eq!((last.activity, last.nodes), (Activity::Training, 1), "{timeline:?}");
    }

    #[test]
    fn growing_is_training_and_losing_anything_is_recovering() {
        let mut timeline = Timeline::default();
        let well = |running: u32, wanted: u32| Moment {
            workers: Crowd { running, wanted },
            others: Crowd { running: 3, wanted: 3 },
            ..moment(WorldSeen::None, 0)
        };
        let seen = [
            (well(0, 2), Activity::Waiting),
            (well(2, 2), Activity::Training),
            (well(2, 3), Activity::Training),
            (well(3, 3), Activity::Training),
            (well(2, 3), Activity::Recovering),
            (well(3, 3), Activity::Training),
            // A server is lost, then what it kept, and both come back.
            (Moment { others: Crowd { running: 2, wanted: 3 }, ..well(3, 3) }, Activity::Recovering),
            (Moment { unowned: true, ..well(3, 3) }, Activity::Recovering),
            (well(3, 3), Activity::Training),
            // One server more, and one worker less.
            (Moment { others: Crowd { running: 3, wanted: 4 }, ..well(3, 3) }, Activity::Training),
            (well(2, 2), Activity::Training),
            // They are done.
            (well(0, 0), Activity::Training),
        ];
        for (at, (moment, activity)) in (0..).zip(seen) {
            timeline.see(moment, second(at));
            assert_eq!(timeline.spans.last().unwrap().activity, activity, "{at}: {moment:?}");
        }
    }

    #[test]
    fn who_waits_for_room_does_not_recover() {
        let mut timeline = Timeline::default();
        timeline.see(moment(WorldSeen::Stands(2), 2), second(1));
        timeline.see(Moment { waits_for_room: true, ..moment(WorldSeen::Meeting, 0) }, second(2));
        assert_eq!(timeline.split(second(5)).waiting, SECOND * 3);
    }

    #[test]
    fn who_is_to_have_nobody_waits() {
        let mut timeline = Timeline::default();
        let halted = |running| Moment { halted: true, ..moment(WorldSeen::None, running) };
        let seen = [halted(2), moment(WorldSeen::None, 2), halted(2), moment(WorldSeen::None, 2), halted(0)];
        for (at, moment) in (1..).zip(seen) {
            timeline.see(moment, second(at));
        }
        let split = timeline.split(second(9));
        assert_eq!(split, Split { waiting: SECOND * 6, training: SECOND * 2, recovering: Duration::ZERO });
    }
}
