/* Tables, as Lua 5.1 has them, with two differences.

   - Steps count: those along a chain of keys with one place, those of a search for a table's length, places that a walk passes over, and those
     of a look at all places when a table grows. The first few along a chain are free.
   - In a state by the newest rules a table that was made in a run finds keys that are objects by their numbers, not by where they lie: its
     order is the same on each replica. A key gets its number when it first becomes one.

   Invariants, as in Lua: a key that is not at its own place stands where a free place was, and the key at its own place is at its
   own. Where a key goes depends on nothing but the keys before it, and `lua_next` walks places in their order, so scripts
   see that order: no step of it may change. */
#include <string.h>

#include "parts.h"

/* The largest array has so many places, as a logarithm. */
#define ARRAY_LOG2_MAX 26
/* Places that are passed over one after the other are as long as one step along a chain. */
#define PLACES_PER_STEP 4
/* What the next key counts for in a walk, and each place of an array and of nodes. */
#define BYTES_PER_KEY 32
#define BYTES_PER_PLACE 2
#define BYTES_PER_NODE 4
/* Entries are put into other places without a look at the budget, up to so many steps. */
#define STEPS_AT_ONCE (1u << 20)

#define NOTHING ((Value *)&luaO_nilobject_)

/* The one place of tables without a hashed part. It is never written. */
static const Node EMPTY = {{{NULL}, LUA_TNIL}, {{{NULL}, LUA_TNIL}}};

#define IS_EMPTY(t) ((t)->nodes == &EMPTY)
#define NODE_COUNT(t) (1 << (t)->own[1])
#define NEXT(n) ((n)->key.chained.next)
#define KEY_KIND(n) ((n)->key.chained.kind)
#define IS_NIL(v) ((v)->kind == LUA_TNIL)
#define IS_OBJECT(kind) ((kind) >= LUA_TTABLE && (kind) <= LUA_TTHREAD)

Value *bslH_set(lua_State *L, Table *t, const Value *key);
static Value *add(lua_State *L, Table *t, const Value *key, size_t *steps);

static inline Node *place_by_rest(const Table *t, unsigned int hash) {
  return &t->nodes[hash % (unsigned int)((NODE_COUNT(t) - 1) | 1)];
}

static inline Node *place_of_number(const Table *t, lua_Number n) {
  unsigned int halves[2];
  if (n == 0) return t->nodes;
  memcpy(halves, &n, sizeof(halves));
  return place_by_rest(t, halves[0] + halves[1]);
}

static inline Node *place_of_text(const Table *t, const Text *text) { return &t->nodes[text->number & (NODE_COUNT(t) - 1)]; }

/* Where a key belongs that is neither a number nor a text. */
static Node *place_of_other(const Table *t, const Value *key) {
  switch (key->kind) {
    case LUA_TBOOLEAN: return &t->nodes[key->as.truth & (NODE_COUNT(t) - 1)];
    case LUA_TLIGHTUSERDATA: return place_by_rest(t, (unsigned int)(size_t)key->as.pointer);
    default:
      if (t->number & NUMBER_KEYS) return place_by_rest(t, key->as.object->number & NUMBER_OWN);
      return place_by_rest(t, (unsigned int)(size_t)key->as.object);
  }
}

static Node *place_of(const Table *t, const Value *key) {
  switch (key->kind) {
    case LUA_TNUMBER: return place_of_number(t, key->as.number);
    case LUA_TSTRING: return place_of_text(t, (const Text *)key->as.object);
    default: return place_of_other(t, key);
  }
}

/* So many steps were made. In a table that is not of a run they may be others on each replica, and scripts cannot make them more. */
static inline void stepped(const Table *t, size_t steps) {
  if (steps > STEPS_FREE && (t->number & NUMBER_KEYS)) worked(steps * BYTES_PER_STEP);
}

/* The same where each step goes to another place in memory: none is free. */
static inline void searched(const Table *t, size_t steps) {
  if (t->number & NUMBER_KEYS) worked(steps * BYTES_PER_STEP);
}

