-- What a script sees: the functions of Redis 7, on tables that it cannot change.
--
-- Lua 5.1 has no read-only tables. A protected table is an empty stand-in whose metatable reads from the real one and refuses to
-- write; the functions that would go past a metatable are replaced here. Nothing here may depend on an address in memory, since
-- every replica must come to the same result.

local native, libraries = ...

local error, type, select, ipairs, setfenv = error, type, select, ipairs, setfenv
local raw = {
  assert = assert, unpack = unpack, version = _VERSION,
  getfenv = getfenv, getmetatable = getmetatable, setmetatable = setmetatable, next = next, pcall = pcall, xpcall = xpcall,
  rawget = rawget, rawset = rawset, rawequal = rawequal, tostring = tostring, tonumber = tonumber, loadstring = loadstring,
  resume = coroutine.resume, insert = table.insert, remove = table.remove, sort = table.sort, concat = table.concat,
  floor = math.floor, byte = string.byte, format = string.format, sub = string.sub,
}
local real = raw.getfenv(0)

-- Stand-ins of protected tables, and what they stand for: that no function gives to a script, which could write there what others would run.
local content_of = {}
raw.walk = native.walk(content_of)
-- Functions of this file: their environments cannot be changed.
local own = {}

local READ_ONLY = "Attempt to modify a readonly table"

local function refuse_write()
  error(READ_ONLY, 2)
end

local function protected(content)
  local stand_in = {}
  content_of[stand_in] = content
  local shown = {}
  content_of[shown] = {}
  raw.setmetatable(shown, { __index = content_of[shown], __newindex = refuse_write, __metatable = shown })
  local meta = { __index = content, __newindex = refuse_write, __metatable = shown }
  raw.setmetatable(stand_in, meta)
  return stand_in, meta
end

-- The globals of scripts, and those of a library's code while it is loaded.
local globals, loading_globals = {}, {}
local refuses_unknown = {
  __index = function(_, name)
    if type(name) ~= "string" and type(name) ~= "number" then
      error("Second argument to luaProtectedTableError must be a string or number", 2)
    end
    error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
  end,
}
raw.setmetatable(globals, refuses_unknown)
raw.setmetatable(loading_globals, refuses_unknown)
local environment, environment_meta = protected(globals)

-- Has scripts see those globals.
local function show(content)
  content_of[environment] = content
  environment_meta.__index = content
end

setfenv(1, environment)

-- Errors.

-- What a script is shown of a failure. An end that cannot be caught goes on, and what a function in Rust has raised becomes a value
-- of Lua.
local function shown(failure)
  if native.is_over(failure) then error(failure, 0) end
  if type(failure) == "userdata" then return native.value_of(failure) end
  return failure
end

local function caught(ok, failure, ...)
  if ok then return ok, failure, ... end
  return false, shown(failure)
end

local function caught_text(ok, failure, ...)
  if ok then return ok, failure, ... end
  failure = shown(failure)
  if type(failure) == "table" then
    local text = failure.err
    if type(text) == "string" or type(text) == "number" then failure = text end
  end
  return false, failure
end

-- Iteration.

local function is_ordered(key)
  local kind = type(key)
  return kind == "string" or kind == "number" or kind == "boolean"
end

local UNORDERED = "a table with keys that are tables or functions has no order that all replicas share"

-- All keys are looked at, whatever the first one is: what it counts for does not depend on their order.
local function check_order(t, level)
  local key, unordered = raw.next(t), 0
  while key ~= nil do
    if not is_ordered(key) then unordered = unordered + 1 end
    key = raw.next(t, key)
  end
  if unordered > 0 then error(UNORDERED, level + 1) end
end

local function next_of(t, key)
  local content = content_of[t]
  if content then return raw.next(content, key) end
  if key == nil and type(t) == "table" then check_order(t, 2) end
  return raw.next(t, key)
end

