//! Scripts that run what they are given, and scripts that do their worst.

use crate::common::Random;
use crate::keys::{Request, one_of, words};

/// Runs the commands in its arguments: how many words, and the words, again and again.
const CALLS: &str = "
local at, replies = 1, {}
while at <= #ARGV do
  local count, command = tonumber(ARGV[at]), {}
  for i = 1, count do command[i] = ARGV[at + i] end
  replies[#replies + 1] = redis.pcall(unpack(command))
  at = at + count + 1
end
return replies";

/// The same, but ends with the first error.
const CALLS_OR_FAILS: &str = "
local at, reply = 1, false
while at <= #ARGV do
  local count, command = tonumber(ARGV[at]), {}
  for i = 1, count do command[i] = ARGV[at + i] end
  reply = redis.call(unpack(command))
  at = at + count + 1
end
return reply";

/// Runs one command many times.
const LOOP: &str = "
local reply
redis.setresp(3)
for i = 1, 300 do reply = redis.pcall(unpack(ARGV, 2)) end
return reply";

/// Functions of a library that do the same.
pub fn library() -> Vec<u8> {
    format!(
        "#!lua name=wrap
local function calls(KEYS, ARGV){CALLS}
end
local function loop(KEYS, ARGV)
local reply
for i = 1, 300 do reply = redis.pcall(unpack(ARGV, 2)) end
return reply
end
redis.register_function('wrap_call', calls)
redis.register_function('wrap_loop', loop)"
    )
    .into_bytes()
}

const WORST: [&str; 14] = [
    "return 1",
    "return {1, {2, {3, {4, 'five'}}}, 3.7, false, true}",
    "while true do end",
    "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end",
    "local s = 'x' for i = 1, 40 do s = s .. s end return #s",
    "local t = {} t[1] = t return t",
    "local t = {} for i = 1, 100000 do t[i] = i end return t",
    "return redis.call('SET', KEYS[1] or '{t}string0', ('v'):rep(3000000))",
    "for i = 1, 100000 do redis.call('INCR', '{t}new') end return redis.call('DEL', '{t}new')",
    "for i = 1, 3000 do redis.call('HGETALL', '{t}hash' .. i % 4) end return 1",
    "return string.rep('x', 100000000)",
    "return cjson.decode(('['):rep(10000))",
    "return cmsgpack.unpack(cmsgpack.pack({1, 2, {3}}))",
    "return redis.call('PUBLISH', 'ch0', ('m'):rep(10000))",
];

/// Any script.
pub fn any(random: &mut Random) -> &'static str {
    WORST[random.below(WORST.len() as u64) as usize]
}

/// A request by which a script or a function runs others. All their keys must be of the slot of the key that is given.
pub fn wrapped(random: &mut Random, requests: &[Request]) -> Request {
    let (start, several) = match random.below(6) {
        0 => ("EVAL_RO", CALLS),
        1 | 2 => ("EVAL", CALLS),
        3 => ("EVAL", CALLS_OR_FAILS),
        4 => ("EVAL", LOOP),
        _ => ("FCALL", one_of(random, &["wrap_call", "wrap_loop"])),
    };
    let mut wrapped = vec![start.as_bytes().to_vec(), several.as_bytes().to_vec(), b"1".to_vec(), b"{t}".to_vec()];
    // A loop runs one of them.
    let most = if several == LOOP || several == "wrap_loop" { 1 } else { requests.len() };
    for request in &requests[..most] {
        wrapped.push(request.len().to_string().into_bytes());
        wrapped.extend(request.iter().cloned());
    }
    wrapped
}

/// Requests that make the store know the scripts.
pub fn registered() -> Vec<Request> {
    let load = |script: &&str| [words("SCRIPT LOAD"), vec![script.as_bytes().to_vec()]].concat();
    let library = [words("FUNCTION LOAD REPLACE"), vec![library()]].concat();
    WORST.iter().map(load).chain([library]).collect()
}
