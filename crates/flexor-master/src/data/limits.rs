//! How large a dataset may be: what counts of records can be told exactly in JSON, to programs of any language.
//!
//! A position comes from outside as well, with datasets in it that nobody has registered, so it is held to the same.

use flexor_engine::Cause;
use flexor_engine::shards::{DatasetSpec, Position};
use flexor_model::Reason;

use super::left_out::LeftOut;

/// The most records of a dataset, and of all epochs of it that a position can know: whole numbers up to here are exact
/// in floating point, which is all that many programs read JSON with.
const MAX_RECORDS: u64 = 1 << 53;

/// Whether a dataset can be counted.
pub(super) fn check(spec: &DatasetSpec) -> Result<(), Cause> {
    if spec.records > MAX_RECORDS {
        let detail = format!("{} has {} records; at most {MAX_RECORDS} can be counted", spec.name, spec.records);
        return Err(Cause::new(Reason::InvalidValue, detail));
    }
    Ok(())
}

/// Whether every dataset of a position could have been registered, and what it has come to can be counted.
pub(super) fn check_position(position: &Position, left_out: &LeftOut) -> Result<(), Cause> {
    for (name, at) in &position.datasets {
        let could_be = DatasetSpec::new(name.clone(), at.spec.records, at.spec.batch.get()).is_ok();
        let records = u64::from(at.begun).checked_mul(at.spec.records);
        if !could_be || check(&at.spec).is_err() || records.is_none_or(|records| records > MAX_RECORDS) {
            return Err(Cause::new(Reason::InvalidPosition, format!("the position of {name} cannot be")));
        }
    }
    if !left_out.is_possible(position) {
        let detail = "the position has more records left out than there are";
        return Err(Cause::new(Reason::InvalidPosition, detail));
    }
    Ok(())
}
