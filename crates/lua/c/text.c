/* Texts: a state has each of them once. */
#include <string.h>

#include "parts.h"

/* Up to so many bytes each byte of a text makes its hash, as in Redis, whose tables have their order by it. To hash all of a longer one would
   take as long as a dozen copies of it. */
#define BYTES_HASHED_WHOLE 128
/* Of a longer one so many are hashed at most. */
#define BYTES_HASHED_OF_LONG 32
/* What a byte counts for that is hashed: each waits for the one before it. */
#define BYTES_PER_HASHED 2
/* A comparison of fewer bytes is as long as a step. */
#define BYTES_COMPARED_FREE 64

static unsigned int hash_of(const char *text, size_t bytes) {
  unsigned int hash = (unsigned int)bytes;
  size_t step = bytes <= BYTES_HASHED_WHOLE ? 1 : (bytes >> 5) + 1;
  for (size_t at = bytes; at >= step; at -= step) hash ^= (hash << 5) + (hash >> 2) + (unsigned char)text[at - 1];
  return hash;
}

static Text *make(lua_State *L, const char *bytes, size_t count, unsigned int hash) {
  if (count + 1 > SIZE_MAX - 2 - sizeof(Text)) luaM_toobig(L);
  Text *text = luaM_realloc_(L, NULL, 0, sizeof(Text) + count + 1);
  Global *g = L->global;
  text->bytes = count;
  text->number = hash;
  text->marks = g->white & MARK_WHITES;
  text->kind = LUA_TSTRING;
  text->own[0] = 0;
  memcpy(text + 1, bytes, count);
  ((char *)(text + 1))[count] = '\0';
  Object **chain = &g->texts[hash & (unsigned int)(g->text_places - 1)];
  text->next = *chain;
  *chain = (Object *)text;
  g->text_count++;
  if (g->text_count > (uint32_t)g->text_places && g->text_places <= INT32_MAX / 2) luaS_resize(L, g->text_places * 2);
  return text;
}

/* The text of these bytes. By the newest rules it has Redis's hash, and what is hashed counts, and steps along texts of one place. */
Text *bslS_newlstr(lua_State *L, const char *bytes, size_t count) {
  if (!is_newest(L)) return luaS_newlstr(L, bytes, count);
  Global *g = L->global;
  unsigned int hash = hash_of(bytes, count);
  worked(BYTES_PER_HASHED * (count <= BYTES_HASHED_WHOLE ? count : BYTES_HASHED_OF_LONG));
  size_t steps = 0;
  for (Object *o = g->texts[hash & (unsigned int)(g->text_places - 1)]; o; o = o->next, steps++) {
    const Text *text = (const Text *)o;
    if (text->number != hash || text->bytes != count) continue;
    if (count > BYTES_COMPARED_FREE) worked(count);
    if (memcmp(bytes, text + 1, count) != 0) continue;
    if (steps > STEPS_FREE) worked(steps * BYTES_PER_STEP);
    /* It may be garbage that was not freed yet. */
    if (o->marks & (g->white ^ MARK_WHITES) & MARK_WHITES) o->marks ^= MARK_WHITES;
    return (Text *)o;
  }
  if (steps > STEPS_FREE) worked(steps * BYTES_PER_STEP);
  return make(L, bytes, count, hash);
}
