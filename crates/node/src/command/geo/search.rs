//! GEOSEARCH, GEOSEARCHSTORE, GEORADIUS and GEORADIUSBYMEMBER: what lies within a shape.
//!
//! The cells that cover the shape are ranges of scores; each member of theirs is looked at.

use super::geohash::Position;
use super::position::{parse_unit, position, position_of, write_distance};
use super::shape::{Outline, Shape, Unit};
use crate::ReadSpace;
use crate::command::args::{SYNTAX, check_release, int, is_word};
use crate::command::call::{Call, Error, Outcome, ReadCall, WriteCall};
use crate::command::zset::{Bounds, Kept, SortedSet, Walk, parse_score, store_kept};
use crate::keyspace_events::Event;
use resp::Reply;
use vocab::limits;

const NO_MEMBER: &str = "ERR could not decode requested zset member";
const NEVER_BOTH: &str = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
const TOO_MANY: &str = "ERR too many members are within reach (65536 at most where they are stored)";

const _: () = assert!(limits::POPPED_MEMBERS_MAX == 65_536, "TOO_MANY says how many");

/// Which command it is: where its arguments are, and which options it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: a position and a radius, then options. Whether it stores.
    Radius(bool),
    /// GEORADIUSBYMEMBER: a member and a radius, then options. Whether it stores.
    RadiusByMember(bool),
    /// GEOSEARCH: options alone.
    Search,
    /// GEOSEARCHSTORE: the same, behind the key that is written.
    SearchStore,
}

impl Form {
    /// The argument that is the sorted set.
    fn source(self) -> usize {
        if self == Self::SearchStore { 2 } else { 1 }
    }

    /// The first option.
    fn options(self) -> usize {
        match self {
            Self::Radius(_) => 6,
            Self::RadiusByMember(_) => 5,
            Self::Search => 2,
            Self::SearchStore => 3,
        }
    }

    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }

    fn takes_store(self) -> bool {
        matches!(self, Self::Radius(true) | Self::RadiusByMember(true))
    }
}

/// What is asked for.
#[derive(Default)]
struct Asked<'a> {
    center: Option<Position>,
    outline: Option<(Outline, Unit)>,
    /// Whether the center is named by a member, which need not be there if the key is not.
    by_member: bool,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    /// By distance: whether the farthest comes first.
    farthest_first: Option<bool>,
    /// Whether any so many will do.
    any: bool,
    /// How many are wanted; 0: all.
    count: u64,
    /// The key that the result is stored at.
    store: Option<&'a [u8]>,
    /// Whether distances are stored rather than positions.
    stores_distances: bool,
}

