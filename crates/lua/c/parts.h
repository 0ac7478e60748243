/* What the files here know of Lua 5.1.5's own structures, and of each other.

   Lua's headers for these are not installed: they are written down here once more. That version of Lua changes no more, and
   `parts.c` refuses to be compiled where a size or a place would not fit.

   Invariants:
   - The number of an object lies in four bytes of its head that Lua leaves unused. Of a text, Lua has its hash there.
   - Rules of a state are chosen when it is made. A text has one hash for as long as its state lives. */
#ifndef BASALT_LUA_PARTS_H
#define BASALT_LUA_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "lauxlib.h"
#include "lua.h"

/* The rules of a state: texts and numbers as Redis has them on each processor, and steps that count. */
#define RULES_NEWEST 1
/* Its objects are numbered from here on. */
#define RULES_NUMBERS 2

/* An object was there before the first run. */
#define NUMBER_LASTING 0x80000000u
/* A table finds keys that are objects by their numbers. Each object that is made in a run says so. */
#define NUMBER_KEYS 0x40000000u
/* The number: none is 0. */
#define NUMBER_OWN 0x3FFFFFFFu

/* Kinds of values and of objects beside those that `lua.h` names. */
#define KIND_PROTO 9
#define KIND_UPVALUE 10
#define KIND_DEAD_KEY 11

/* Marks of the collector. */
#define MARK_WHITES 3
#define MARK_BLACK 4

/* The event of a metatable that says which of its tables' entries are weak. */
#define EVENT_MODE 3

#define OBJECT_HEAD                                                                                                            \
  struct Object *next;                                                                                                         \
  unsigned char kind;                                                                                                          \
  unsigned char marks;                                                                                                         \
  unsigned char own[2];                                                                                                        \
  uint32_t number

/* The head of all that is collected. */
typedef struct Object {
  OBJECT_HEAD;
} Object;

typedef union Datum {
  Object *object;
  void *pointer;
  lua_Number number;
  int truth;
} Datum;

typedef struct Value {
  Datum as;
  int kind;
} Value;

/* The text itself comes behind it. Its number is its hash. */
typedef struct Text {
  OBJECT_HEAD;
  size_t bytes;
} Text;

/* One place of the hashed part of a table. */
typedef struct Node {
  Value value;
  union {
    Value as_value;
    struct {
      Datum as;
      int kind;
      struct Node *next;
    } chained;
  } key;
} Node;

/* Its own two bytes: which events its own metatable lacks, and the logarithm of the count of its nodes. */
typedef struct Table {
  OBJECT_HEAD;
  struct Table *metatable;
  Value *array;
  Node *nodes;
  Node *last_free;
  Object *grey;
  int array_places;
} Table;

typedef struct Upvalue {
  OBJECT_HEAD;
  Value *at;
} Upvalue;

/* The first fields of a function's prototype. */
typedef struct Proto {
  OBJECT_HEAD;
  Value *constants;
  uint32_t *code;
  struct Proto **functions;
  int *lines;
  void *locals;
  Text **upvalue_names;
  Text *source;
  int upvalue_name_count;
  int constant_count;
  int code_count;
  int line_count;
  int function_count;
  int local_count;
} Proto;

typedef struct Call {
  Value *base;
  Value *function;
  Value *top;
  const uint32_t *next;
  int results;
  int tail_calls;
} Call;

typedef struct Global {
  Object **texts;
  uint32_t text_count;
  int text_places;
  lua_Alloc allocate;
  void *data;
  unsigned char white;
  unsigned char phase;
  /* Two bytes that Lua leaves unused. */
  unsigned char rules;
  unsigned char unused;
  int swept;
  Object *objects;
  Object **sweeping;
  Object *greys[4];
  /* Where texts are joined. */
  char *buffer;
} Global;

struct lua_State {
  OBJECT_HEAD;
  Value *top;
  Value *base;
  Global *global;
  Call *call;
  const uint32_t *next_instruction;
  Value *stack_last;
  Value *stack;
  Call *calls_end;
  Call *calls;
  int stack_places;
  int calls_places;
  unsigned short calls_in_c;
  unsigned short calls_in_c_before;
  unsigned char hook_mask;
  unsigned char allows_hook;
  /* Two bytes that Lua leaves unused: instructions by which its next look comes earlier than Lua counts. */
  unsigned short unrun;
  int hook_every;
  int hook_in;
  lua_Hook hook;
  Value globals;
  Value environment;
  Object *open_upvalues;
};

static inline int is_newest(const lua_State *L) { return L->global->rules & RULES_NEWEST; }

/* Lua's own. */
extern const Value luaO_nilobject_;
void *luaM_realloc_(lua_State *L, void *block, size_t old_bytes, size_t bytes);
void *luaM_toobig(lua_State *L);
void luaG_runerror(lua_State *L, const char *format, ...);
void luaC_barrierback(lua_State *L, Table *table);
void luaD_throw(lua_State *L, int code);
void luaD_call(lua_State *L, Value *function, int results);
void luaD_callhook(lua_State *L, int event, int line);
Text *luaS_newlstr(lua_State *L, const char *text, size_t bytes);
void luaS_resize(lua_State *L, int places);

/* Work. For how many bytes something counts that takes no allocation: eight are one instruction. */

/* Steps along a chain that are free. */
#define STEPS_FREE 8
#define BYTES_PER_STEP 8
/* So many bytes are told at once. */
#define BYTES_AT_ONCE 4096

#if defined(__ELF__)
#define OF_PROGRAM __attribute__((tls_model("initial-exec")))
#else
#define OF_PROGRAM
#endif

/* What is not told yet. */
extern _Thread_local size_t bsl_untold OF_PROGRAM;
int bsl_tell(void);

/* So much work was done. Nothing is raised: where it was too much, the next instruction of Lua finds it. */
static inline void worked(size_t bytes) {
  if ((bsl_untold += bytes) >= BYTES_AT_ONCE) bsl_tell();
}

/* The same in a function in C that may raise errors: it does where the run is over. */
void bsl_tell_in(lua_State *L);
static inline void worked_in(lua_State *L, size_t bytes) {
  if ((bsl_untold += bytes) >= BYTES_AT_ONCE) bsl_tell_in(L);
}
/* Whether the run is over, after all that has been told. */
int bsl_is_over(void);

void bslC_link(lua_State *L, Object *object, unsigned char kind);

/* In Rust: so many bytes of work; 0: go on, 1: others are to be looked at, 2: the run is over. */
int bslt_worked(size_t bytes);
/* In Rust: the number of an object that becomes a key. */
uint32_t bslt_number(Object *object);

#endif
