//! Evaluations of a job's model during training, as its master counts them.

use flexor_wire::master::v1 as wire;
use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluations {
    pub done: u64,
    /// The accounted records at the last evaluation.
    pub records: u64,
    /// The checkpoint that the last one used, if there was no room for a snapshot of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    pub skipped: u64,
    /// Why the last skipped one was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_skipped: Option<String>,
    /// Done and skipped evaluations that earlier masters of the job had counted.
    #[serde(skip)]
    pub earlier: (u64, u64),
}

impl Evaluations {
    /// The counts after a report of the master. A restarted master counts from 0.
    pub(super) fn after(before: Option<Self>, reported: Option<wire::Evaluations>) -> Option<Self> {
        let Some(wire::Evaluations { done, records, checkpoint, skipped, why_skipped }) = reported else {
            return before;
        };
        let before = before.unwrap_or_default();
        let is_another = done + before.earlier.0 < before.done || skipped + before.earlier.1 < before.skipped;
        let earlier = if is_another { (before.done, before.skipped) } else { before.earlier };
        let why_skipped = Some(why_skipped).filter(|why| !why.is_empty()).or(before.why_skipped);
        let (done, skipped) = (earlier.0 + done, earlier.1 + skipped);
        Some(Self { done, records: records.max(before.records), checkpoint, skipped, why_skipped, earlier })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_of_earlier_masters_are_counted() {
        let report = |done, skipped| Some(wire::Evaluations { done, skipped, ..wire::Evaluations::default() });
        let mut known = None;
        let counts = [report(1, 0), report(2, 1), None, report(1, 0), report(2, 0), report(0, 1)].map(|reported| {
            known = Evaluations::after(known.clone(), reported);
            known.as_ref().map(|known| (known.done, known.skipped)).unwrap()
        });
        assert_eq!(counts, [(1, 0), (2, 1), (2, 1), (3, 1), (4, 1), (4, 2)]);
    }
}