/* Whether a key is one of no table yet. */
static inline int is_new(const Table *t, const Value *key) {
  return IS_OBJECT(key->kind) && (t->number & NUMBER_KEYS) && !(key->as.object->number & NUMBER_OWN);
}

static int are_equal(const Value *a, const Value *b) {
  if (a->kind != b->kind) return 0;
  switch (a->kind) {
    case LUA_TNIL: return 1;
    case LUA_TNUMBER: return a->as.number == b->as.number;
    case LUA_TBOOLEAN: return a->as.truth == b->as.truth;
    case LUA_TLIGHTUSERDATA: return a->as.pointer == b->as.pointer;
    default: return a->as.object == b->as.object;
  }
}

/* The place in an array that a key may have; -1 if it is no whole number. */
static inline int array_place(const Value *key) {
  if (key->kind == LUA_TNUMBER && key->as.number > -2147483649.0 && key->as.number < 2147483648.0) {
    int place = (int)key->as.number;
    if ((lua_Number)place == key->as.number) return place;
  }
  return -1;
}

/* Reading. */

const Value *bslH_getnum(Table *t, int key) {
  if ((unsigned int)key - 1 < (unsigned int)t->array_places) return &t->array[key - 1];
  lua_Number n = key;
  size_t steps = 0;
  for (Node *node = place_of_number(t, n); node; node = NEXT(node), steps++) {
    if (KEY_KIND(node) == LUA_TNUMBER && node->key.chained.as.number == n) {
      stepped(t, steps);
      return &node->value;
    }
  }
  stepped(t, steps);
  return NOTHING;
}

const Value *bslH_getstr(Table *t, Text *key) {
  size_t steps = 0;
  for (Node *node = place_of_text(t, key); node; node = NEXT(node), steps++) {
    if (KEY_KIND(node) == LUA_TSTRING && node->key.chained.as.object == (Object *)key) {
      stepped(t, steps);
      return &node->value;
    }
  }
  stepped(t, steps);
  return NOTHING;
}

/* The value of any other key: a number that is none of an array's places, a boolean, an object. */
static const Value *get_other(const Table *t, const Value *key) {
  size_t steps = 0;
  const Value *found = NOTHING;
  if (is_new(t, key)) return NOTHING;
  for (Node *node = place_of(t, key); node; node = NEXT(node), steps++) {
    if (are_equal(&node->key.as_value, key)) {
      found = &node->value;
      break;
    }
  }
  stepped(t, steps);
  return found;
}

const Value *bslH_get(Table *t, const Value *key) {
  switch (key->kind) {
    case LUA_TNIL: return NOTHING;
    case LUA_TSTRING: return bslH_getstr(t, (Text *)key->as.object);
    case LUA_TNUMBER: {
      lua_Number n = key->as.number;
      if (n > -2147483649.0 && n < 2147483648.0) {
        int place = (int)n;
        if ((lua_Number)place == n) return bslH_getnum(t, place);
      }
      return get_other(t, key);
    }
    default: return get_other(t, key);
  }
}

/* Lua's own look for the length where the hashed part goes on behind the array: it doubles until it finds nothing, and halves. Where
   a table was built so that it doubles without end, it looks at one key after the other. */
static int length_behind(Table *t, unsigned int j) {
  unsigned int i = j;
  size_t steps = 1;
  j++;
  for (; !IS_NIL(bslH_getnum(t, (int)j)); steps++) {
    i = j;
    j *= 2;
    if (j > (unsigned int)INT32_MAX) {
      for (i = 1; !IS_NIL(bslH_getnum(t, (int)i)); i++) {
      }
      searched(t, steps + i);
      return (int)(i - 1);
    }
  }
  for (; j - i > 1; steps++) {
    unsigned int m = (i + j) / 2;
    if (IS_NIL(bslH_getnum(t, (int)m)))
      j = m;
    else
      i = m;
  }
  searched(t, steps);
  return (int)i;
}

