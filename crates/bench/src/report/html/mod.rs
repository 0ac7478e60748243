//! The run as one HTML file that needs nothing else: no network, no script to be read, no other file. Charts are SVG that
//! is drawn here; `charts.js` adds the read-out, the zoom and the choice of percentile.

mod bars;
mod bounds;
mod chart;
mod escape;
mod events;
mod hypot;
mod image;
mod page;
mod plots;
mod scale;
mod search;
mod suite;

pub use image::Image;
pub use page::render;
pub use plots::images;
pub use suite::{images as suite_images, render as suite_page};

#[cfg(test)]
mod wellformed;
