//! Transcripts, which Redis itself is held against, and a search against looking at every member.
#![allow(clippy::unwrap_used)]

use super::geohash::{LATITUDE_MAX, LONGITUDE_MAX, Position};
use super::shape::{Outline, Shape, Unit};
use crate::command::testspace::{self, TestSpace};
use crate::command::transcript;
use resp::{Proto, Reply, Value};
use std::collections::BTreeSet;
use vocab::Prng;

#[test]
fn transcript() {
    transcript::check("geo");
}

fn members(space: &mut TestSpace, words: &str) -> BTreeSet<String> {
    let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let mut reply = Reply::new(Proto::Resp2);
    testspace::run(space, &args, &mut reply).unwrap();
    let Value::Array(items) = resp::decode(&reply.buf).unwrap().unwrap().0 else { return BTreeSet::new() };
    items.iter().map(|item| String::from_utf8(item.as_bytes().unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn a_search_finds_what_lies_within() {
    let mut prng = Prng::new(3);
    let mut within = |max: f64| (prng.below(1 << 53) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0) * max;
    let mut space = TestSpace::new();
    let mut all = Vec::new();
    // Half of them near one another: more than one step of a reply looks at.
    for i in 0..9000 {
        let (longitude, latitude) = if i % 2 == 0 {
            (within(LONGITUDE_MAX), within(LATITUDE_MAX))
        } else {
            (13.0 + within(1.0), 52.0 + within(1.0))
        };
        let words = format!("GEOADD k {longitude} {latitude} m{i}");
        members(&mut space, &words);
        all.push(Position::of_score(Position { longitude, latitude }.score()));
    }
    for i in 0..60 {
        let (longitude, latitude) = if i % 2 == 0 { (within(179.0), within(60.0)) } else { (13.0 + within(1.0), 52.0) };
        let size = (within(1.0).abs() * 8.0).exp2() * 10.0 + 1.0;
        let center = Position { longitude, latitude };
        let circle = Shape { center, outline: Outline::Circle { radius: size }, unit: Unit(1000.0) };
        let rectangle = Shape { outline: Outline::Rectangle { width: size, height: size / 2.0 }, ..circle };
        for (shape, words) in [
            (circle, format!("GEOSEARCH k FROMLONLAT {longitude} {latitude} BYRADIUS {size} km")),
            (rectangle, format!("GEOSEARCH k FROMLONLAT {longitude} {latitude} BYBOX {size} {} km", size / 2.0)),
        ] {
            // The cells do not reach over the edge of the map, as in Redis.
            if longitude.abs() + size / 20.0 > 180.0 {
                continue;
            }
            let expected: BTreeSet<String> = all
                .iter()
                .enumerate()
                .filter(|(_, position)| shape.distance_within(**position).is_some())
                .map(|(i, _)| format!("m{i}"))
                .collect();
            let found = members(&mut space, &words);
            assert_eq!(found, expected, "{words}");
            let few = members(&mut space, &format!("{words} COUNT 5 ANY"));
            assert!(few.len() == expected.len().min(5) && few.is_subset(&expected), "{words}");
        }
    }
}
