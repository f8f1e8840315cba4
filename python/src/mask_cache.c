/* Masks read from bytes, by a key of the bytes: those of the calls that compiled computations made last. Such a call is
 * made many times with the same bytes, which are then read once; a forward and its backward share what a topk selected.
 * From any thread, without the interpreter's lock.
 *
 * The key is BLAKE2b of 128 bits, made where the computation is traced (anymask/jax.py), and is trusted: that two masks
 * of a process share one takes 2^64 masks by chance, and as many tries of who looks for such two.
 *
 * Bounded by number and by bytes: the mask used longest ago goes first, and is freed by the last call that uses it.
 */
#include "module.h" /* first: Python.h says which functions of the system the headers after it declare */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { kMostMasks = 64 };
static const size_t kMostBytes = (size_t)256 << 20;

struct AmHeldMask {
  unsigned char key[AM_MASK_KEY];
  anymask_mask_t mask;
  size_t bytes;
  uint64_t used; /* the number of the call that did so last */
  int holders;   /* the table, and calls under way */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static AmHeldMask* masks[kMostMasks];
static int num_masks;
static size_t num_bytes;
static uint64_t num_calls;

static void let_go(AmHeldMask* entry) {
  if (--entry->holders > 0) return;
  anymask_mask_free(entry->mask);
  free(entry);
}

static AmHeldMask* find(const void* key, size_t bytes) {
  for (int i = 0; i < num_masks; ++i) {
    AmHeldMask* entry = masks[i];
    if (memcmp(entry->key, key, AM_MASK_KEY) != 0 || entry->bytes != bytes) continue;
    ++entry->holders;
    entry->used = ++num_calls;
    return entry;
  }
  return NULL;
}

static void remove_oldest(void) {
  int oldest = 0;
  for (int i = 1; i < num_masks; ++i)
    if (masks[i]->used < masks[oldest]->used) oldest = i;
  num_bytes -= masks[oldest]->bytes;
  let_go(masks[oldest]);
  masks[oldest] = masks[--num_masks];
}

static void insert(AmHeldMask* entry) {
  entry->used = ++num_calls;
  if (entry->bytes > kMostBytes) return;
  while (num_masks == kMostMasks || num_bytes + entry->bytes > kMostBytes) remove_oldest();
  masks[num_masks++] = entry;
  num_bytes += entry->bytes;
  ++entry->holders;
}

/* What a thread has read; what another has read meanwhile, if one has. */
static AmHeldMask* insert_or_find(AmHeldMask* made) {
  pthread_mutex_lock(&lock);
  AmHeldMask* other = find(made->key, made->bytes);
  if (other == NULL) {
    insert(made);
  } else {
    let_go(made);
  }
  pthread_mutex_unlock(&lock);
  return other == NULL ? made : other;
}

anymask_status am_hold_mask(const void* bytes, size_t size, const void* key, AmHeldMask** held, anymask_mask_t* out) {
  pthread_mutex_lock(&lock);
  *held = find(key, size);
  pthread_mutex_unlock(&lock);
  if (*held == NULL) {
    AmHeldMask* made = calloc(1, sizeof *made);
    if (made == NULL) return ANYMASK_OUT_OF_MEMORY; /* without a text: xla.c has one for it */
    const anymask_status status = anymask_mask_from_bytes(bytes, size, &made->mask);
    if (status != ANYMASK_OK) {
      free(made);
      return status;
    }
    memcpy(made->key, key, AM_MASK_KEY);
    made->bytes = size;
    made->holders = 1;
    *held = insert_or_find(made);
  }
  *out = (*held)->mask;
  return ANYMASK_OK;
}

void am_let_mask_go(AmHeldMask* held) {
  if (held == NULL) return;
  pthread_mutex_lock(&lock);
  let_go(held);
  pthread_mutex_unlock(&lock);
}