int bslH_getn(Table *t) {
  unsigned int j = (unsigned int)t->array_places;
  if (j > 0 && IS_NIL(&t->array[j - 1])) {
    unsigned int i = 0;
    size_t steps = 0;
    for (; j - i > 1; steps++) {
      unsigned int m = (i + j) / 2;
      if (IS_NIL(&t->array[m - 1]))
        j = m;
      else
        i = m;
    }
    searched(t, steps);
    return (int)i;
  }
  return IS_EMPTY(t) ? (int)j : length_behind(t, j);
}

/* Walking. */

/* The place of a key, counted from 0 over the array and then the nodes; -1 before the first. The key may be gone by now. */
static int index_of(lua_State *L, Table *t, const Value *key) {
  if (IS_NIL(key)) return -1;
  int i = array_place(key);
  if (0 < i && i <= t->array_places) return i - 1;
  size_t steps = 0;
  for (Node *node = is_new(t, key) ? NULL : place_of(t, key); node; node = NEXT(node), steps++) {
    int is_dead_one = KEY_KIND(node) == KIND_DEAD_KEY && key->kind >= LUA_TSTRING && node->key.chained.as.object == key->as.object;
    if (is_dead_one || are_equal(&node->key.as_value, key)) {
      stepped(t, steps);
      return (int)(node - t->nodes) + t->array_places;
    }
  }
  luaG_runerror(L, "invalid key to " LUA_QL("next"));
  return 0;
}

/* `key` is a place on the stack, and so is the one behind it: the next key goes there, and its value. */
int bslH_next(lua_State *L, Table *t, Value *key) {
  int from = index_of(L, t, key) + 1, i = from;
  int found = 0;
  for (; i < t->array_places && !found; i++) {
    if (!IS_NIL(&t->array[i])) {
      key->as.number = i + 1;
      key->kind = LUA_TNUMBER;
      key[1] = t->array[i];
      found = 1;
    }
  }
  for (; i - t->array_places < NODE_COUNT(t) && !found; i++) {
    Node *node = &t->nodes[i - t->array_places];
    if (!IS_NIL(&node->value)) {
      key[0] = node->key.as_value;
      key[1] = node->value;
      found = 1;
    }
  }
  int nodes_from = from > t->array_places ? from : t->array_places;
  size_t nodes = i > nodes_from ? (size_t)(i - nodes_from) : 0;
  size_t bytes = is_newest(L) ? BYTES_PER_KEY : 0;
  if (t->number & NUMBER_KEYS) bytes += ((size_t)(i - from) - nodes) * BYTES_PER_PLACE + nodes * BYTES_PER_NODE;
  if (bytes > 0) worked(bytes);
  return found;
}

/* Growing. */

/* The logarithm to the base 2 of a number that is at least 1, rounded up. */
static int log2_of(unsigned int n) { return n <= 1 ? 0 : 32 - __builtin_clz(n - 1); }

/* How many keys could stand in an array, by the logarithms of their places. */
typedef struct Census {
  int of_log2[ARRAY_LOG2_MAX + 1];
} Census;

static int note_key(Census *census, const Value *key) {
  int place = array_place(key);
  if (place <= 0 || place > 1 << ARRAY_LOG2_MAX) return 0;
  census->of_log2[log2_of((unsigned int)place)]++;
  return 1;
}

static int note_array(Census *census, const Table *t) {
  int count = 0, place = 1;
  for (int log2 = 0, last = 1; log2 <= ARRAY_LOG2_MAX; log2++, last *= 2) {
    int end = last < t->array_places ? last : t->array_places, here = 0;
    if (place > end) break;
    for (; place <= end; place++) here += !IS_NIL(&t->array[place - 1]);
    census->of_log2[log2] += here;
    count += here;
  }
  return count;
}

/* How many keys the nodes have, and how many of them could stand in an array. */
static int note_nodes(Census *census, const Table *t, int *in_array) {
  int count = 0;
  for (int i = NODE_COUNT(t); i--;) {
    const Node *node = &t->nodes[i];
    if (IS_NIL(&node->value)) continue;
    *in_array += note_key(census, &node->key.as_value);
    count++;
  }
  return count;
}

