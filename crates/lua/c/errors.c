/* What it takes to tell of errors. Lua looks for the name of a value, or of a function, along all instructions of the function that has it, and along
   its local variables, and there may be a million: by the newest rules they count. */
#include <string.h>

#include "parts.h"

/* What an instruction counts for that is looked at, and a local variable. */
#define BYTES_PER_INSTRUCTION 8
#define BYTES_PER_LOCAL 2

/* The first fields of a function. */
typedef struct Closure {
  OBJECT_HEAD;
  Object *grey;
  Table *environment;
  const Proto *proto;
} Closure;

_Static_assert(offsetof(Closure, proto) == 32 && offsetof(Proto, code) == 24 && offsetof(Proto, local_count) == 92, "functions");

void luaG_typeerror(lua_State *L, const Value *value, const char *operation);
void luaG_concaterror(lua_State *L, Value *one, Value *other);
void luaG_aritherror(lua_State *L, const Value *one, const Value *other);
int bsl_getinfo(lua_State *L, const char *what, lua_Debug *call);

/* Of a function's own two bytes the first says whether it is one in C. */
static int is_in_lua(const Call *call) {
  const Object *function = call->function->as.object;
  return call->function->kind == LUA_TFUNCTION && !function->own[0];
}

/* The instructions before the one that a call is at count, and all its local variables. */
static void looked_along(const lua_State *L, const Call *call) {
  if (!is_newest(L) || call <= L->calls || !is_in_lua(call)) return;
  const uint32_t *next = call == L->call ? L->next_instruction : call->next;
  const Proto *proto = ((const Closure *)call->function->as.object)->proto;
  size_t before = next > proto->code ? (size_t)(next - proto->code) : 0;
  worked(before * BYTES_PER_INSTRUCTION + (size_t)proto->local_count * BYTES_PER_LOCAL);
}

void bslG_typeerror(lua_State *L, const Value *value, const char *operation) {
  looked_along(L, L->call);
  luaG_typeerror(L, value, operation);
}

void bslG_concaterror(lua_State *L, Value *one, Value *other) {
  looked_along(L, L->call);
  luaG_concaterror(L, one, other);
}

void bslG_aritherror(lua_State *L, const Value *one, const Value *other) {
  looked_along(L, L->call);
  luaG_aritherror(L, one, other);
}

/* In place of Lua's own: the name of a function is looked for where it was called, if it is asked for. */
int lua_getinfo(lua_State *L, const char *what, lua_Debug *call) {
  int place = *what == '>' ? 0 : call->i_ci;
  if (place > 1 && strchr(what, 'n')) looked_along(L, L->calls + place - 1);
  return bsl_getinfo(L, what, call);
}