local function pairs_of(t)
  local content = content_of[t]
  if content then return raw.walk, t, nil end
  if type(t) == "table" then check_order(t, 2) end
  if type(t) ~= "table" then
    error("bad argument #1 to 'pairs' (table expected, got " .. (t == nil and "no value" or type(t)) .. ")", 2)
  end
  return raw.next, t, nil
end

-- What an address would tell.
local numbers, last_number = {}, 0

local function number_of(value)
  local number = numbers[value]
  if not number then
    last_number = last_number + 1
    number = last_number
    numbers[value] = number
  end
  return number
end

local function tostring_of(...)
  if select("#", ...) == 0 then error("bad argument #1 to 'tostring' (value expected)", 2) end
  local value = ...
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" or kind == "nil" then return raw.tostring(value) end
  if raw.rawequal(value, libraries.cjson.null) then return "userdata: (nil)" end
  local meta = content_of[value] == nil and raw.getmetatable(value)
  if type(meta) == "table" and meta.__tostring ~= nil then return meta.__tostring(value) end
  return raw.format("%s: 0x%014x", kind, number_of(value))
end

-- Builtins.

local builtins = {
  assert = raw.assert, error = error, ipairs = ipairs, rawequal = raw.rawequal, select = select, tonumber = raw.tonumber,
  type = type, unpack = raw.unpack, _VERSION = raw.version,
  next = next_of,
  pairs = pairs_of,
  tostring = tostring_of,
  pcall = function(...) return caught_text(raw.pcall(...)) end,
  xpcall = function(f, handler)
    return caught(raw.xpcall(f, function(failure) return handler(shown(failure)) end))
  end,
  collectgarbage = function() return 0 end,
  gcinfo = function() return 0, 0 end,
  rawget = function(t, key) return raw.rawget(content_of[t] or t, key) end,
  rawset = function(t, key, value)
    if content_of[t] then error(READ_ONLY, 0) end
    return raw.rawset(t, key, value)
  end,
  setmetatable = function(t, meta)
    if content_of[t] then error(READ_ONLY, 0) end
    if content_of[meta] then error("bad argument #2 to 'setmetatable' (a table of one's own expected)", 2) end
    if type(meta) == "table" then
      local mode = raw.rawget(meta, "__mode")
      -- What is collected when differs between replicas.
      if mode ~= nil then error("weak tables are not supported", 2) end
    end
    return raw.setmetatable(t, meta)
  end,
}

local string_meta = raw.getmetatable("")
local shown_string_meta

builtins.getmetatable = function(value)
  if type(value) == "string" then return shown_string_meta end
  return raw.getmetatable(value)
end

-- A stand-in is between a function of this file and its caller.
builtins.getfenv = function(f)
  if type(f) == "number" and f > 0 then f = f + 2 end
  if f == nil then f = 3 end
  local env = raw.getfenv(f)
  if env == real then return environment end
  return env
end

builtins.setfenv = function(f, env)
  if f == 0 or own[f] or content_of[env] and env ~= environment then error(READ_ONLY, 2) end
  if type(f) == "number" then f = f + 2 end
  return setfenv(f, env)
end

-- What some functions do in C shows in no instruction: it is charged for.
local work = native.work
local FEW = 64

local function number_or(value, other)
  return raw.tonumber(value) or other
end