/* The places of the largest array of which more than half would be used, where `*places` keys could stand in one; how many would. */
static int best_array(const Census *census, int *places) {
  int below = 0, best_count = 0, best = 0;
  for (int i = 0, size = 1; size / 2 < *places; i++, size *= 2) {
    if (census->of_log2[i] > 0) {
      below += census->of_log2[i];
      if (below > size / 2) {
        best = size;
        best_count = below;
      }
    }
    if (below == *places) break;
  }
  *places = best;
  return best_count;
}

static void set_array(lua_State *L, Table *t, int places) {
  if ((size_t)places + 1 > SIZE_MAX / sizeof(Value)) luaM_toobig(L);
  size_t old_bytes = (size_t)t->array_places * sizeof(Value);
  t->array = luaM_realloc_(L, t->array, old_bytes, (size_t)places * sizeof(Value));
  for (int i = t->array_places; i < places; i++) t->array[i].kind = LUA_TNIL;
  t->array_places = places;
}

static void set_nodes(lua_State *L, Table *t, int count) {
  int log2 = 0;
  if (count == 0) {
    t->nodes = (Node *)&EMPTY;
  } else {
    log2 = log2_of((unsigned int)count);
    if (log2 > ARRAY_LOG2_MAX) luaG_runerror(L, "table overflow");
    count = 1 << log2;
    t->nodes = luaM_realloc_(L, NULL, 0, (size_t)count * sizeof(Node));
    for (int i = 0; i < count; i++) {
      Node *node = &t->nodes[i];
      NEXT(node) = NULL;
      KEY_KIND(node) = LUA_TNIL;
      node->value.kind = LUA_TNIL;
    }
  }
  t->own[1] = (unsigned char)log2;
  t->last_free = &t->nodes[count];
}

static void free_nodes(lua_State *L, Node *nodes, int count) {
  if (nodes != &EMPTY) luaM_realloc_(L, nodes, (size_t)count * sizeof(Node), 0);
}

/* Puts the entries of nodes that the table had into those that it has. None of their keys is there yet. Keys may be chosen so that
   this takes hours: a run that is over by then is ended, and its table has lost the rest. */
static void put_again(lua_State *L, Table *t, Node *old, int count) {
  size_t steps = 0;
  for (int i = count - 1; i >= 0; i--) {
    Node *node = &old[i];
    if (IS_NIL(&node->value)) continue;
    int place = array_place(&node->key.as_value);
    Value *to;
    t->own[0] = 0;
    if (0 < place && place <= t->array_places)
      to = &t->array[place - 1];
    else
      to = add(L, t, &node->key.as_value, &steps);
    *to = node->value;
    if (steps > STEPS_AT_ONCE) {
      worked(steps * BYTES_PER_STEP);
      steps = 0;
      if (bsl_is_over()) {
        free_nodes(L, old, count);
        luaD_throw(L, LUA_ERRMEM);
      }
    }
  }
  stepped(t, steps);
  free_nodes(L, old, count);
}

static void resize(lua_State *L, Table *t, int array_places, int node_count) {
  int old_places = t->array_places, old_count = NODE_COUNT(t);
  Node *old = t->nodes;
  if (array_places > old_places) set_array(L, t, array_places);
  set_nodes(L, t, node_count);
  if (array_places < old_places) {
    size_t steps = 0;
    t->array_places = array_places;
    for (int i = array_places; i < old_places; i++) {
      if (IS_NIL(&t->array[i])) continue;
      Value key = {{.number = i + 1}, LUA_TNUMBER};
      Value *to = add(L, t, &key, &steps);
      *to = t->array[i];
    }
    stepped(t, steps);
    size_t old_bytes = (size_t)old_places * sizeof(Value);
    t->array = luaM_realloc_(L, t->array, old_bytes, (size_t)array_places * sizeof(Value));
  }
  put_again(L, t, old, old_count);
}

void bslH_resizearray(lua_State *L, Table *t, int places) { resize(L, t, places, IS_EMPTY(t) ? 0 : NODE_COUNT(t)); }

/* Makes room for one key more. */
static void grow(lua_State *L, Table *t, const Value *key) {
  Census census = {{0}};
  int count = note_array(&census, t);
  int in_array = count;
  count += note_nodes(&census, t, &in_array);
  /* What is made anew counts where it is allocated. An array that stays as it is was looked at for nothing. */
  stepped(t, (size_t)t->array_places / PLACES_PER_STEP);
  in_array += note_key(&census, key);
  int in_best = best_array(&census, &in_array);
  resize(L, t, in_array, count + 1 - in_best);
}

