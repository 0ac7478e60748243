//! GEOSEARCH, GEOSEARCHSTORE, GEORADIUS and GEORADIUSBYMEMBER: the members within a shape.
//!
//! The cells that cover the shape are ranges of scores; each member of theirs is looked at. What is found is in memory only
//! where it must be: to be put in order, to be cut to COUNT, or to be stored.

use super::geohash::Position;
use super::position::{parse_unit, position, position_of, write_distance};
use super::shape::{Outline, Shape, Unit};
use crate::ReadSpace;
use crate::command::args::{SYNTAX, check_release, int, is_word};
use crate::command::call::{Call, Error, Outcome, ReadCall, WriteCall};
use crate::command::steps::{Progress, ReplySteps, Rest, Step};
use crate::command::zset::{Bounds, Kept, Scored, SortedSet, Walk, parse_score, store_kept};
use crate::keyspace_events::Event;
use resp::Reply;
use std::collections::VecDeque;
use std::vec;
use vocab::limits::{self, SORTED_BYTES_MAX, SORTED_ELEMENTS_MAX, STREAM_STEP_ITEMS_MAX};

const NO_MEMBER: &str = "ERR could not decode requested zset member";
const NEVER_BOTH: &str = "is not compatible with WITHDIST, WITHHASH and WITHCOORD options";
const TOO_MANY: &str = "ERR too many members are within reach for a transaction (262144 at most)";
const TOO_MANY_FOUND: &str =
    "ERR too many members lie within to be put in order (1048576 at most): ask for a smaller area, or with COUNT";
/// So many members `Walk::step` looks at, at most.
const WALKED_AT_ONCE: usize = 256;

const _: () = assert!(limits::POPPED_MEMBERS_MAX == 262_144 && SORTED_ELEMENTS_MAX == 1_048_576, "the texts say so");

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

    /// What a key is told of at which it stores.
    fn event(self) -> Event {
        if self == Self::SearchStore { Event::GEOSEARCHSTORE } else { Event::GEORADIUSSTORE }
    }

    fn takes_store(self) -> bool {
        matches!(self, Self::Radius(true) | Self::RadiusByMember(true))
    }
}

/// What is asked for.
#[derive(Default)]
struct SearchAsked<'a> {
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

impl<'a> SearchAsked<'a> {
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

    fn unit(&self) -> Unit {
        self.outline.map_or(Unit(1.0), |(_, unit)| unit)
    }

    /// These members as they are stored.
    fn to_store(&self, points: Vec<Point>) -> Vec<Kept> {
        let unit = self.unit();
        let stored = |point: Point| {
            let score = if self.stores_distances { point.distance_m / unit.0 } else { point.kept.score };
            Kept { score, ..point.kept }
        };
        points.into_iter().map(stored).collect()
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

/// The members of a sorted set that lie within a shape.
struct Area<'k> {
    set: SortedSet<'k>,
    shape: Shape,
    /// The members of each cell that are still to be looked at.
    walks: VecDeque<Walk>,
}

impl<'k> Area<'k> {
    fn new(space: &mut dyn ReadSpace, set: SortedSet<'k>, shape: Shape) -> Result<Self, Error> {
        let mut walks = VecDeque::new();
        for cell in shape.cells() {
            let (first, end) = cell.scores();
            walks.push_back(Walk::over(Bounds::from_score_to(first, end).span(space, &set)?));
        }
        Ok(Self { set, shape, walks })
    }

    /// How many members are to be looked at.
    fn reach(&self) -> u64 {
        self.walks.iter().map(|walk| walk.left).sum()
    }

