//! Tests of `flexor run --chaos`: jobs succeed under injected faults, and the recorded faults can be replayed.

mod refusals;
mod scripts;
mod seeds;
mod servers;