builtins.unpack = function(...)
  local t, i, j = ...
  if type(t) == "table" then
    local count = number_or(j, #t) - number_or(i, 1)
    -- More are refused.
    if count > FEW and count <= 8000 then work(count / 8) end
  end
  return raw.unpack(...)
end

builtins.tonumber = function(...)
  local text, base = ...
  if base ~= nil and type(text) == "string" and #text > FEW then work(#text / 4) end
  return raw.tonumber(...)
end

builtins.select = function(n, ...)
  local count = select("#", ...)
  if count > FEW then work(count / 8) end
  return select(n, ...)
end

local function load_text(text, name)
  if type(text) == "number" then text = raw.tostring(text) end
  if type(text) ~= "string" then
    error("bad argument #1 to 'loadstring' (string expected, got " .. type(text) .. ")", 3)
  end
  work(#text / 4)
  if raw.byte(text, 1) == 27 then return nil, "attempt to load bytecode" end
  local loaded, failure = raw.loadstring(text, name or text)
  if loaded then setfenv(loaded, environment) end
  return loaded, failure
end

builtins.loadstring = function(text, name) return load_text(text, name) end

builtins.load = function(piece, name)
  if type(piece) ~= "function" then
    error("bad argument #1 to 'load' (function expected, got " .. type(piece) .. ")", 2)
  end
  local pieces = {}
  while true do
    local next_piece = piece()
    if next_piece == nil or next_piece == "" then break end
    if type(next_piece) ~= "string" then return nil, "reader function must return a string" end
    pieces[#pieces + 1] = next_piece
  end
  return load_text(raw.concat(pieces), name or "=(load)")
end

-- The standard libraries.

local function copy(library, without)
  local made = {}
  for name, value in raw.next, library do made[name] = value end
  for _, name in ipairs(without) do made[name] = nil end
  return made
end

local strings = copy(real.string, {})
-- No bytecode is shown, and none is loaded.
strings.dump = function() return "\27Lua" end
local matching = native.strings
for _, name in ipairs({ "find", "match", "rep", "upper", "lower", "reverse" }) do strings[name] = matching[name] end

strings.format = function(...)
  local text = raw.format(...)
  work(16 + #text / 4)
  return text
end

strings.gmatch = function(text, pattern)
  local from = 0
  -- Errors of arguments come at once.
  matching.next_match(text, pattern, 1e15)
  local function walked(first, last, ...)
    if not first then return nil end
    from = last == first and last + 1 or last
    return ...
  end
  return function() return walked(matching.next_match(text, pattern, from)) end
end
strings.gfind = strings.gmatch

strings.gsub = function(text, pattern, by, most)
  local kind = type(by)
  if kind == "string" or kind == "number" then return matching.replace(text, pattern, by, most) end
  if kind ~= "function" and kind ~= "table" then
    error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
  end
  most = raw.tonumber(most) or 1 / 0
  local pieces, from, count = {}, 0, 0
  text = raw.tostring(text)
  local is_anchored = raw.byte(pattern, 1) == 94
  local function replaced(first, last, capture, ...)
    if not first then return false end
    count = count + 1
    pieces[#pieces + 1] = raw.sub(text, from + 1, first)
    local value
    if kind == "function" then value = by(capture, ...) else value = by[capture] end
    if not value then
      value = raw.sub(text, first + 1, last)
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 3)
    end
    pieces[#pieces + 1] = value
    from = last
    if first == last then
      if last >= #text then return false end
      pieces[#pieces + 1] = raw.sub(text, last + 1, last + 1)
      from = last + 1
    end
    return not is_anchored
  end
  while count < most and replaced(matching.next_match(text, pattern, from, true)) do end
  pieces[#pieces + 1] = raw.sub(text, from + 1)
  return raw.concat(pieces), count
end

strings.byte = function(...)
  local text, i, j = ...
  if j ~= nil and type(text) == "string" then
    local from, to = number_or(i, 1), number_or(j, 0)
    if from < 0 then from = from + #text + 1 end
    if to < 0 then to = to + #text + 1 end
    if to > #text then to = #text end
    -- More are refused.
    if to - from > FEW and to - from <= 8000 then work((to - from) / 4) end
  end
  return raw.byte(...)
end

local maths = copy(real.math, {})
local tables = copy(real.table, { "setn" })
local coroutines = copy(real.coroutine, {})

coroutines.resume = function(...) return caught(raw.resume(...)) end

tables.insert = function(t, ...)
  if content_of[t] then error(READ_ONLY, 2) end
  if select("#", ...) > 1 and type(t) == "table" then
    local moved = #t - number_or((...), 0)
    if moved > FEW then work(moved) end
  end
  return raw.insert(t, ...)
end
tables.remove = function(t, ...)
  if content_of[t] then error(READ_ONLY, 2) end
  if select("#", ...) > 0 and type(t) == "table" then
    local moved = #t - number_or((...), 0)
    if moved > FEW then work(moved) end
  end
  return raw.remove(t, ...)
end
tables.concat = function(t, ...)
  if type(t) == "table" then
    local _, i, j = ...
    local last = number_or(j, #t)
    local joined = (last < #t and last or #t) - number_or(i, 1)
    if joined > FEW then work(joined * 2) end
  end
  return raw.concat(t, ...)
end
tables.sort = function(t, ...)
  if content_of[t] then error(READ_ONLY, 2) end
  if type(t) == "table" and #t > FEW then work(#t * 20) end
  return raw.sort(t, ...)
end
tables.foreach = function(t, f)
  for key, value in pairs_of(t) do
    local answer = f(key, value)
    if answer ~= nil then return answer end
  end
end

for name, value in raw.next, native.maths do maths[name] = value end
maths.random, maths.randomseed = native.random, native.randomseed

-- redis

local function not_loading()
  error({ err = "ERR redis.register_function can only be called on FUNCTION LOAD command" }, 0)
end

local WRONG = "ERR wrong number or type of arguments"

local redis = {
  call = native.call, pcall = native.pcall,
  error_reply = function(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then return { err = WRONG } end
    return { err = native.error_text(text) }
  end,
  status_reply = function(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then return { err = WRONG } end
    return { ok = text }
  end,
  sha1hex = native.sha1hex, log = native.log, setresp = native.setresp, set_repl = native.set_repl,
  acl_check_cmd = native.acl_check_cmd,
  breakpoint = function() return false end,
  debug = function() end,
  replicate_commands = function() return true end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = native.version, REDIS_VERSION_NUM = native.version_number,
}

-- What the code of a library sees of it while it is loaded.
local library_redis = { register_function = not_loading, log = native.log }
for name, value in raw.next, redis do
  if type(value) ~= "function" and raw.sub(name, 1, 5) ~= "REPL_" then library_redis[name] = value end
end
raw.setmetatable(library_redis, refuses_unknown)
loading_globals.redis = protected(library_redis)

-- From the fifth engine on, some count for more. Earlier ones run no other instruction than they did.

if native.more then
  local more = native.more

  local function counted(is_done, ...)
    if not is_done then more(100) end
    return is_done, ...
  end
  builtins.pcall = function(...) return counted(caught_text(raw.pcall(...))) end
  builtins.xpcall = function(f, handler)
    return counted(caught(raw.xpcall(f, function(failure) return handler(shown(failure)) end)))
  end
  coroutines.resume = function(...) return counted(caught(raw.resume(...))) end

  strings.format = function(...)
    local text = raw.format(...)
    work(16 + #text / 4)
    more(#text * 3)
    return text
  end

  local compile = raw.loadstring
  raw.loadstring = function(text, name)
    more(200)
    return compile(text, name)
  end
end

-- From the sixth engine on: C goes on with the lowest 32 bits of a number, and what it does then is not what was counted.

if native.later then
  local function check(number, place, name)
    number = raw.tonumber(number)
    if number and not (number >= -2147483648 and number <= 2147483647) then
      error("bad argument #" .. place .. " to '" .. name .. "' (number out of range)", 3)
    end
  end

  builtins.unpack = function(...)
    local t, i, j = ...
    if type(t) == "table" then
      if i ~= nil then check(i, 2, "unpack") end
      if j ~= nil then check(j, 3, "unpack") end
      local count = number_or(j, #t) - number_or(i, 1)
      if count > FEW and count <= 8000 then work(count / 8) end
    end
    return raw.unpack(...)
  end

  tables.insert = function(t, ...)
    if content_of[t] then error(READ_ONLY, 2) end
    if select("#", ...) > 1 and type(t) == "table" then
      check((...), 2, "insert")
      local moved = #t - number_or((...), 0)
      if moved > FEW then work(moved) end
    end
    return raw.insert(t, ...)
  end

  tables.remove = function(t, ...)
    if content_of[t] then error(READ_ONLY, 2) end
    if select("#", ...) > 0 and type(t) == "table" then
      check((...), 2, "remove")
      local from = number_or((...), 0)
      -- What is at no place is not removed.
      local moved = from >= 1 and #t - from or 0
      if moved > FEW then work(moved) end
    end
    return raw.remove(t, ...)
  end

  tables.concat = function(t, ...)
    if type(t) == "table" then
      local _, i, j = ...
      if i ~= nil then check(i, 3, "concat") end
      if j ~= nil then check(j, 4, "concat") end
      local last = number_or(j, #t)
      local joined = (last < #t and last or #t) - number_or(i, 1)
      if joined > FEW then work(joined * 2) end
    end
    return raw.concat(t, ...)
  end

  local less = native.less
  tables.sort = function(t, ...)
    if content_of[t] then error(READ_ONLY, 2) end
    if type(t) == "table" and #t > FEW then
      work(#t * 20)
      local by = ...
      -- How many comparisons there are is up to what is sorted.
      if by == nil then return raw.sort(t, less) end
    end
    return raw.sort(t, ...)
  end
end

-- From the seventh engine on: `prelude_seventh.lua`.

if native.seventh then
  setfenv(native.seventh, environment)
  native.seventh(native, raw, {
    error = error, type = type, select = select, builtins = builtins, maths = maths, tables = tables, coroutines = coroutines,
    strings = strings, content_of = content_of, shown = shown, number_of = number_of, null = libraries.cjson.null, READ_ONLY = READ_ONLY,
  })
end

-- Functions of this file have those in C stand in for them, but for three: what they call is what errors are about.

local caught_in_lua = { [builtins.pcall] = true, [builtins.xpcall] = true, [coroutines.resume] = true }
for _, library in ipairs({ builtins, strings, maths, tables, coroutines }) do
  for name, value in raw.next, copy(library, {}) do
    if type(value) == "function" and raw.getfenv(value) == environment and not caught_in_lua[value] then
      library[name] = native.stand_in(value)
    end
  end
end

-- The globals, read-only.

for name, value in raw.next, builtins do globals[name] = value end
globals.string = protected(strings)
globals.math = protected(maths)
globals.table = protected(tables)
globals.coroutine = protected(coroutines)
globals.os = protected({ clock = function() return native.clock() end })
globals.redis = protected(redis)
globals._G = environment
for name, library in raw.next, libraries do
  globals[name] = protected(library)
end
string_meta.__index = strings
shown_string_meta = protected({ __index = globals.string })

for _, library in raw.next, { builtins, strings, maths, tables, coroutines, redis } do
  for _, value in raw.next, library do
    if type(value) == "function" then own[value] = true end
  end
end

-- Runs.

local function on_error(failure)
  if native.is_over(failure) then return failure end
  if type(failure) == "userdata" then failure = native.value_of(failure) end
  if type(failure) ~= "table" then failure = { err = "ERR " .. raw.tostring(failure) } end
  local source, line = native.position()
  if source then
    failure.source = source
    failure.line = line
  end
  return failure
end

-- Nothing of a run is left but what is compiled.
local function finish()
  if last_number > 0 then numbers, last_number = {}, 0 end
  globals.KEYS, globals.ARGV = nil, nil
end

return {
  environment = environment,

  -- Runs the code of a library, which registers its functions.
  load = function(code, register)
    library_redis.register_function = register
    show(loading_globals)
    local ok, failure = raw.xpcall(code, on_error)
    show(globals)
    library_redis.register_function = not_loading
    return ok, failure
  end,

  -- A script has its keys and arguments in globals, a function has them as arguments.
  run = function(f, has_globals, keys, argv)
    if has_globals then globals.KEYS, globals.ARGV = keys, argv end
    local ok, answer = raw.xpcall(function() return f(keys, argv) end, on_error)
    finish()
    return ok, answer
  end,

  -- What a run that ended in the midst of it has left undone.
  finish = finish,

  -- The same, for the load of a library as well. No bound is in force.
  clean_up = function()
    finish()
    show(globals)
    library_redis.register_function = not_loading
  end,
}