    /// Looks at the next members, some hundred at most; false if there are no more.
    fn step(&mut self, space: &mut dyn ReadSpace, take: &mut dyn FnMut(Point)) -> Result<bool, Error> {
        while self.walks.front().is_some_and(|walk| walk.left == 0) {
            self.walks.pop_front();
        }
        let (shape, Some(walk)) = (self.shape, self.walks.front_mut()) else { return Ok(false) };
        walk.step(space, &self.set, &mut |Scored { member, score }| {
            let position = Position::of_score(score);
            if let Some(distance_m) = shape.distance_within(position) {
                take(Point { kept: Kept { member: member.to_vec(), score }, position, distance_m });
            }
        })?;
        Ok(true)
    }
}

/// The members that are found, no more of them than are wanted. They are in memory together.
struct Points {
    /// Whether the farthest comes first; `None`: they are not in order.
    order: Option<bool>,
    /// How many are wanted of those in order.
    best: usize,
    /// After how many the search ends.
    enough: usize,
    found: Vec<Point>,
    bytes: usize,
}

impl Points {
    fn new(asked: &SearchAsked<'_>) -> Self {
        let wanted = if asked.count == 0 { usize::MAX } else { usize::try_from(asked.count).unwrap_or(usize::MAX) };
        let enough = if asked.any { wanted } else { usize::MAX };
        Self { order: asked.order(), best: wanted, enough, found: Vec::new(), bytes: 0 }
    }

