//! Measurements of a job's model while it is trained, as its master counts them.

use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// What came of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluations {
    /// How many were made.
    pub done: u64,
    /// After how many records the last one was made.
    pub records: u64,
    /// The checkpoint it was made on, where there was no room to keep the model as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// How many could not be made.
    pub skipped: u64,
    /// Why the last of these could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_skipped: Option<String>,
    /// Of these the masters before this one had counted so many done and skipped.
    #[serde(skip)]
    pub earlier: (u64, u64),
}

impl Evaluations {
    /// What a master says now, after what it said before. One that was started again counts from 0.
    pub(super) fn after(before: Option<Self>, said: Option<wire::Evaluations>) -> Option<Self> {
        let Some(wire::Evaluations { done, records, checkpoint, skipped, why_skipped }) = said else { return before };
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
    fn what_masters_before_have_counted_is_counted() {
        let said = |done, skipped| Some(wire::Evaluations { done, skipped, ..wire::Evaluations::default() });
        let mut known = None;
        let counts = [said(1, 0), said(2, 1), None, said(1, 0), said(2, 0), said(0, 1)].map(|said| {
            known = Evaluations::after(known.clone(), said);
            known.as_ref().map(|known| (known.done, known.skipped)).unwrap()
        });
        assert_eq!(counts, [(1, 0), (2, 1), (2, 1), (3, 1), (4, 1), (4, 2)]);
    }
}
