//! The program by itself, on this machine.

mod crd;
mod help;
mod validate;