impl<'a> Asked<'a> {
    /// Reads the arguments. Members are looked up on the way, as in Redis.
    fn parse(
        form: Form,
        space: &mut dyn ReadSpace,
        set: Option<&SortedSet<'_>>,
        args: &[&'a [u8]],
    ) -> Result<Self, Error> {
        let mut asked = Self::default();
        match (form, set) {
            (Form::Radius(_), _) => {
                asked.center = Some(position(args[2], args[3])?);
                asked.outline = Some(circle(args[4], args[5])?);
            }
            (Form::RadiusByMember(_), Some(set)) => {
                asked.center = Some(position_of(space, set, args[2])?.ok_or(NO_MEMBER)?);
                asked.outline = Some(circle(args[3], args[4])?);
            }
            (Form::RadiusByMember(_), None) => {}
            (Form::Search, _) => {}
            (Form::SearchStore, _) => asked.store = Some(args[1]),
        }
        let mut rest = &args[form.options()..];
        while let Some((word, behind)) = rest.split_first() {
            rest = match asked.flag(form, word) {
                Some(()) => behind,
                None => asked.option(form, space, set, word, behind)?,
            };
        }
        asked.check(form, args[0])?;
        Ok(asked)
    }

    /// Takes an option that is one word.
    fn flag(&mut self, form: Form, word: &[u8]) -> Option<()> {
        match () {
            () if is_word(word, "WITHDIST") => self.with_distance = true,
            () if is_word(word, "WITHHASH") => self.with_hash = true,
            () if is_word(word, "WITHCOORD") => self.with_position = true,
            () if is_word(word, "ANY") => self.any = true,
            () if is_word(word, "ASC") => self.farthest_first = Some(false),
            () if is_word(word, "DESC") => self.farthest_first = Some(true),
            () if form == Form::SearchStore && is_word(word, "STOREDIST") => self.stores_distances = true,
            () => return None,
        }
        Some(())
    }

    /// Takes an option with what belongs to it from the front of `rest`; answers what follows.
    fn option<'r>(
        &mut self,
        form: Form,
        space: &mut dyn ReadSpace,
        set: Option<&SortedSet<'_>>,
        word: &[u8],
        rest: &'r [&'a [u8]],
    ) -> Result<&'r [&'a [u8]], Error> {
        let is_search = form.is_search();
        match rest {
            [count, rest @ ..] if is_word(word, "COUNT") => {
                let count = int(count)?;
                self.count = u64::try_from(count).ok().filter(|count| *count > 0).ok_or("ERR COUNT must be > 0")?;
                Ok(rest)
            }
            [key, rest @ ..] if form.takes_store() && (is_word(word, "STORE") || is_word(word, "STOREDIST")) => {
                self.store = Some(key);
                self.stores_distances = is_word(word, "STOREDIST");
                Ok(rest)
            }
            [member, rest @ ..]
                if is_search && is_word(word, "FROMMEMBER") && (self.by_member || self.center.is_none()) =>
            {
                if let Some(set) = set {
                    self.center = Some(position_of(space, set, member)?.ok_or(NO_MEMBER)?);
                }
                self.by_member = true;
                Ok(rest)
            }
            [longitude, latitude, rest @ ..] if is_search && is_word(word, "FROMLONLAT") && !self.by_member => {
                self.center = Some(position(longitude, latitude)?);
                Ok(rest)
            }
            [radius, unit, rest @ ..] if is_search && is_word(word, "BYRADIUS") && !self.is_rectangle() => {
                self.outline = Some(circle(radius, unit)?);
                Ok(rest)
            }
            [width, height, unit, rest @ ..]
                if is_search && is_word(word, "BYBOX") && (self.outline.is_none() || self.is_rectangle()) =>
            {
                self.outline = Some(rectangle(width, height, unit)?);
                Ok(rest)
            }
            _ => Err(SYNTAX.into()),
        }
    }

    fn is_rectangle(&self) -> bool {
        matches!(self.outline, Some((Outline::Rectangle { .. }, _)))
    }

    /// Checks that what was asked for goes together.
    fn check(&self, form: Form, name: &[u8]) -> Outcome {
        let name = String::from_utf8_lossy(name);
        let text = if self.store.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let what = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            format!("ERR {what} {NEVER_BOTH}")
        } else if form.is_search() && self.center.is_none() && !self.by_member {
            format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}")
        } else if form.is_search() && self.outline.is_none() {
            format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}")
        } else if self.any && self.count == 0 {
            "ERR the ANY argument requires COUNT argument".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Reply(text.into()))
    }

    /// The shape, if the key is there.
    fn shape(&self) -> Option<Shape> {
        let ((outline, unit), center) = (self.outline?, self.center?);
        Some(Shape { center, outline, unit })
    }

    /// By distance: whether the farthest comes first. So many are the nearest ones, unless any will do.
    fn order(&self) -> Option<bool> {
        self.farthest_first.or((self.count > 0 && !self.any).then_some(false))
    }
}

fn circle(radius: &[u8], unit: &[u8]) -> Result<(Outline, Unit), Error> {
    let radius = parse_score(radius).map_err(|_| Error::from("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    Ok((Outline::Circle { radius }, parse_unit(unit)?))
}

fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(Outline, Unit), Error> {
    let width = parse_score(width).map_err(|_| Error::from("ERR need numeric width"))?;
    let height = parse_score(height).map_err(|_| Error::from("ERR need numeric height"))?;
    if height < 0.0 || width < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    Ok((Outline::Rectangle { width, height }, parse_unit(unit)?))
}

/// A member within the shape.
struct Point {
    kept: Kept,
    position: Position,
    distance_m: f64,
}

/// The members that are found, no more of them than are wanted.
struct Points<'s> {
    shape: &'s Shape,
    /// Whether the farthest comes first; `None`: they are not in order.
    order: Option<bool>,
    /// How many are wanted of those in order.
    best: usize,
    /// After how many the search ends.
    enough: usize,
    found: Vec<Point>,
    bytes: usize,
}

impl Points<'_> {
    /// Takes a member if it lies within.
    fn look(&mut self, member: &[u8], score: f64) {
        let position = Position::of_score(score);
        if self.found.len() >= self.enough {
            return;
        }
        if let Some(distance_m) = self.shape.distance_within(position) {
            self.bytes += member.len();
            self.found.push(Point { kept: Kept { member: member.to_vec(), score }, position, distance_m });
            if self.found.len() >= self.best.saturating_mul(2).saturating_add(1024) {
                self.sort();
            }
        }
    }

    /// Puts them in order, and leaves those that are wanted.
    fn sort(&mut self) {
        if let Some(falls) = self.order {
            self.found.sort_by(|a, b| {
                let order = a.distance_m.total_cmp(&b.distance_m);
                if falls { order.reverse() } else { order }
            });
        }
        self.found.truncate(self.best);
        self.bytes = self.found.iter().map(|point| point.kept.member.len()).sum();
    }
}

