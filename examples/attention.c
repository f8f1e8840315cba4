/* Three documents packed into one sequence: causal attention inside each, none between them.
 *
 * The program checks what packing promises: each document gets what it gets alone. Then it shows how an error reads.
 *
 *   cc attention.c $(pkg-config --cflags --libs anymask) -lm && ./a.out
 */
#include <anymask/anymask.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 300, Q_HEADS = 4, KV_HEADS = 2, DIM = 32 };

static float q[TOKENS * Q_HEADS * DIM], k[TOKENS * KV_HEADS * DIM], v[TOKENS * KV_HEADS * DIM];
static float packed[TOKENS * Q_HEADS * DIM], alone[TOKENS * Q_HEADS * DIM];

/* [1, tokens, heads, DIM] float32 from `data` on. */
static DLTensor tensor(float* data, int64_t* shape, int64_t tokens, int64_t heads) {
  DLTensor t = {0};
  shape[0] = 1, shape[1] = tokens, shape[2] = heads, shape[3] = DIM;
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = 4;
  t.dtype.code = kDLFloat, t.dtype.bits = 32, t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* out = attention over tokens [begin, end) under `mask`. */
static anymask_status attend(int64_t begin, int64_t end, anymask_mask_t mask, float* out) {
  int64_t rows[4], keys[4];
  DLTensor tq = tensor(q + begin * Q_HEADS * DIM, rows, end - begin, Q_HEADS);
  DLTensor tk = tensor(k + begin * KV_HEADS * DIM, keys, end - begin, KV_HEADS);
  DLTensor tv = tensor(v + begin * KV_HEADS * DIM, keys, end - begin, KV_HEADS);
  DLTensor tout = tensor(out + begin * Q_HEADS * DIM, rows, end - begin, Q_HEADS);
  anymask_options options = {0};
  options.struct_size = sizeof(options);
  options.mask = mask;
  return anymask_forward(&tq, &tk, &tv, &tout, NULL, &options);
}

static void check(anymask_status status) {
  if (status == ANYMASK_OK) return;
  fprintf(stderr, "%s\n", anymask_last_error());
  exit(1);
}

static void fill(float* x, int64_t n, unsigned seed) {
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
  }
}

int main(void) {
  int64_t cu[4] = {0, 40, 210, TOKENS}, cu_shape[1] = {4};
  fill(q, TOKENS * Q_HEADS * DIM, 1);
  fill(k, TOKENS * KV_HEADS * DIM, 2);
  fill(v, TOKENS * KV_HEADS * DIM, 3);

  /* The mask: text, and the array it calls @cu. */
  DLTensor offsets = {0};
  offsets.data = cu;
  offsets.device.device_type = kDLCPU;
  offsets.ndim = 1;
  offsets.dtype.code = kDLInt, offsets.dtype.bits = 64, offsets.dtype.lanes = 1;
  offsets.shape = cu_shape;
  anymask_named_array arrays[1] = {{"cu", &offsets, 1}};
  anymask_mask_t documents = NULL, causal = NULL;
  check(anymask_mask_parse("causal & documents(@cu)", arrays, 1, &documents));
  check(anymask_mask_parse("causal", NULL, 0, &causal));

  /* All documents in one call, then one call each. */
  check(attend(0, TOKENS, documents, packed));
  for (int i = 0; i < 3; ++i) check(attend(cu[i], cu[i + 1], causal, alone));
  double largest = 0;
  for (int64_t i = 0; i < TOKENS * Q_HEADS * DIM; ++i)
    largest = fmax(largest, fabs((double)packed[i] - (double)alone[i]));

  /* What the mask keeps. */
  anymask_lengths lengths = {0};
  int64_t kept = 0, pairs = 0;
  lengths.struct_size = sizeof(lengths);
  lengths.batch = 1, lengths.s_q = TOKENS, lengths.s_kv = TOKENS;
  lengths.h_q = Q_HEADS, lengths.h_kv = KV_HEADS;
  check(anymask_mask_count(documents, &lengths, &kept, &pairs));
  printf("anymask %s keeps %" PRId64 " of %" PRId64 " pairs; packed and alone differ by %.1e\n", anymask_version(),
         kept, pairs, largest);

  /* An error names what is wrong and the way out. */
  const anymask_status status = attend(0, 200, documents, packed);
  printf("offsets that end at 300 on 200 tokens: %s\n", anymask_last_error());

  anymask_mask_free(documents);
  anymask_mask_free(causal);
  return largest < 1e-6 && status == ANYMASK_INVALID_ARGUMENT ? 0 : 1;
}
