//! Kubernetes quantities: `500m`, `2`, `4Gi`, `1e3`.
//!
//! A [`Quantity`] is a number of billionths together with the family of suffixes it was written in, so that it can be
//! compared exactly and printed the way its user thinks of it. Equality and order look at the number only.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;
/// Kubernetes caps what is larger.
const LARGEST: i128 = i64::MAX as i128 * ONE;
/// No honest quantity needs more characters; a longer one is refused before it is read.
const LONGEST_TEXT: usize = 64;

const BINARY: [(&str, u32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// An amount of a resource.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Quantity {
    billionths: i128,
    family: Family,
}

/// Which suffixes a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// There is no number in front.
    #[error("{} is not a quantity; write a number with an optional suffix, such as 500m, 2 or 4Gi", shown(.text))]
    NoNumber {
        /// What was written.
        text: String,
    },
    /// Something behind the number that Kubernetes does not know.
    #[error("{} is not a quantity; {}", shown(.text), advice(.instead))]
    Suffix {
        /// What was written.
        text: String,
        /// What was probably meant, each a good quantity.
        instead: Vec<String>,
    },
    /// Longer than any number needs to be.
    #[error("is {length} characters long; a quantity has at most {LONGEST_TEXT}")]
    TooLong {
        /// How long it is.
        length: usize,
    },
}

fn shown(text: &str) -> String {
    format!("`{}`", text.escape_debug())
}

fn advice(instead: &[String]) -> String {
    if instead.is_empty() {
        return "known suffixes are m, k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei".to_owned();
    }
    let quoted: Vec<String> = instead.iter().map(|text| format!("`{text}`")).collect();
    format!("write {}", quoted.join(" or "))
}

impl Quantity {
    /// So many whole units.
    pub fn whole(n: u32) -> Self {
        Self { billionths: i128::from(n) * ONE, family: Family::Decimal }
    }

    /// The amount in billionths of one unit.
    pub fn billionths(self) -> i128 {
        self.billionths
    }

    /// The amount rounded up to whole units, as Kubernetes does it.
    pub fn ceil(self) -> i64 {
        let whole = self.billionths.div_euclid(ONE) + i128::from(self.billionths.rem_euclid(ONE) != 0);
        i64::try_from(whole).unwrap_or(i64::MAX)
    }

    /// Both together, capped as Kubernetes does it, in the family of the first.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { billionths: (self.billionths + other.billionths).clamp(-LARGEST, LARGEST), family: self.family }
    }

    /// Whether it is written in powers of 1024.
    pub fn is_binary(self) -> bool {
        self.family == Family::Binary
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > LONGEST_TEXT {
            return Err(QuantityError::TooLong { length: text.len() });
        }
        let digits_end =
            text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '+' || c == '-')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits_end);
        let decimal = Decimal::parse(number).ok_or_else(|| QuantityError::NoNumber { text: text.to_owned() })?;
        if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self { billionths: decimal.times(1024_i128.pow(*power), 0), family: Family::Binary });
        }
        if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Ok(Self { billionths: decimal.times(1, *exponent), family: Family::Decimal });
        }
        if let Some(exponent) = suffix.strip_prefix(['e', 'E']).and_then(|e| e.parse::<i16>().ok()) {
            return Ok(Self { billionths: decimal.times(1, i32::from(exponent)), family: Family::Decimal });
        }
        let instead = meant_suffixes(suffix).iter().map(|meant| format!("{number}{meant}")).collect();
        Err(QuantityError::Suffix { text: text.to_owned(), instead })
    }
}

/// A decimal number as its digits and how many of them stand behind the point.
struct Decimal {
    negative: bool,
    digits: i128,
    scale: i32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        // 28 digits fit; what stands behind them cannot be seen in billionths of a capped number.
        let mut decimal = Self { negative, digits: 0, scale: 0 };
        for (i, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
            if decimal.digits < 10_i128.pow(28) {
                decimal.digits = decimal.digits * 10 + i128::from(digit - b'0');
                decimal.scale += i32::from(i >= whole.len());
            } else if i < whole.len() {
                decimal.scale -= 1;
            }
        }
        Some(decimal)
    }

    /// `self × factor × 10^exponent` in billionths: rounded away from zero, capped at what Kubernetes can hold.
    fn times(&self, factor: i128, exponent: i32) -> i128 {
        let shift = exponent + 9 - self.scale;
        let magnitude = match self.digits.checked_mul(factor) {
            None => LARGEST,
            Some(0) => 0,
            Some(product) if shift >= 0 => u32::try_from(shift)
                .ok()
                .and_then(|shift| 10_i128.checked_pow(shift))
                .and_then(|scale| product.checked_mul(scale))
                .unwrap_or(LARGEST),
            Some(product) => {
                let divisor = 10_i128.checked_pow(shift.unsigned_abs()).unwrap_or(i128::MAX);
                product / divisor + i128::from(product % divisor != 0)
            }
        };
        let capped = magnitude.min(LARGEST);
        if self.negative { -capped } else { capped }
    }
}

