//! Stories about the controller, each with the name of what it claims, in a world that does as it is told.

mod crashes;
mod losses;
mod migrations;
mod plans;
mod stories;
mod world;
