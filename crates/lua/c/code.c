/* What the compiler of Lua emits, and what it looks along. Some instructions do as much as hundreds of others: by the newest rules they are cut into
   several, or are followed by some that do nothing, so that the count of instructions tells what they take. And a name is looked for among the local
   variables of all functions around it, a jump is put behind all that go to the same place: such steps count, and a run that is over ends there. */
#include "parts.h"

/* So many places of the stack are set in one instruction. */
#define PLACES_AT_ONCE 16

#define CODE_LOADNIL 3
#define CODE_JUMP 22
/* What a step counts for along jumps to one place, and along local variables. */
#define BYTES_PER_JUMP 8
#define BYTES_PER_LOCAL 1
/* So many are looked along for nothing. */
#define LOCALS_FREE 64
#define JUMPS_FREE 8
/* Where a list of jumps ends, and how far away an instruction says that a jump goes which goes nowhere. */
#define NO_JUMP (-1)
#define JUMP_OF(i) ((int)((i) >> 14) - 131071)
/* What the lexer calls a name. */
#define TOKEN_NAME 285

/* Kinds of expressions that have as many results as are asked for. */
#define EXPRESSION_CALL 13
#define EXPRESSION_VARARGS 14

#define CODE_OF(i) ((int)((i) & 0x3F))
#define A_OF(i) ((int)((i) >> 6 & 0xFF))
#define B_OF(i) ((int)((i) >> 23 & 0x1FF))

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

/* An expression: what it is, and the last of the jumps that leave it where it is true, and where it is not. */
typedef struct Expression {
  int kind;
  Datum as;
  int if_true;
  int if_false;
} Expression;

typedef struct Token {
  int kind;
  Datum as;
} Token;

/* The first fields of what reads a text. */
typedef struct Lexer {
  int next;
  int line;
  int last_line;
  Token token;
  Token ahead;
  Function *function;
  lua_State *state;
} Lexer;

_Static_assert(offsetof(Expression, if_false) == 20 && offsetof(Lexer, token) == 16 && offsetof(Lexer, state) == 56, "what is compiled");

void luaK_nil(Function *f, int from, int count);
void luaK_setreturns(Function *f, Expression *e, int count);
int luaK_codeABC(Function *f, int code, int a, int b, int c);
int luaK_codeABx(Function *f, int code, int a, unsigned int bx);
void luaK_exp2nextreg(Function *f, Expression *e);
int luaK_exp2anyreg(Function *f, Expression *e);
void luaK_storevar(Function *f, Expression *variable, Expression *e);
void luaK_infix(Function *f, int operator, Expression *e);
void luaK_concat(Function *f, int *list, int more);
void luaX_next(Lexer *lexer);

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

/* Steps count along a list of jumps. */
static void stepped(const Function *f, int list) {
  if (!is_newest(f->state)) return;
  size_t steps = 0;
  for (int at = list; at != NO_JUMP; steps++) {
    int distance = JUMP_OF(f->proto->code[at]);
    at = distance == NO_JUMP ? NO_JUMP : at + 1 + distance;
  }
  if (steps > JUMPS_FREE) worked_in(f->state, steps * BYTES_PER_JUMP);
}

/* What has jumps of its own gets one more behind them, where it is an operand of `and` or `or`. */
void bslK_infix(Function *f, int operator, Expression *e) {
  stepped(f, e->if_true);
  stepped(f, e->if_false);
  cut(f);
  luaK_infix(f, operator, e);
}

/* Jumps to one place: of a loop's every `break`, and from the end of each branch. */
void bslK_concat(Function *f, int *list, int more) {
  stepped(f, *list);
  luaK_concat(f, list, more);
}

/* The next token. A name is behind the lexer then, and looked for in the function and all around it. Before the first token the lexer may say
   anything: there are no variables yet, and that is free. */
void bslX_next(Lexer *lexer) {
  if (lexer->token.kind == TOKEN_NAME && is_newest(lexer->state)) {
    size_t locals = 0;
    for (const Function *f = lexer->function; f; f = f->around) locals += f->active_count + (size_t)4;
    if (locals > LOCALS_FREE) worked_in(lexer->state, locals * BYTES_PER_LOCAL);
  }
  luaX_next(lexer);
}

/* The last expression has so many results. */
void bslK_setreturns(Function *f, Expression *e, int count) {
  luaK_setreturns(f, e, count);
  if (!is_newest(f->state) || (e->kind != EXPRESSION_CALL && e->kind != EXPRESSION_VARARGS)) return;
  /* A jump to the next instruction: 131,071 is how far 0 is. */
  for (; count > PLACES_AT_ONCE; count -= PLACES_AT_ONCE) luaK_codeABx(f, CODE_JUMP, 0, 131071);
}
