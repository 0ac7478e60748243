//! Requests: by what the server tells of its commands, with the right arguments as a rule, and some that are known to be heavy.

use crate::common::Random;
use crate::grammar::{Argument, Form, Kind};
use crate::keys::{Request, key_for, one_of, words};
use crate::words::{Place, hostile};

/// Commands that end the test, or that other parts of it draw.
const LEFT_OUT: [&str; 15] = [
    "SHUTDOWN",
    "QUIT",
    "RESET",
    "DEBUG",
    "AUTH",
    "CLIENT KILL",
    "CLIENT PAUSE",
    "CONFIG SET",
    "CONFIG REWRITE",
    "KV.EXEC",
    "KV.ADMIN DRAIN-LEADERS",
    "KV.ADMIN INIT",
    "KV.ADMIN PLAN",
    "KV.ADMIN RECOVER-MAP",
    "KV.ADMIN SETTINGS",
];
/// Commands that leave little to try the others with.
const RARE: [&str; 10] = [
    "FLUSHALL",
    "FLUSHDB",
    "KV.EMPTY",
    "KV.TRANSFER",
    "KV.ADMIN VERIFY",
    "SWAPDB",
    "FUNCTION FLUSH",
    "FUNCTION DELETE",
    "FUNCTION RESTORE",
    "SCRIPT FLUSH",
];

/// Draws requests.
pub struct Requests<'a> {
    forms: &'a [Form],
    digests: &'a [Vec<u8>],
}

/// One request under way.
struct Draw<'a> {
    place: Place<'a>,
    random: &'a mut Random,
    request: Request,
    /// Where the number of the repetitions that come next is to stand.
    count_at: Option<usize>,
    /// How often the next argument that may be repeated is.
    repeats: Option<u64>,
}

impl<'a> Requests<'a> {
    pub fn new(forms: &'a [Form], digests: &'a [Vec<u8>]) -> Self {
        Self { forms, digests }
    }

    /// Any request.
    pub fn any(&self, random: &mut Random, dumped: &[u8]) -> Request {
        match random.below(16) {
            0 => exec(random, dumped),
            1 | 2 => heavy(random),
            3 | 4 => self.about(random, dumped),
            _ => self.right(random, dumped),
        }
    }

    fn form(&self, random: &mut Random) -> &Form {
        loop {
            let form = random.pick(self.forms);
            let name = form.name();
            let is_dull = name.ends_with(" HELP") || RARE.contains(&name.as_str());
            if !LEFT_OUT.contains(&name.as_str()) && (!is_dull || random.below(30) == 0) {
                return form;
            }
        }
    }

    /// A command as it is to be written, but for a word here and there.
    pub fn right(&self, random: &mut Random, dumped: &[u8]) -> Request {
        let form = self.form(random);
        let name = form.name();
        let place = Place { command: &name, group: &form.group, digests: self.digests, dumped };
        let mut draw = Draw { place, random, request: words(&name), count_at: None, repeats: None };
        form.arguments.iter().for_each(|argument| draw.argument(argument));
        let Draw { mut request, random, .. } = draw;
        // One that is left out, or one too many.
        match random.below(60) {
            0 if request.len() > 1 => drop(request.pop()),
            1 => request.push(hostile(random, dumped)),
            _ => {}
        }
        request
    }

    /// A command of about the right length, whose arguments are right, or nearly, or not at all.
    fn about(&self, random: &mut Random, dumped: &[u8]) -> Request {
        let form = self.form(random);
        let mut request = words(&form.name());
        let least = form.arity.unsigned_abs() as usize;
        let more = if form.arity < 0 { random.below(5) as usize } else { usize::from(random.below(20) == 0) };
        while request.len() < least + more {
            // Most commands begin with a key.
            let wanted = request.len() == form.words.len() && random.below(4) > 0;
            request.push(if wanted { key_for(&form.group, random) } else { hostile(random, dumped) });
        }
        request
    }
}

impl Draw<'_> {
    fn argument(&mut self, argument: &Argument) {
        if argument.is_optional && self.random.below(3) > 0 {
            return;
        }
        let times = self.times(argument);
        if argument.is_multiple
            && let Some(at) = self.count_at.take()
        {
            self.request[at] = times.to_string().into_bytes();
        }
        let token = argument.token.as_ref().filter(|_| argument.kind != Kind::PureToken);
        // Some words stand before each, others before the first; the forms do not tell which.
        let is_each = self.random.below(2) == 0;
        for n in 0..times {
            if let Some(token) = token.filter(|_| n == 0 || is_each) {
                self.request.push(token.as_bytes().to_vec());
            }
            self.once(argument);
        }
        // As many ids as there are streams.
        self.repeats = token.filter(|token| *token == "STREAMS").map(|_| times);
    }

    fn times(&mut self, argument: &Argument) -> u64 {
        match (argument.is_multiple, self.repeats) {
            (false, _) => 1,
            (true, Some(times)) => times,
            (true, None) if self.random.below(40) == 0 => *self.random.pick(&[50, 200, 2000]),
            (true, None) => 1 + self.random.below(3),
        }
    }

    fn once(&mut self, argument: &Argument) {
        match argument.kind {
            Kind::PureToken => self.request.extend(argument.token.iter().map(|token| token.as_bytes().to_vec())),
            Kind::OneOf => {
                let n = self.random.below(argument.children.len() as u64) as usize;
                // What is chosen is not left out.
                self.argument(&Argument { is_optional: false, ..argument.children[n].clone() });
            }
            Kind::Block => argument.children.iter().for_each(|child| self.argument(child)),
            _ if argument.name == "operation" && argument.is_multiple => self.bitfield(),
            _ => {
                let is_count = matches!(argument.name.as_str(), "numkeys" | "numids" | "numfields");
                if is_count && self.random.below(30) > 0 {
                    self.count_at = Some(self.request.len());
                }
                let word = self.place.word(argument, self.random);
                self.request.push(word);
            }
        }
    }

    fn bitfield(&mut self) {
        let operations = [
            "GET u8 0",
            "SET i64 #3 -1",
            "INCRBY u2 100 1",
            "OVERFLOW SAT",
            "OVERFLOW FAIL",
            "INCRBY i5 #1000 300",
            "GET u63 4294967295",
            "SET u1 536870912 1",
        ];
        self.request.extend(words(one_of(self.random, &operations)));
    }
}

