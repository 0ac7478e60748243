/* What the compiler of Lua emits. Some instructions do as much as hundreds of others: by the newest rules they are cut into several, or are
   followed by some that do nothing, so that the count of instructions tells what they take. */
#include "parts.h"

/* So many places of the stack are set in one instruction. */
#define PLACES_AT_ONCE 16

#define CODE_LOADNIL 3
#define CODE_JUMP 22
/* Kinds of expressions that have as many results as are asked for. */
#define EXPRESSION_CALL 13
#define EXPRESSION_VARARGS 14

#define CODE_OF(i) ((int)((i) & 0x3F))
#define A_OF(i) ((int)((i) >> 6 & 0xFF))
#define B_OF(i) ((int)((i) >> 23 & 0x1FF))

/* The first fields of a function's prototype. */
typedef struct Proto {
  OBJECT_HEAD;
  Value *constants;
  uint32_t *code;
} Proto;

/* The first fields of a function that is compiled. */
typedef struct Function {
  Proto *proto;
  Table *constants;
  struct Function *around;
  void *words;
  lua_State *state;
  void *blocks;
  int place;
  int last_target;
  int jumps;
  int free_register;
  int constant_count;
  int proto_count;
  short local_count;
  unsigned char active_count;
} Function;

/* The first field of an expression. */
typedef struct Expression {
  int kind;
} Expression;

void luaK_nil(Function *f, int from, int count);
void luaK_setreturns(Function *f, Expression *e, int count);
int luaK_codeABC(Function *f, int code, int a, int b, int c);
int luaK_codeABx(Function *f, int code, int a, unsigned int bx);
void luaK_exp2nextreg(Function *f, Expression *e);
int luaK_exp2anyreg(Function *f, Expression *e);
void luaK_storevar(Function *f, Expression *variable, Expression *e);
void luaK_infix(Function *f, int operator, Expression *e);

/* Sets so many registers to nil: an instruction before it may set the first of them as well. */
void bslK_nil(Function *f, int from, int count) {
  if (!is_newest(f->state)) {
    luaK_nil(f, from, count);
    return;
  }
  int end = from + count;
  if (f->place > f->last_target) {
    if (f->place == 0) {
      if (from >= f->active_count) return;
    } else {
      uint32_t *before = &f->proto->code[f->place - 1];
      int first = A_OF(*before), last = B_OF(*before);
      if (CODE_OF(*before) == CODE_LOADNIL && first <= from && from <= last + 1) {
        int most = first + PLACES_AT_ONCE < end ? first + PLACES_AT_ONCE : end;
        if (most - 1 > last) *before = (*before & 0x7FFFFF) | (uint32_t)(most - 1) << 23;
        from = most - 1 > last ? most : last + 1;
      }
    }
  }
  for (; from < end; from += PLACES_AT_ONCE) {
    int last = from + PLACES_AT_ONCE < end ? from + PLACES_AT_ONCE : end;
    luaK_codeABC(f, CODE_LOADNIL, from, last - 1, 0);
  }
}

/* A `nil` of its own may come next, which Lua joins to such an instruction before it, unless a jump leads there. It does so within one object,
   where no call can be redirected: so from a certain width on it takes it that a jump does. */
static void cut(Function *f) {
  if (!is_newest(f->state) || f->place == 0) return;
  uint32_t before = f->proto->code[f->place - 1];
  if (CODE_OF(before) == CODE_LOADNIL && B_OF(before) - A_OF(before) + 1 >= PLACES_AT_ONCE) f->last_target = f->place;
}

void bslK_exp2nextreg(Function *f, Expression *e) {
  cut(f);
  luaK_exp2nextreg(f, e);
}

int bslK_exp2anyreg(Function *f, Expression *e) {
  cut(f);
  return luaK_exp2anyreg(f, e);
}

void bslK_storevar(Function *f, Expression *variable, Expression *e) {
  cut(f);
  luaK_storevar(f, variable, e);
}

void bslK_infix(Function *f, int operator, Expression *e) {
  cut(f);
  luaK_infix(f, operator, e);
}

/* The last expression has so many results. */
void bslK_setreturns(Function *f, Expression *e, int count) {
  luaK_setreturns(f, e, count);
  if (!is_newest(f->state) || (e->kind != EXPRESSION_CALL && e->kind != EXPRESSION_VARARGS)) return;
  /* A jump to the next instruction: 131,071 is how far 0 is. */
  for (; count > PLACES_AT_ONCE; count -= PLACES_AT_ONCE) luaK_codeABx(f, CODE_JUMP, 0, 131071);
}