/* Writing. */

static Node *free_place(Table *t) {
  while (t->last_free-- > t->nodes) {
    if (KEY_KIND(t->last_free) == LUA_TNIL) return t->last_free;
  }
  return NULL;
}

/* The place for the value of a key that the table does not have. If the key's own place is taken by one that does not belong there, that
   one moves to a free place; otherwise the new key goes to one. */
static Value *add(lua_State *L, Table *t, const Value *key, size_t *steps) {
  if (is_new(t, key)) key->as.object->number |= bslt_number(key->as.object) & NUMBER_OWN;
  Node *place = place_of(t, key);
  if (!IS_NIL(&place->value) || IS_EMPTY(t)) {
    Node *free = free_place(t);
    if (!free) {
      grow(L, t, key);
      return bslH_set(L, t, key);
    }
    Node *other = place_of(t, &place->key.as_value);
    if (other != place) {
      for (; NEXT(other) && NEXT(other) != place; other = NEXT(other)) ++*steps;
      /* No chain ends before it, as long as keys keep their numbers. Where one has lost its own, all go to their places anew. */
      if (!NEXT(other)) {
        grow(L, t, key);
        return bslH_set(L, t, key);
      }
      NEXT(other) = free;
      *free = *place;
      NEXT(place) = NULL;
      place->value.kind = LUA_TNIL;
    } else {
      NEXT(free) = NEXT(place);
      NEXT(place) = free;
      place = free;
    }
  }
  place->key.chained.as = key->as;
  place->key.chained.kind = key->kind;
  if (key->kind >= LUA_TSTRING && (key->as.object->marks & MARK_WHITES) && (t->marks & MARK_BLACK)) luaC_barrierback(L, t);
  return &place->value;
}

static Value *add_counted(lua_State *L, Table *t, const Value *key) {
  size_t steps = 0;
  Value *place = add(L, t, key, &steps);
  stepped(t, steps);
  return place;
}

Value *bslH_set(lua_State *L, Table *t, const Value *key) {
  const Value *found = bslH_get(t, key);
  t->own[0] = 0;
  if (found != NOTHING) return (Value *)found;
  if (IS_NIL(key))
    luaG_runerror(L, "table index is nil");
  else if (key->kind == LUA_TNUMBER && key->as.number != key->as.number)
    luaG_runerror(L, "table index is NaN");
  return add_counted(L, t, key);
}

Value *bslH_setnum(lua_State *L, Table *t, int key) {
  const Value *found = bslH_getnum(t, key);
  if (found != NOTHING) return (Value *)found;
  Value value = {{.number = key}, LUA_TNUMBER};
  return add_counted(L, t, &value);
}

Value *bslH_setstr(lua_State *L, Table *t, Text *key) {
  const Value *found = bslH_getstr(t, key);
  if (found != NOTHING) return (Value *)found;
  Value value = {{.object = (Object *)key}, LUA_TSTRING};
  return add_counted(L, t, &value);
}

/* Tables come and go. */

Table *bslH_new(lua_State *L, int array_places, int node_count) {
  Table *t = luaM_realloc_(L, NULL, 0, sizeof(Table));
  bslC_link(L, (Object *)t, LUA_TTABLE);
  t->metatable = NULL;
  t->own[0] = 0xFF;
  /* Where an allocation fails, it is freed as it is. */
  t->array = NULL;
  t->array_places = 0;
  t->own[1] = 0;
  t->nodes = (Node *)&EMPTY;
  set_array(L, t, array_places);
  set_nodes(L, t, node_count);
  return t;
}

void bslH_free(lua_State *L, Table *t) {
  free_nodes(L, t->nodes, NODE_COUNT(t));
  luaM_realloc_(L, t->array, (size_t)t->array_places * sizeof(Value), 0);
  luaM_realloc_(L, t, sizeof(Table), 0);
}
