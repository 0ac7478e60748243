//! `hypot`, the length of a vector: charts use it.
//!
//! glibc 2.35 has a new version of this function, and no other function that the program calls is newer than 2.34. With ours the
//! program starts on systems with 2.34.
#![allow(unsafe_code, reason = "it has the name of the function in C")]

/// `sqrt(x² + y²)`: squares of floats are exact in doubles, and none is too large.
#[unsafe(no_mangle)]
extern "C" fn hypotf(x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    (x * x + y * y).sqrt() as f32
}

#[cfg(test)]
mod tests {
    use super::hypotf;

    #[test]
    fn lengths_are_right_where_squares_of_floats_are_too_large_or_too_small() {
        for (x, y, length) in [(3.0, 4.0, 5.0), (-3e38, 0.0, 3e38), (3e30, 4e30, 5e30), (3e-40, -4e-40, 5e-40)] {
            assert!((hypotf(x, y) / length - 1.0).abs() < 1e-4, "{x} {y}");
        }
    }
}
