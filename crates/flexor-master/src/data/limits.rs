//! Limits of a dataset's size: JSON clients of any language must read its counts exactly.
//!
//! Positions come from outside and may hold datasets that were never registered, so the same limits apply to them.

use flexor_engine::Cause;
use flexor_engine::ledger::{DatasetSpec, Position};
use flexor_model::Reason;

use super::skipped_records::SkippedRecords;

/// The most records of a dataset, and of all its epochs in a position. Integers up to this are exact in a double, which
/// many JSON readers use.
const MAX_RECORDS: u64 = 1 << 53;

/// Refuses a dataset that is too large.
pub(super) fn check(spec: &DatasetSpec) -> Result<(), Cause> {
    if spec.records > MAX_RECORDS {
        let detail = format!("{} has {} records; at most {MAX_RECORDS} can be counted", spec.name, spec.records);
        return Err(Cause::new(Reason::InvalidValue, detail));
    }
    Ok(())
}

/// Refuses a position with a dataset that is too large or inconsistent.
pub(super) fn check_position(position: &Position, skipped_records: &SkippedRecords) -> Result<(), Cause> {
    for (name, at) in &position.datasets {
        let could_be = DatasetSpec::new(name.clone(), at.spec.records, at.spec.batch.get()).is_ok();
        let records = u64::from(at.begun).checked_mul(at.spec.records);
        if !could_be || check(&at.spec).is_err() || records.is_none_or(|records| records > MAX_RECORDS) {
            return Err(Cause::new(Reason::InvalidPosition, format!("the position of {name} contradicts itself")));
        }
    }
    if !skipped_records.is_possible(position) {
        let detail = "the position has more skipped records than records";
        return Err(Cause::new(Reason::InvalidPosition, detail));
    }
    Ok(())
}
