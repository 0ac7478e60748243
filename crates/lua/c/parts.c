/* The places of what `parts.h` knows of Lua's own structures. */
#include "parts.h"

_Static_assert(sizeof(void *) == 8 && sizeof(lua_Number) == 8 && sizeof(int) == 4, "a processor of 64 bits");
_Static_assert(sizeof(Value) == 16 && sizeof(Node) == 40 && sizeof(Call) == 40, "values");
_Static_assert(sizeof(Object) == 16 && offsetof(Object, number) == 12, "the head of an object");
_Static_assert(sizeof(Text) == 24 && sizeof(Table) == 64, "texts and tables");
_Static_assert(offsetof(Node, key.chained.next) == 32, "the next of a chain");
_Static_assert(offsetof(Global, rules) == 34 && offsetof(Global, objects) == 40 && offsetof(Global, buffer) == 88, "globals");
_Static_assert(offsetof(lua_State, unrun) == 102 && offsetof(lua_State, hook_every) == 104 && offsetof(lua_State, open_upvalues) == 152, "a state");
