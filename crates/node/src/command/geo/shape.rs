//! The shape of a search: a circle or a rectangle on the earth, the cells that cover it, and distances.
//!
//! The formulas are Redis's. Sines are those of `libm`, so that every replica comes to the same bits; they differ from those
//! of a C library in the last bit at most.

use super::geohash::{Cell, Position};
use std::f64::consts::PI;

/// The mean radius of the earth, in m.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Half the circumference of the earth on a Mercator map, in m.
const MERCATOR_MAX: f64 = 20_037_726.37;
const RADIANS: f64 = PI / 180.0;

/// A unit of length: how many metres it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit(pub(super) f64);

/// The outline of a search, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outline {
    Circle { radius: f64 },
    Rectangle { width: f64, height: f64 },
}

/// A circle or a rectangle on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) center: Position,
    pub(super) outline: Outline,
    pub(super) unit: Unit,
}

/// The bounds of a shape, in degrees; they may lie beyond the map.
struct Bounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

impl Shape {
    /// How far a position is from the center, in m, if it lies within.
    pub(super) fn distance_within(&self, position: Position) -> Option<f64> {
        let Position { longitude, latitude } = self.center;
        match self.outline {
            Outline::Circle { radius } => {
                let distance = distance(self.center, position);
                (distance <= radius * self.unit.0).then_some(distance)
            }
            Outline::Rectangle { width, height } => {
                let beside = Position { longitude, latitude: position.latitude };
                let outside = latitude_distance(position.latitude, latitude) > height * self.unit.0 / 2.0
                    || distance(position, beside) > width * self.unit.0 / 2.0;
                (!outside).then(|| distance(self.center, position))
            }
        }
    }

    /// The cells that cover it: the one of its center, and those around it that it may reach into.
    pub(super) fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut cell = Cell::of(self.center, step);
        let lacks = |cell: Cell| {
            cell.beside(0, 1).area().north < bounds.north
                || cell.beside(0, -1).area().south > bounds.south
                || cell.beside(1, 0).area().east < bounds.east
                || cell.beside(-1, 0).area().west > bounds.west
        };
        if step > 1 && lacks(cell) {
            step -= 1;
            cell = Cell::of(self.center, step);
        }
        let area = cell.area();
        // In the order of Redis, which tells what a search for any so many finds.
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let reaches = |(east, north): &(i8, i8)| {
            step < 2
                || !(*north < 0 && area.south < bounds.south
                    || *north > 0 && area.north > bounds.north
                    || *east < 0 && area.west < bounds.west
                    || *east > 0 && area.east > bounds.east)
        };
        let mut cells: Vec<Cell> = Vec::with_capacity(around.len());
        for (east, north) in around.into_iter().filter(reaches) {
            let next = cell.beside(east, north);
            // A huge shape has the same cell on both sides. Redis looks at the one before alone.
            if cells.len() < 2 || cells.last() != Some(&next) {
                cells.push(next);
            }
        }
        cells
    }

    fn bounds(&self) -> Bounds {
        let Position { longitude, latitude } = self.center;
        let (width, height) = match self.outline {
            Outline::Circle { radius } => (radius, radius),
            Outline::Rectangle { width, height } => (width / 2.0, height / 2.0),
        };
        let (width, height) = (self.unit.0 * width, self.unit.0 * height);
        let high = degrees(height / EARTH_RADIUS_M);
        let wide = |latitude: f64| degrees(width / EARTH_RADIUS_M / libm::cos(radians(latitude)));
        // Where a degree of longitude is shorter: the side nearer to the pole in the south, and, as in Redis, the upper one.
        let wide = if latitude < 0.0 { wide(latitude - high) } else { wide(latitude + high) };
        Bounds { west: longitude - wide, east: longitude + wide, south: latitude - high, north: latitude + high }
    }

    /// The step of cells that are about as large as the shape.
    fn step(&self) -> u8 {
        let radius = match self.outline {
            Outline::Circle { radius } => radius,
            Outline::Rectangle { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        let mut radius_m = radius * self.unit.0;
        if radius_m == 0.0 {
            return 26;
        }
        let mut step = 1;
        while radius_m < MERCATOR_MAX {
            radius_m *= 2.0;
            step += 1;
        }
        step -= 2;
        // Cells are narrower towards the poles.
        let latitude = self.center.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, 26) as u8
    }
}

/// The distance of two positions along a great circle, in m.
pub(super) fn distance(a: Position, b: Position) -> f64 {
    let v = libm::sin((radians(b.longitude) - radians(a.longitude)) / 2.0);
    if v == 0.0 {
        return latitude_distance(a.latitude, b.latitude);
    }
    let (a, b) = (radians(a.latitude), radians(b.latitude));
    let u = libm::sin((b - a) / 2.0);
    let haversine = u * u + libm::cos(a) * libm::cos(b) * v * v;
    2.0 * EARTH_RADIUS_M * libm::asin(haversine.sqrt())
}

/// The distance of two latitudes, in m.
fn latitude_distance(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (radians(b) - radians(a)).abs()
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS
}
