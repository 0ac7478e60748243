-- What scripts see from the seventh engine on, where it is not what earlier ones have. The prelude calls this once, with its parts.
--
-- The order of tables is the same on every replica then, whatever their keys are, and what Lua's libraries do in C counts there: the crate `lua`
-- sees to both. So tables are walked over as they are, and sorted and joined without a charge for it beforehand.

local native, raw, parts = ...

local error, type, select = parts.error, parts.type, parts.select
local builtins, maths, tables, coroutines = parts.builtins, parts.maths, parts.tables, parts.coroutines
local strings = parts.strings
local content_of, shown, number_of = parts.content_of, parts.shown, parts.number_of
local more, metatable_of = native.more, native.metatable_of

-- Redis has neither: with them a run could leave something behind for the next one.
builtins.getfenv, builtins.setfenv = nil, nil

-- Iteration.

local function check_kind(value, place, name, kind)
  if type(value) ~= kind then
    local given = value == nil and "no value" or type(value)
    error("bad argument #" .. place .. " to '" .. name .. "' (" .. kind .. " expected, got " .. given .. ")", 3)
  end
end

local function pairs_of(t)
  if content_of[t] then return raw.walk, t, nil end
  check_kind(t, 1, "pairs", "table")
  return raw.next, t, nil
end

builtins.pairs = pairs_of
builtins.next = raw.walk

tables.foreach = function(t, f)
  check_kind(t, 1, "foreach", "table")
  check_kind(f, 2, "foreach", "function")
  for key, value in pairs_of(t) do
    local answer = f(key, value)
    if answer ~= nil then return answer end
  end
end

tables.foreachi = function(t, f)
  check_kind(t, 1, "foreachi", "table")
  check_kind(f, 2, "foreachi", "function")
  for i = 1, #t do
    local answer = f(i, raw.rawget(t, i))
    if answer ~= nil then return answer end
  end
end

tables.sort = function(t, ...)
  if content_of[t] then error(parts.READ_ONLY, 2) end
  return raw.sort(t, ...)
end

-- Texts.

builtins.tostring = function(...)
  if select("#", ...) == 0 then error("bad argument #1 to 'tostring' (value expected)", 2) end
  local value = ...
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" or kind == "nil" then return raw.tostring(value) end
  if raw.rawequal(value, parts.null) then return "userdata: (nil)" end
  local meta = kind == "table" and content_of[value] == nil and metatable_of(value)
  if meta then
    local show = raw.rawget(meta, "__tostring")
    if show ~= nil then return show(value) end
  end
  return raw.format("%s: 0x%014x", kind, number_of(value))
end

-- For how many instructions each argument of a format counts, and a byte of what is made. What numbers count for, C sees to.
local FORMAT_ITEM, FORMATTED_BYTE = 12, 3.25

strings.format = function(...)
  local text = raw.format(...)
  more(16 + select("#", ...) * FORMAT_ITEM + #text * FORMATTED_BYTE)
  return text
end

-- For how many instructions a byte counts of what is compiled.
local COMPILED_BYTE = 10

local compile = raw.loadstring
raw.loadstring = function(text, name)
  more(#text * COMPILED_BYTE)
  return compile(text, name)
end

-- A remainder of a number that is 2000 bits longer takes so many steps.
local fmod = maths.fmod
maths.fmod = function(...)
  more(150)
  return fmod(...)
end
maths.mod = maths.fmod

-- Errors. The binding makes much of each that a function in Rust raises.

local function seen(failure)
  if type(failure) == "userdata" then more(500) end
  return shown(failure)
end

local function caught(is_done, failure, ...)
  if is_done then return is_done, failure, ... end
  more(100)
  return false, seen(failure)
end

local function caught_text(is_done, failure, ...)
  if is_done then return is_done, failure, ... end
  more(100)
  failure = seen(failure)
  if type(failure) == "table" then
    local text = failure.err
    if type(text) == "string" or type(text) == "number" then failure = text end
  end
  return false, failure
end

builtins.pcall = function(...) return caught_text(raw.pcall(...)) end
builtins.xpcall = function(f, handler)
  return caught(raw.xpcall(f, function(failure) return handler(seen(failure)) end))
end
coroutines.resume = function(...) return caught(raw.resume(...)) end

-- A coroutine's own instructions are looked at from its first one on: those of its last look are never counted.
local UNSEEN = 1000

local create, wrap = coroutines.create, coroutines.wrap
coroutines.create = function(...)
  more(UNSEEN)
  return create(...)
end
coroutines.wrap = function(...)
  more(UNSEEN)
  return wrap(...)
end