    fn take(&mut self, point: Point) {
        if self.found.len() >= self.enough {
            return;
        }
        self.bytes += point.kept.member.len();
        self.found.push(point);
        if self.found.len() >= self.best.saturating_mul(2).saturating_add(1024) || self.bytes > SORTED_BYTES_MAX {
            self.sort();
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

    fn are_too_many(&self) -> bool {
        self.found.len().min(self.best) as u64 > SORTED_ELEMENTS_MAX || self.bytes > SORTED_BYTES_MAX
    }
}

/// What lies within, as many members as are asked for, in the order that is asked for.
fn find(space: &mut dyn ReadSpace, area: &mut Area<'_>, asked: &SearchAsked<'_>) -> Result<Vec<Point>, Error> {
    let mut points = Points::new(asked);
    while points.found.len() < points.enough && area.step(space, &mut |point| points.take(point))? {
        if points.are_too_many() {
            return Err(TOO_MANY_FOUND.into());
        }
    }
    points.sort();
    Ok(points.found)
}

pub(super) fn geosearch(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    read(call, Form::Search)
}

pub(super) fn georadius_ro(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    read(call, Form::Radius(false))
}

pub(super) fn georadiusbymember_ro(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
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

/// GEORADIUS that stores nothing.
pub(super) fn georadius_read(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    read(call, Form::Radius(true))
}

/// GEORADIUSBYMEMBER that stores nothing.
pub(super) fn georadiusbymember_read(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    read(call, Form::RadiusByMember(true))
}

fn read(call: &mut ReadCall<'_>, form: Form) -> Result<Rest, Error> {
    let set = SortedSet::load(call.space, call.args[form.source()])?;
    let asked = SearchAsked::parse(form, call.space, set.as_ref(), call.args)?;
    let (Some(set), Some(shape)) = (set, asked.shape()) else {
        call.reply.array(0);
        return Ok(None);
    };
    let columns = Columns::of(&asked);
    let mut area = Area::new(call.space, set, shape)?;
    if asked.order().is_none() && asked.count == 0 && area.reach() > STREAM_STEP_ITEMS_MAX as u64 {
        // In no order: they are counted, and found again as they are answered.
        let (walks, mut count) = (area.walks.clone(), 0);
        while area.step(call.space, &mut |_| count += 1)? {}
        call.reply.array(count);
        let area = Area { set: area.set.without_key(), shape, walks };
        return Ok(Some(Box::new(AreaLeft { area, columns })));
    }
    let points = find(call.space, &mut area, &asked)?;
    call.reply.array(points.len());
    let mut left = PointsLeft { points: points.into_iter(), columns };
    Ok(match left.step(call.space, call.reply)? {
        Progress::More => Some(Box::new(left)),
        Progress::Done => None,
    })
}

/// What lies within is still to be answered, in no order.
struct AreaLeft {
    area: Area<'static>,
    columns: Columns,
}

impl ReplySteps for AreaLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let (mut step, mut looked, columns) = (Step::begin(reply), 0, self.columns);
        while self.area.step(space, &mut |point| columns.write(reply, &point))? {
            looked += WALKED_AT_ONCE;
            if looked >= STREAM_STEP_ITEMS_MAX || !step.goes_on(reply) {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }
}

/// Members that were found are still to be answered.
struct PointsLeft {
    points: vec::IntoIter<Point>,
    columns: Columns,
}

impl ReplySteps for PointsLeft {
    fn step(&mut self, _space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let mut step = Step::begin(reply);
        for point in self.points.by_ref() {
            self.columns.write(reply, &point);
            if !step.goes_on(reply) {
                break;
            }
        }
        Ok(if self.points.len() == 0 { Progress::Done } else { Progress::More })
    }
}

fn write(call: &mut WriteCall<'_>, form: Form) -> Outcome {
    check_release(call.space)?;
    let Call { args, space, reply } = call;
    let set = SortedSet::load(*space, args[form.source()])?;
    let asked = SearchAsked::parse(form, *space, set.as_ref(), args)?;
    let points = match (set, asked.shape()) {
        (Some(set), Some(shape)) => {
            let mut area = Area::new(*space, set, shape)?;
            if area.reach() > limits::POPPED_MEMBERS_MAX {
                return Err(TOO_MANY.into());
            }
            find(*space, &mut area, &asked)?
        }
        _ => Vec::new(),
    };
    if let Some(to) = asked.store {
        let kept = asked.to_store(points);
        store_kept(*space, to, &kept, form.event())?;
        reply.int(kept.len() as i64);
    } else {
        let columns = Columns::of(&asked);
        reply.array(points.len());
        points.iter().for_each(|point| columns.write(reply, point));
    }
    Ok(())
}

/// Members that are stored at a key, and what it is told of them.
pub(in crate::command) struct ToStore {
    pub(in crate::command) kept: Vec<Kept>,
    pub(in crate::command) event: Event,
}

/// What such a command stores that looks at more members than it may in an entry; `None` if they are fewer, or if the
/// command is another.
pub(in crate::command) fn many_to_store(space: &mut dyn ReadSpace, args: &[&[u8]]) -> Result<Option<ToStore>, Error> {
    let form = match () {
        () if is_word(args[0], "GEOSEARCHSTORE") => Form::SearchStore,
        () if is_word(args[0], "GEORADIUS") => Form::Radius(true),
        () if is_word(args[0], "GEORADIUSBYMEMBER") => Form::RadiusByMember(true),
        () => return Ok(None),
    };
    let Some(set) = SortedSet::load(space, args[form.source()])? else { return Ok(None) };
    let asked = SearchAsked::parse(form, space, Some(&set), args)?;
    let (Some(shape), true) = (asked.shape(), asked.store.is_some()) else { return Ok(None) };
    let mut area = Area::new(space, set, shape)?;
    if area.reach() <= limits::POPPED_MEMBERS_MAX {
        return Ok(None);
    }
    let points = find(space, &mut area, &asked)?;
    Ok(Some(ToStore { kept: asked.to_store(points), event: form.event() }))
}

/// What is answered of each member.
#[derive(Clone, Copy)]
struct Columns {
    /// The distance, in that unit.
    distance: Option<Unit>,
    hash: bool,
    position: bool,
}

impl Columns {
    fn of(asked: &SearchAsked<'_>) -> Self {
        let distance = asked.with_distance.then(|| asked.unit());
        Self { distance, hash: asked.with_hash, position: asked.with_position }
    }

    fn write(self, reply: &mut Reply, point: &Point) {
        let parts = usize::from(self.distance.is_some()) + usize::from(self.hash) + usize::from(self.position);
        if parts > 0 {
            reply.array(parts + 1);
        }
        reply.bulk(&point.kept.member);
        if let Some(unit) = self.distance {
            write_distance(reply, point.distance_m / unit.0);
        }
        if self.hash {
            reply.int(point.kept.score as i64);
        }
        if self.position {
            reply.array(2);
            reply.plain_double(point.position.longitude);
            reply.plain_double(point.position.latitude);
        }
    }
}
