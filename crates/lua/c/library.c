/* Calls that Lua's libraries make. In C no instruction shows them, so they count; and numbers are what they are on x86-64, whatever the
   processor is. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "parts.h"

/* What one call of each counts for. */
#define BYTES_PER_CALL 32
#define BYTES_PER_ELEMENT 16
/* What a number counts for that is formatted: an integer, and any other. */
#define BYTES_PER_INTEGER 128
#define BYTES_PER_NUMBER 1024
/* No function has room for so many values. */
#define VALUES_MAX 8000

lua_Number bsl_tonumber(lua_State *L, int place);
lua_Integer bsl_tointeger(lua_State *L, int place);
int lua_setfenv(lua_State *L, int place);

/* Tables. */

void bsl_call(lua_State *L, int arguments, int results) {
  worked_in(L, BYTES_PER_CALL);
  lua_call(L, arguments, results);
}

int bsl_lessthan(lua_State *L, int one, int other) {
  worked_in(L, BYTES_PER_CALL);
  return lua_lessthan(L, one, other);
}

void bsl_rawgeti(lua_State *L, int place, int key) {
  worked_in(L, BYTES_PER_ELEMENT);
  lua_rawgeti(L, place, key);
}

int bsl_next(lua_State *L, int place) {
  worked_in(L, BYTES_PER_ELEMENT);
  return lua_next(L, place);
}

/* The stack. */

/* Whether there is room for so many values. A number that has overflown is negative, and a compiler may have seen that it cannot be. */
int bsl_checkstack(lua_State *L, int count) { return count >= 0 && count <= VALUES_MAX && lua_checkstack(L, count); }

/* Environments: that of what lasts from run to run stays as it is. */
int bsl_setfenv(lua_State *L, int place) {
  const Value *of = place < 0 ? L->top + place : L->base + (place - 1);
  int is_lasting = (of->kind == LUA_TFUNCTION || of->kind == LUA_TTHREAD) && (of->as.object->number & NUMBER_LASTING);
  return is_lasting ? 0 : lua_setfenv(L, place);
}

/* Numbers. */

/* Beyond their range, and of what is no number, x86-64 makes the least integer. */
static int64_t to_int64(double d) { return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN; }

static int to_int32(double d) { return d > -2147483649.0 && d < 2147483648.0 ? (int)d : INT32_MIN; }

static uint64_t to_uint64(double d) {
  if (!(d >= 0x1p63)) return (uint64_t)to_int64(d);
  return (uint64_t)to_int64(d - 0x1p63) ^ (1ull << 63);
}

/* What is no number has a sign and other bits by what has calculated it, and processors differ. All that leaves Lua is what x86-64 makes of
   `0/0`, whatever it was made of: here, and where numbers become texts. */
static lua_Number shown_of(lua_Number d) { return d == d ? d : copysign(NAN, -1.0); }

/* In place of Lua's own, for all that is in C or in Rust. */
lua_Number lua_tonumber(lua_State *L, int place) {
  lua_Number d = bsl_tonumber(L, place);
  return is_newest(L) ? shown_of(d) : d;
}

/* Likewise. */
lua_Integer lua_tointeger(lua_State *L, int place) {
  return is_newest(L) ? (lua_Integer)to_int64(lua_tonumber(L, place)) : bsl_tointeger(L, place);
}

/* The last number that `string.format` was given, and whether it is shown by the newest rules. */
static _Thread_local double given OF_PROGRAM;
static _Thread_local int is_given OF_PROGRAM;

double bslL_checknumber(lua_State *L, int argument) {
  given = luaL_checknumber(L, argument);
  is_given = is_newest(L);
  return given;
}

/* A number that `string.format` shows as an integer is made one here: it was made one already, as this processor does it. */
static int format(char *text, const char *form, va_list arguments) {
  if (is_given) {
    char kind = form[strlen(form) - 1];
    if (kind != 's') worked(strchr("eEfgG", kind) ? BYTES_PER_NUMBER : BYTES_PER_INTEGER);
    switch (kind) {
      case 'c': return sprintf(text, form, to_int32(given));
      case 'd':
      case 'i': return sprintf(text, form, (long)to_int64(given));
      case 'o':
      case 'u':
      case 'x':
      case 'X': return sprintf(text, form, (unsigned long)to_uint64(given));
      default: break;
    }
  }
  return vsprintf(text, form, arguments);
}

int bprintf(char *text, const char *form, ...) {
  va_list arguments;
  va_start(arguments, form);
  int count = format(text, form, arguments);
  va_end(arguments);
  return count;
}

/* The same where a compiler passes on how much room there is. */
int __bprintf_chk(char *text, int flag, size_t room, const char *form, ...) {
  va_list arguments;
  (void)flag;
  (void)room;
  va_start(arguments, form);
  int count = format(text, form, arguments);
  va_end(arguments);
  return count;
}

/* Whether that is the text of what is no number, without a sign, as it was just made of one: texts that are joined lie elsewhere. */
int bsl_is_unsigned_nan(const lua_State *L, const char *text, size_t bytes) {
  return bytes == 3 && is_newest(L) && text != L->global->buffer && memcmp(text, "nan", 3) == 0;
}
