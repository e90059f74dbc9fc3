//! Pictures in SVG: shapes, and the axes of charts.

pub mod axis;
pub mod svg;