/// KV.EXEC with operations that are about right.
fn exec(random: &mut Random, dumped: &[u8]) -> Request {
    let operations = 1 + random.below(4);
    let mut request = words("KV.EXEC");
    request.push(operations.to_string().into_bytes());
    for _ in 0..operations {
        let name = one_of(random, &["GET", "PUT", "DEL", "CHECK"]);
        let mut operation = vec![name.as_bytes().to_vec(), key_for("string", random)];
        let rest = match name {
            "PUT" => {
                one_of(random, &["v", "v IFABSENT", "v IFPRESENT RETURN", "v TTL 50", "v IFVERSION 3 TTL 1 RETURN"])
            }
            "DEL" => one_of(random, &["", "IFVERSION 17"]),
            "CHECK" => one_of(random, &["0", "17", "18446744073709551615"]),
            _ => "",
        };
        operation.extend(words(rest));
        if random.below(4) == 0 {
            operation.push(hostile(random, dumped));
        }
        request.push(operation.len().to_string().into_bytes());
        request.extend(operation);
    }
    if random.below(4) == 0 {
        request.extend(words(one_of(random, &["DURABILITY SYNC ALL", "DURABILITY NOSYNC NONE", "REQUEST client 1"])));
    }
    request
}

/// A command of few bytes, or of small arguments, that makes a node read and write much: strings that grow, sets that are united,
/// hundreds of members.
fn heavy(random: &mut Random) -> Request {
    let offsets = ["0", "7", "1048576", "8388608", "16777216", "67108863", "67108864", "536870911", "536870912"];
    // The longest are rare: each is written by three nodes of one machine.
    let most = if random.below(10) == 0 { offsets.len() } else { 5 };
    let offset = *random.pick(&offsets[..most]);
    let many = *random.pick(&[1, 2, 50, 200, 3_000]);
    let with = |first: Request, more: &mut dyn FnMut(u64) -> Vec<u8>| {
        first.into_iter().chain((0..many).map(more)).collect::<Request>()
    };
    let (one, other) = (key_for("", random), key_for("", random));
    let named = |name: &str, rest: &str| [words(name), vec![one.clone()], words(rest)].concat();
    let mut member = |n: u64| format!("m{n}").into_bytes();
    match random.below(16) {
        0 => named("SETBIT", &format!("{offset} {}", random.below(2))),
        1 => named("SETRANGE", &format!("{offset} value")),
        2 => named("APPEND", "value"),
        3 => named("BITFIELD", &format!("INCRBY i64 {offset} 3 GET u7 5 OVERFLOW FAIL SET u8 #3 77")),
        4 => {
            let operation = one_of(random, &["AND", "OR", "XOR", "NOT", "ONE", "DIFF", "ANDOR"]);
            with([words("BITOP"), words(operation), vec![one]].concat(), &mut |_| other.clone())
        }
        5 => with(
            named(one_of(random, &["SADD", "SREM", "SMISMEMBER", "LPUSH", "PFADD", "ZREM", "ZMSCORE"]), ""),
            &mut member,
        ),
        6 => with(named(one_of(random, &["HDEL", "HMGET"]), ""), &mut member),
        7 => with(named("HSET", "f v"), &mut |n| (n / 2).to_string().into_bytes()),
        8 => {
            let name = one_of(random, &["SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"]);
            named(name, "").into_iter().chain((0..1 + random.below(4)).map(|_| key_for("set", random))).collect()
        }
        9 => {
            let (name, rest) = (
                one_of(random, &["SPOP", "LPOP", "RPOP", "ZPOPMIN", "ZPOPMAX"]),
                one_of(random, &["0", "1", "100", "70000"]),
            );
            named(name, rest)
        }
        10 => [words(one_of(random, &["COPY", "RENAME", "RENAMENX"])), vec![one, other]].concat(),
        11 => with(words("DEL"), &mut |n| format!("{{t}}gone{n}").into_bytes()),
        12 => with(words("MSET"), &mut |n| format!("{{t}}gone{}", n / 2).into_bytes()),
        13 => with(named("ZADD", ""), &mut |n| if n % 2 == 0 { n.to_string().into_bytes() } else { member(n) }),
        14 => {
            let name = one_of(random, &["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]);
            let keys = 1 + random.below(4);
            let keys =
                [vec![keys.to_string().into_bytes()], (0..keys).map(|_| key_for("sorted-set", random)).collect()];
            [named(name, ""), keys.concat()].concat()
        }
        _ => {
            let (name, rest) = (one_of(random, &["PEXPIRE", "EXPIRE"]), one_of(random, &["1", "500", "100000"]));
            named(name, rest)
        }
    }
}