/// What lies within the shape. More bytes of members than `bytes_max`, or more members looked at than `looked_max`, end the
/// search: the second is an error.
fn find(
    space: &mut dyn ReadSpace,
    set: &SortedSet<'_>,
    shape: &Shape,
    asked: &Asked<'_>,
    bytes_max: usize,
    looked_max: u64,
) -> Result<Vec<Point>, Error> {
    let wanted = if asked.count == 0 { usize::MAX } else { usize::try_from(asked.count).unwrap_or(usize::MAX) };
    let enough = if asked.any { wanted } else { usize::MAX };
    let mut points = Points { shape, order: asked.order(), best: wanted, enough, found: Vec::new(), bytes: 0 };
    let mut looked = 0;
    for cell in shape.cells() {
        let (first, end) = cell.scores();
        let span = Bounds::from_score_to(first, end).span(space, set)?;
        looked += span.count;
        if looked > looked_max {
            return Err(TOO_MANY.into());
        }
        let mut walk = Walk::over(span);
        while walk.left > 0 && points.found.len() < enough && points.bytes <= bytes_max {
            walk.step(space, set, &mut |scored| points.look(scored.member, scored.score))?;
        }
    }
    points.sort();
    Ok(points.found)
}

pub(super) fn geosearch(call: &mut ReadCall<'_>) -> Outcome {
    read(call, Form::Search)
}

pub(super) fn georadius_ro(call: &mut ReadCall<'_>) -> Outcome {
    read(call, Form::Radius(false))
}

pub(super) fn georadiusbymember_ro(call: &mut ReadCall<'_>) -> Outcome {
    read(call, Form::RadiusByMember(false))
}

pub(super) fn geosearchstore(call: &mut WriteCall<'_>) -> Outcome {
    write(call, Form::SearchStore)
}

pub(super) fn georadius(call: &mut WriteCall<'_>) -> Outcome {
    write(call, Form::Radius(true))
}

pub(super) fn georadiusbymember(call: &mut WriteCall<'_>) -> Outcome {
    write(call, Form::RadiusByMember(true))
}

fn read(call: &mut ReadCall<'_>, form: Form) -> Outcome {
    let set = SortedSet::load(call.space, call.args[form.source()])?;
    let asked = Asked::parse(form, call.space, set.as_ref(), call.args)?;
    let points = match (&set, asked.shape()) {
        (Some(set), Some(shape)) => find(call.space, set, &shape, &asked, call.reply.room(), u64::MAX)?,
        _ => Vec::new(),
    };
    answer(call.reply, &asked, &points);
    Ok(())
}

fn write(call: &mut WriteCall<'_>, form: Form) -> Outcome {
    check_release(call.space)?;
    let Call { args, space, reply } = call;
    let set = SortedSet::load(*space, args[form.source()])?;
    let asked = Asked::parse(form, *space, set.as_ref(), args)?;
    let points = match (&set, asked.shape()) {
        (Some(set), Some(shape)) => find(*space, set, &shape, &asked, reply.room(), limits::POPPED_MEMBERS_MAX)?,
        _ => Vec::new(),
    };
    let Some(to) = asked.store else {
        answer(reply, &asked, &points);
        return Ok(());
    };
    let unit = asked.outline.map_or(1.0, |(_, unit)| unit.0);
    let stored = |point: Point| {
        let score = if asked.stores_distances { point.distance_m / unit } else { point.kept.score };
        Kept { score, ..point.kept }
    };
    let kept: Vec<Kept> = points.into_iter().map(stored).collect();
    let event = if matches!(form, Form::SearchStore) { Event::GEOSEARCHSTORE } else { Event::GEORADIUSSTORE };
    store_kept(*space, to, &kept, event)?;
    reply.int(kept.len() as i64);
    Ok(())
}

fn answer(reply: &mut Reply, asked: &Asked<'_>, points: &[Point]) {
    let unit = asked.outline.map_or(1.0, |(_, unit)| unit.0);
    let parts = usize::from(asked.with_distance) + usize::from(asked.with_hash) + usize::from(asked.with_position);
    reply.array(points.len());
    for point in points {
        if parts > 0 {
            reply.array(parts + 1);
        }
        reply.bulk(&point.kept.member);
        if asked.with_distance {
            write_distance(reply, point.distance_m / unit);
        }
        if asked.with_hash {
            reply.int(point.kept.score as i64);
        }
        if asked.with_position {
            reply.array(2);
            reply.plain_double(point.position.longitude);
            reply.plain_double(point.position.latitude);
        }
    }
}
