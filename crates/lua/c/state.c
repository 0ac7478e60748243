/* States, their rules, and what is known of the run that is under way. */
#include <string.h>

#include "parts.h"

/* Calls that are passed over for nothing where one is looked for by its level. */
#define CALLS_FREE 16
/* What a step counts for along the open upvalues of a function: they lie near to each other. */
#define BYTES_PER_UPVALUE 2
/* So many results of a call are set for nothing, and what each counts for that is handed on. */
#define RESULTS_FREE 16
#define BYTES_PER_RESULT 2
/* What a call counts for that an instruction makes within its own work: of a `for`, or for an event of a metatable. */
#define BYTES_PER_INNER_CALL 48
/* What a call of a function in C counts for beside its instruction, and each argument where there are more than a few. */
#define BYTES_PER_C_CALL 32
#define ARGUMENTS_FREE 8
#define BYTES_PER_ARGUMENT 4
/* What a look counts for at what a value's metatable says of an event. */
#define BYTES_PER_EVENT 32

_Thread_local size_t bsl_untold OF_PROGRAM;

/* The rules of the next state that this thread makes. */
static _Thread_local unsigned char rules_of_next OF_PROGRAM;
/* The thread of Lua that runs: it looks at its budget within so many instructions. None: no run is under way. */
static _Thread_local lua_State *running OF_PROGRAM;
/* A look is under way at which no instruction was counted. */
static _Thread_local int is_between OF_PROGRAM;

lua_State *bsl_newstate(lua_Alloc allocate, void *data);
int bsl_getstack(lua_State *L, int level, lua_Debug *call);
int lua_resume(lua_State *L, int arguments);
Upvalue *luaF_findupval(lua_State *L, Value *level);
void *luaS_newudata(lua_State *L, size_t bytes, Table *environment);
const Value *luaT_gettm(Table *events, int event, Text *name);
const Value *luaT_gettmbyobj(lua_State *L, const Value *value, int event);
int luaD_poscall(lua_State *L, Value *first);

/* Making states. */

typedef struct Maker {
  lua_Alloc allocate;
  void *data;
} Maker;

/* Lua does not write all bytes of a state. */
static void *allocate_zeroed(void *data, void *old, size_t old_bytes, size_t bytes) {
  Maker *maker = data;
  void *block = maker->allocate(maker->data, old, old_bytes, bytes);
  if (block && !old) memset(block, 0, bytes);
  return block;
}

void bsl_rules_of_next(int is_new) { rules_of_next = is_new ? RULES_NEWEST : 0; }

/* In place of Lua's own. What Lua makes with a state are short texts, whose hash is the same by all rules. */
lua_State *lua_newstate(lua_Alloc allocate, void *data) {
  Maker maker = {allocate, data};
  lua_State *L = bsl_newstate(allocate_zeroed, &maker);
  if (!L) return NULL;
  lua_setallocf(L, allocate, data);
  L->global->rules = rules_of_next;
  return L;
}

int bsl_is_newest(const lua_State *L) { return is_newest(L); }

/* Whether a table has had no key that is not one of an array's places. */
static int is_blank(const Table *t) { return t->own[1] == 0 && t->nodes->key.chained.kind == LUA_TNIL; }

/* What a state has by now lasts from run to run. By the newest rules objects have numbers from here on. */
void bsl_settle(lua_State *L) {
  for (Object *o = L->global->objects; o; o = o->next) {
    if (o->kind < LUA_TTABLE || o->kind > LUA_TTHREAD) continue;
    o->number |= NUMBER_LASTING;
    if (o->kind == LUA_TTABLE && is_newest(L) && is_blank((const Table *)o)) o->number |= NUMBER_KEYS;
  }
  if (is_newest(L)) L->global->rules |= RULES_NUMBERS;
}

static uint32_t first_number(const lua_State *L) { return L->global->rules & RULES_NUMBERS ? NUMBER_KEYS : 0; }

/* A new object is one that the collector knows. */
void bslC_link(lua_State *L, Object *object, unsigned char kind) {
  Global *g = L->global;
  object->next = g->objects;
  g->objects = object;
  object->marks = g->white & MARK_WHITES;
  object->kind = kind;
  object->number = first_number(L);
  /* Lua does not write this of a coroutine. */
  if (kind == LUA_TTHREAD) ((lua_State *)object)->unrun = 0;
}

void *bslS_newudata(lua_State *L, size_t bytes, Table *environment) {
  Object *object = luaS_newudata(L, bytes, environment);
  object->number = first_number(L);
  return object;
}

