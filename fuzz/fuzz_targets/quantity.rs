//! Any text is a quantity or an error, and a quantity that is printed reads back as the same number.
#![no_main]

use flexor_model::Quantity;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = text.parse::<Quantity>() {
        assert_eq!(quantity.to_string().parse(), Ok(quantity));
    }
});
