//! "Did you mean …?", for words of any length.

use crate::suggest::closest;

/// No name here is half as long; comparing longer ones costs time and memory that anybody could ask for.
const LONGEST: usize = 64;

/// The word that was probably meant.
pub(super) fn meant<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > LONGEST { None } else { closest(written, candidates) }
}
