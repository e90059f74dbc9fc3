//! Reports that are missing, late, zero or absurd, or of dead workers cause no plan. Counts are whole numbers and times
//! are durations, so nothing can be negative or NaN.

use super::*;

/// How reports are spoiled.
type Spoil = fn(&mut Sample, Duration);

fn load(sample: &mut Sample, change: impl Fn(&mut PodLoad)) {
    let servers = match &mut sample.server_pods {
        Servers::Measured(pods) => &mut pods[..],
        Servers::Foreign => &mut [],
    };
    sample.worker_pods.iter_mut().chain(servers).filter_map(|pod| pod.load.as_mut()).for_each(change);
}

const SPOILS: &[(&str, Spoil)] = &[
    ("a worker has never reported", |sample, _| sample.worker_pods[0].load = None),
    ("a server has never reported", |sample, _| {
        let Servers::Measured(pods) = &mut sample.server_pods else { return };
        pods[0].load = None;
    }),
    ("reports are late", |sample, _| load(sample, |load| load.at = load.at.saturating_sub(Duration::from_secs(10)))),
    ("a worker is dead: its last report stays", |sample, _| {
        sample.worker_pods[0].load.as_mut().unwrap().at = Duration::from_secs(1);
    }),
    ("reports come from the future", |sample, _| load(sample, |load| load.at += Duration::from_secs(100))),
    ("processor time is zero", |sample, _| load(sample, |load| load.cpu = Duration::ZERO)),
    ("all counts are zero", |sample, _| {
        sample.batches = 0;
        load(sample, |load| (load.cpu, load.bytes) = (Duration::ZERO, 0));
    }),
    ("no batch is accounted for", |sample, _| sample.batches = 77),
    ("batches go backwards", |sample, now| sample.batches = 1_000_000 - 31 * now.as_secs()),
    ("processor time goes backwards", |sample, now| {
        load(sample, |load| load.cpu = Duration::from_secs(1000) - Duration::from_millis(now.as_secs()));
    }),
    ("more processor time than there is", |sample, now| {
        load(sample, |load| load.cpu = Duration::from_secs(1000 * now.as_secs()));
    }),
    ("more batches than there can be", |sample, now| sample.batches = now.as_secs() * 1_000_000_000_000),
    ("batches at the end of counting, every other second", |sample, now| {
        sample.batches = if now.as_secs() % 2 == 0 { u64::MAX } else { 0 };
    }),
    ("workers are replaced all the time", |sample, now| sample.worker_pods[0].uid = now.as_secs().to_string()),
    ("memory is absurd", |sample, now| {
        sample.batches = 0;
        load(sample, |load| load.bytes = u64::MAX - 1_000_000 + now.as_secs());
    }),
    ("memory jumps between nothing and everything", |sample, now| {
        sample.batches = 0;
        load(sample, |load| load.bytes = if now.as_secs() % 20 < 10 { 0 } else { 5 * GIBIBYTE });
    }),
    ("the job is not steady", |sample, _| sample.steady = false),
    ("no worker has a pod", |sample, _| sample.worker_pods.clear()),
    ("what pods may use is unknown", |sample, _| {
        sample.worker_pods.iter_mut().for_each(|pod| pod.allotment = Allotment::default());
    }),
];

#[test]
fn bad_reports_cause_no_plan() {
    for (what, spoil) in SPOILS {
        let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
        for _ in 0..300 {
            let mut sample = job.next();
            spoil(&mut sample, job.now());
            assert_eq!(sizer.handle(&sample, job.now()), Decision::default(), "{what} at {:?}", job.now());
        }
        // A time without batches stays in the window for two minutes.
        assert!(first_proposal(&mut sizer, &mut job, 150).is_some(), "{what}: good reports are measured again");
    }
}

#[test]
fn one_bad_report_drops_the_window() {
    for (what, spoil) in SPOILS.iter().filter(|(what, _)| !what.contains("every other")) {
        let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
        for _ in 0..6 {
            let sample = job.next();
            assert_eq!(sizer.handle(&sample, job.now()), Decision::default());
        }
        let mut sample = job.next();
        spoil(&mut sample, job.now());
        assert_eq!(sizer.handle(&sample, job.now()), Decision::default(), "{what}");
        assert!(sizer.pace().is_none(), "{what}");
    }
}

#[test]
fn a_worker_that_is_killed_during_a_window_drops_it() {
    let (mut sizer, mut job) = (Sizer::default(), RunningJob::waiting());
    (job.sample.workers.replicas, job.sample.ceiling) = (1, Ceiling::default());
    job.resize();
    for _ in 0..6 {
        let sample = job.next();
        assert_eq!(sizer.handle(&sample, job.now()), Decision::default());
    }
    // The pod is gone for a second, and another one comes with counts of its own.
    job.sample.steady = false;
    let gone = job.sample.worker_pods.pop().unwrap();
    let sample = job.next();
    assert_eq!(sizer.handle(&sample, job.now()), Decision::default());
    job.sample.steady = true;
    job.sample.worker_pods.push(PodSample { uid: "another".to_owned(), load: None, ..gone });
    for _ in 0..7 {
        let sample = job.next();
        assert_eq!(sizer.handle(&sample, job.now()), Decision::default(), "measuring begins anew");
    }
    assert!(first_proposal(&mut sizer, &mut job, 5).is_some());
}
