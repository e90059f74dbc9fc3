//! From the arguments of the program to a command, and back.

mod abbreviation;
mod argv;
mod command;
mod given;
mod help;
mod parse;

pub use command::{Command, CommandName};
pub(super) use given::Given;
pub use help::help;
pub use parse::{Parsed, args_of_bytes, parse};
