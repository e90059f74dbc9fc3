//! Tests with a real registry on this machine.

mod push;
mod registry;