/// The suffixes somebody may have meant who wrote ` Gi`, `GB`, `g`, `mib`, `K` or ` cores`.
fn meant_suffixes(written: &str) -> &'static [&'static str] {
    let letters: String = written.chars().filter(|c| !c.is_whitespace()).collect();
    if letters.is_empty() {
        return &[""];
    }
    // A suffix that is right but for the space in front of it.
    if let Some((suffix, _)) = BINARY.iter().find(|(name, _)| *name == letters) {
        return std::slice::from_ref(suffix);
    }
    if let Some((suffix, _)) = DECIMAL.iter().find(|(name, _)| *name == letters) {
        return std::slice::from_ref(suffix);
    }
    let letters = letters.to_ascii_lowercase();
    match letters.strip_suffix('b').unwrap_or(&letters) {
        "k" => &["k", "Ki"],
        "ki" => &["Ki"],
        "m" => &["M", "Mi"],
        "mi" => &["Mi"],
        "g" => &["G", "Gi"],
        "gi" => &["Gi"],
        "t" => &["T", "Ti"],
        "ti" => &["Ti"],
        "core" | "cores" | "cpu" | "cpus" | "" => &[""],
        _ => &[],
    }
}

impl fmt::Display for Quantity {
    /// The shortest exact form in the family it was written in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.family == Family::Binary && self.billionths % (1024 * ONE) == 0 && self.billionths != 0 {
            let whole = self.billionths / ONE;
            let fits = |power: u32| whole % 1024_i128.pow(power) == 0;
            if let Some((suffix, power)) = BINARY.iter().rev().find(|(_, power)| fits(*power)) {
                return write!(f, "{}{suffix}", whole / 1024_i128.pow(*power));
            }
        }
        let unit = |exponent: i32| 10_i128.pow(u32::try_from(exponent + 9).unwrap_or(0));
        let (suffix, exponent) = DECIMAL
            .iter()
            .rev()
            .find(|(_, exponent)| self.billionths % unit(*exponent) == 0)
            .filter(|_| self.billionths != 0)
            .unwrap_or(&("", 0));
        write!(f, "{}{suffix}", self.billionths / unit(*exponent))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }
}

impl TryFrom<String> for Quantity {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> String {
        quantity.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn the_same_amount_in_other_words_is_equal() {
        for (a, b) in [("0.5", "500m"), ("1Ki", "1024"), ("1e3", "1k"), ("1E3", "1000"), (".5", "500m"), ("2.", "2")] {
            assert_eq!(quantity(a), quantity(b), "{a} and {b}");
        }
        assert!(quantity("1G") < quantity("1Gi"));
        assert!(quantity("-1") < quantity("0"));
    }

    #[test]
    fn it_is_printed_in_the_family_it_was_written_in() {
        let shown = |text| quantity(text).to_string();
        assert_eq!(
            [shown("2048Mi"), shown("1536Mi"), shown("0.5"), shown("1000m"), shown("102400Mi"), shown("0")],
            ["2Gi", "1536Mi", "500m", "1", "100Gi", "0"]
        );
        assert_eq!(shown("0.5Gi"), "512Mi");
    }

    #[test]
    fn what_is_too_large_is_capped_and_what_is_too_small_is_rounded_up() {
        assert_eq!(quantity("9999999999E").ceil(), i64::MAX);
        assert_eq!(quantity("1e-30").billionths(), 1);
        assert_eq!(quantity("100m").ceil(), 1);
    }

    #[test]
    fn a_wrong_quantity_says_what_to_write() {
        let error = |text: &str| text.parse::<Quantity>().unwrap_err().to_string();
        assert_eq!(error("4 Gi"), "`4 Gi` is not a quantity; write `4Gi`");
        assert_eq!(error("4GB"), "`4GB` is not a quantity; write `4G` or `4Gi`");
        assert_eq!(error("10 cores"), "`10 cores` is not a quantity; write `10`");
        assert_eq!(error("30 GB"), "`30 GB` is not a quantity; write `30G` or `30Gi`");
        assert!(error("lots").contains("500m, 2 or 4Gi"));
        assert!(error("4x").contains("known suffixes are"));
        assert!(error(&"9".repeat(65)).contains("at most 64"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,70}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn whatever_is_suggested_is_a_quantity(text in "[0-9]{1,3}(\\.[0-9])? ?[a-zA-Z]{0,5}") {
            if let Err(QuantityError::Suffix { instead, .. }) = text.parse::<Quantity>() {
                for better in instead {
                    prop_assert!(better.parse::<Quantity>().is_ok(), "{} for {}", better, text);
                }
            }
        }

        #[test]
        fn printing_and_reading_again_gives_the_same_amount(
            number in "[+-]?[0-9]{1,12}(\\.[0-9]{0,9})?",
            suffix in prop::sample::select(vec!["", "m", "u", "n", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"]),
        ) {
            let first = quantity(&format!("{number}{suffix}"));
            prop_assert_eq!(quantity(&first.to_string()), first);
        }
    }
}