/* What a metatable says of an event, to the collector. What is collected when differs between replicas, so nothing is weak that a run has made,
   whenever its metatable came to say so. */
const Value *bslC_gettm(Table *events, int event, Text *name) {
  if (event == EVENT_MODE && (events->number & NUMBER_KEYS)) return NULL;
  return luaT_gettm(events, event, name);
}

/* Work and looks. */

/* A run begins in that state; none: it is over. */
void bsl_run(lua_State *L) {
  running = L;
  bsl_untold = 0;
  if (L) L->unrun = 0;
  is_between = 0;
}

/* The next instruction of the run is followed by a look at its budget. */
void bsl_look_soon(void) {
  if (running && (running->hook_mask & LUA_MASKCOUNT) && running->hook_in > 1 && running->hook_in <= UINT16_MAX) {
    running->unrun = (unsigned short)(running->hook_in - 1);
    running->hook_in = 1;
  }
}

/* By how many instructions the look that is under way came too early. One that comes between those that Lua has anyway counts none, and the
   next one comes where it would have: what is left in a state of earlier runs decides whether there is one, and scripts see the count. */
int bsl_take_unrun(int at_once) {
  if (is_between) {
    is_between = 0;
    return at_once;
  }
  if (!running || running->unrun == 0) return 0;
  running->hook_in = running->unrun;
  running->unrun = 0;
  return at_once;
}

int bsl_tell(void) {
  size_t bytes = bsl_untold;
  bsl_untold = 0;
  return bslt_worked(bytes);
}

/* `worked`, for Rust. */
void bsl_worked(size_t bytes) { worked(bytes); }

int bsl_is_over(void) { return bslt_worked(0) == 2; }

/* Looks at the budget between two instructions, in a function in C. */
static void look(lua_State *L, int is_over) {
  if (L->hook && L->allows_hook && (L->hook_mask & LUA_MASKCOUNT)) {
    is_between = 1;
    luaD_callhook(L, LUA_HOOKCOUNT, -1);
    is_between = 0;
  }
  if (is_over) luaD_throw(L, LUA_ERRMEM);
}

void bsl_tell_in(lua_State *L) {
  int what = bsl_tell();
  if (what > 0) look(L, what == 2);
}

/* A coroutine goes on: it is what runs until it gives way. */
int bsl_resume(lua_State *L, int arguments) {
  lua_State *before = running;
  if (before) running = L;
  int status = lua_resume(L, arguments);
  if (before) running = before;
  return status;
}

/* In place of Lua's own: calls that are passed over count. */
int lua_getstack(lua_State *L, int level, lua_Debug *call) {
  ptrdiff_t nested = L->call - L->calls;
  ptrdiff_t passed = level < nested ? level : nested;
  if (passed > CALLS_FREE) worked((size_t)passed);
  return bsl_getstack(L, level, call);
}

/* The open upvalue of a place on the stack. There may be hundreds above it. */
Upvalue *bslF_findupval(lua_State *L, Value *level) {
  size_t steps = 0;
  for (Object *o = L->open_upvalues; o && ((Upvalue *)o)->at > level; o = o->next) steps++;
  if (steps > STEPS_FREE) worked(steps * BYTES_PER_UPVALUE);
  return luaF_findupval(L, level);
}

/* A call that an instruction makes: a `for` may ask for hundreds of results, which are set to nil where there are none. */
void bslD_call(lua_State *L, Value *function, int results) {
  if (is_newest(L)) worked(BYTES_PER_INNER_CALL + (results > RESULTS_FREE ? (size_t)results : 0));
  luaD_call(L, function, results);
}

/* A function in Lua returns all from there on, which may be thousands of values, and its caller the same again. */
int bslD_poscall(lua_State *L, Value *first) {
  if (L->top - first > RESULTS_FREE && is_newest(L)) worked((size_t)(L->top - first) * BYTES_PER_RESULT);
  return luaD_poscall(L, first);
}

/* A call has begun, or is over where it was one of a function in C. */
void bsl_called(const lua_State *L, size_t arguments, int is_in_c) {
  size_t of_arguments = arguments > ARGUMENTS_FREE ? arguments * BYTES_PER_ARGUMENT : 0;
  if (is_newest(L)) worked(of_arguments + (is_in_c ? BYTES_PER_C_CALL : 0));
}

/* What a value's metatable says of an event, where an instruction asks for it. */
const Value *bslT_gettmbyobj(lua_State *L, const Value *value, int event) {
  if (is_newest(L)) worked(BYTES_PER_EVENT);
  return luaT_gettmbyobj(L, value, event);
}
