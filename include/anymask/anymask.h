/* anymask: exact attention under any mask, at the cost of what the mask keeps.
 *
 * The stable C boundary. Every function returns a status or a plain value, none throws, none allocates device memory
 * behind the caller's back. A message for the last failure of this thread is at anymask_last_error(): operation,
 * argument, expected, got, and the way out.
 *
 * Conventions. Tensors are DLPack views (DLTensor), never owned, any strides with a contiguous last dimension (strides
 * may be NULL for contiguous). Shapes: q [b, s_q, h_q, d_qk], k [b, s_kv, h_kv, d_qk], v [b, s_kv, h_kv, d_v], out [b,
 * s_q, h_q, d_v], lse [b, h_q, s_q] fp32 (natural logarithm). Packed variable lengths: q [total_q, h_q, d_qk] and so
 * on, lse [h_q, total_q], with cu_seqlens_q and cu_seqlens_kv. h_q % h_kv == 0. Option structs begin with their size:
 * zero the struct, set struct_size, set what you need; a NULL or 0 field means its default, and older callers stay
 * valid.
 */
#ifndef ANYMASK_ANYMASK_H_
#define ANYMASK_ANYMASK_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ANYMASK_API __declspec(dllexport)
#else
#define ANYMASK_API __attribute__((visibility("default")))
#endif

#define ANYMASK_VERSION_MAJOR 0
#define ANYMASK_VERSION_MINOR 1
#define ANYMASK_VERSION_PATCH 0

/* DLPack's type code for booleans (8 bits); headers before DLPack 0.8 do not name it. */
#define ANYMASK_DL_BOOL 6

#ifdef __cplusplus
extern "C" {
#endif

typedef enum anymask_status {
  ANYMASK_OK = 0,
  ANYMASK_INVALID_ARGUMENT = 1, /* the caller's input is wrong: fix it */
  ANYMASK_UNSUPPORTED = 2,      /* the input is right, but nothing here computes it: the message names the way out */
  ANYMASK_OUT_OF_MEMORY = 3,
  ANYMASK_INTERNAL = 4,   /* a defect of the library */
  ANYMASK_INTERRUPTED = 5 /* options.interrupted said so */
} anymask_status;

/* The message of this thread's last failed call; "" before any. Valid until the thread's next anymask call. */
ANYMASK_API const char* anymask_last_error(void);
ANYMASK_API const char* anymask_version(void); /* "0.1.0" */

/* Frees what a function of this header handed out as char* or uint8_t*. NULL is fine. */
ANYMASK_API void anymask_free(void* pointer);

/* ---------------------------------------------------------------- masks */

typedef struct anymask_mask_s* anymask_mask_t; /* immutable; safe to share between threads */

/* An array a mask refers to by @name. copy != 0: copied now. copy == 0: borrowed; must stay alive and unchanged while a
 * mask uses it.
 *
 * An array in device memory is borrowed. Calls on that device read it there, on their stream: nothing is copied, and a
 * captured graph reads what the array holds when it is replayed. Its shape and type are checked, its contents cannot
 * be: wrong ones are brought back to valid ones (offsets that never fall and end at their length, parents before
 * children, clipped intervals), never followed out of bounds. Every check sees arrays on the CPU. Two such arrays are
 * equal when they are the same memory. Functions that look at a mask (dense, coverage, count, plan, bytes, explain)
 * copy them, and wait for the device. */
typedef struct anymask_named_array {
  const char* name;
  const DLTensor* tensor;
  int32_t copy;
} anymask_named_array;

/* One argument of a mask kind. `name` NULL or "": by position. */
typedef enum anymask_argument_type {
  ANYMASK_ARG_INT = 0,   /* integer */
  ANYMASK_ARG_REAL = 1,  /* real */
  ANYMASK_ARG_INTS = 2,  /* ints[0 .. count) */
  ANYMASK_ARG_ARRAY = 3, /* array (array.name may be NULL) */
  ANYMASK_ARG_TEXT = 4,  /* text, such as "top_left" */
  ANYMASK_ARG_MASK = 5   /* mask */
} anymask_argument_type;
typedef struct anymask_argument {
  const char* name;
  anymask_argument_type type;
  int64_t integer;
  double real;
  const int64_t* ints;
  int64_t count;
  anymask_named_array array;
  const char* text;
  anymask_mask_t mask;
} anymask_argument;

ANYMASK_API anymask_status anymask_mask_parse(const char* text, const anymask_named_array* arrays, int64_t num_arrays,
                                              anymask_mask_t* out);
ANYMASK_API anymask_status anymask_mask_leaf(const char* kind, const anymask_argument* arguments, int64_t num_arguments,
                                             anymask_mask_t* out);
ANYMASK_API anymask_status anymask_mask_and(anymask_mask_t a, anymask_mask_t b, anymask_mask_t* out);
ANYMASK_API anymask_status anymask_mask_or(anymask_mask_t a, anymask_mask_t b, anymask_mask_t* out);
ANYMASK_API anymask_status anymask_mask_not(anymask_mask_t a, anymask_mask_t* out);
ANYMASK_API anymask_status anymask_mask_per_batch(const anymask_mask_t* masks, int64_t num_masks, anymask_mask_t* out);
ANYMASK_API anymask_status anymask_mask_per_head(const anymask_mask_t* masks, int64_t num_masks, anymask_mask_t* out);
ANYMASK_API void anymask_mask_free(anymask_mask_t mask);

/* Text that parses back to an equal mask (arrays without a name and too long to print are called @array0, @array1,
 * ...). anymask_free it. */
ANYMASK_API anymask_status anymask_mask_text(anymask_mask_t mask, char** out);
ANYMASK_API anymask_status anymask_mask_equal(anymask_mask_t a, anymask_mask_t b, int32_t* out);
ANYMASK_API anymask_status anymask_mask_digest(anymask_mask_t mask, uint64_t out[2]);
ANYMASK_API anymask_status anymask_mask_to_bytes(anymask_mask_t mask, uint8_t** out, size_t* size);
ANYMASK_API anymask_status anymask_mask_from_bytes(const uint8_t* bytes, size_t size, anymask_mask_t* out);

/* Every kind as JSON: [{"name", "keeps", "summary", "example", "arguments": [{"name", "type", "required", "default",
 * "doc"}]}]. anymask_free it. */
ANYMASK_API anymask_status anymask_mask_kinds(char** json);

/* The lengths a mask is looked at with. Either batch, s_q, s_kv; or cu_seqlens_q and cu_seqlens_kv (int32 or int64 [n +
 * 1], on the CPU), and then batch, s_q and s_kv are not read. A sequence has up to 2^31 - 1 rows and keys, a call up to
 * 2^24 sequences and 2^16 heads. */
typedef struct anymask_lengths {
  size_t struct_size;
  int64_t batch, s_q, s_kv; /* batch 0 means 1 */
  int64_t h_q, h_kv;        /* 0 means 1 */
  const DLTensor* cu_seqlens_q;
  const DLTensor* cu_seqlens_kv;
} anymask_lengths;

/* A random valid mask of every kind for those lengths, for tests: the same seed gives the same mask. */
ANYMASK_API anymask_status anymask_mask_random(uint64_t seed, const anymask_lengths* lengths, int32_t leaves,
                                               anymask_mask_t* out);

/* The same mask, holding what its topk selects at these lengths: forward, backward and plans at them select nothing
 * again. Arrays it borrows must not change as long as it is used; a mask that copied its arrays holds by itself what it
 * selected last. */
ANYMASK_API anymask_status anymask_mask_select(anymask_mask_t mask, const anymask_lengths* lengths,
                                               anymask_mask_t* out);

/* Elements of one plane: out [rows, cols] bool or uint8 takes rows q_begin.. and keys kv_begin.. */
ANYMASK_API anymask_status anymask_mask_dense(anymask_mask_t mask, const anymask_lengths* lengths, int64_t sequence,
                                              int64_t head, int64_t q_begin, int64_t kv_begin, const DLTensor* out);
/* Kept share of each cell of a rows x cols picture of one plane: out [rows, cols] fp32. */
ANYMASK_API anymask_status anymask_mask_coverage(anymask_mask_t mask, const anymask_lengths* lengths, int64_t sequence,
                                                 int64_t head, const DLTensor* out);
/* Pairs kept, and pairs in all, over every sequence and q head. */
ANYMASK_API anymask_status anymask_mask_count(anymask_mask_t mask, const anymask_lengths* lengths, int64_t* kept,
                                              int64_t* pairs);

/* ---------------------------------------------------------------- plans */

typedef struct anymask_plan_s* anymask_plan_t;

typedef struct anymask_plan_options {
  size_t struct_size;
  int32_t tile_m, tile_n; /* 0: the CPU kernel's own (tile_n is a multiple of 64) */
  int32_t transposed;     /* rows are keys: the plan of dK and dV */
  float split_cost;       /* rows costlier than so many tiles are split; 0: never */
} anymask_plan_options;

typedef struct anymask_run { /* tiles [n_begin, n_end) */
  int32_t n_begin, n_end;
  uint32_t kind; /* 0 full; 1 partial, consecutive bit tiles; 2 partial, all the same bit tile */
  int32_t bits;
} anymask_run;
typedef struct anymask_plan_plane {
  int64_t rows, cols;
  int32_t m_blocks, n_blocks;
  int64_t first_row; /* into row_begin */
  int64_t kept_pairs, full_tiles, partial_tiles;
} anymask_plan_plane;
typedef struct anymask_work_item {
  int32_t plane, m_block, run_begin, run_end, n_begin, n_end, split, num_splits;
  float cost;
} anymask_work_item;
typedef struct anymask_plan_view { /* pointers into the plan, valid until anymask_plan_free */
  size_t struct_size;
  int32_t tile_m, tile_n, transposed;
  int64_t num_planes, num_sequences, heads, num_rows, num_runs, num_bit_tiles, num_work;
  const anymask_plan_plane* planes;
  const int32_t* plane_of;  /* [num_sequences, heads], heads 1 or h_q */
  const int64_t* row_begin; /* [num_rows + 1] */
  const anymask_run* runs;
  const uint64_t* bit_tiles; /* [num_bit_tiles, tile_m, tile_n / 64], bit i of a word is column 64 * w + i */
  const anymask_work_item* work;
  /* Over all sequences and mask heads (`heads`); bytes are those this plan holds. */
  int64_t kept_pairs, pairs, full_tiles, partial_tiles, empty_tiles, bytes;
} anymask_plan_view;

ANYMASK_API anymask_status anymask_plan_create(anymask_mask_t mask, const anymask_lengths* lengths,
                                               const anymask_plan_options* options, anymask_plan_t* out);
ANYMASK_API anymask_status anymask_plan_get(anymask_plan_t plan, anymask_plan_view* out);
ANYMASK_API void anymask_plan_free(anymask_plan_t plan);

typedef struct anymask_cache_stats {
  int64_t entries, bytes, hits, misses, limit_bytes;
} anymask_cache_stats;
ANYMASK_API anymask_cache_stats anymask_plan_cache_stats(void);
ANYMASK_API void anymask_plan_cache_limit(int64_t bytes); /* 0 empties and disables the cache */

/* ------------------------------------------------------------ attention */

typedef struct anymask_options {
  size_t struct_size;
  anymask_mask_t mask;         /* NULL: full */
  const double* softmax_scale; /* NULL: 1 / sqrt(d_qk) */
  double softcap;              /* 0: none; else s = cap * tanh(s / cap) */
  const DLTensor* bias; /* [b or 1, h_q or h_kv or 1, s_q or 1, s_kv] or [s_q or 1, s_kv], added after the softcap;
                         * packed: [n or 1, h_q or h_kv or 1, max_s_q or 1, max_s_kv], counted inside each sequence */
  const DLTensor* alibi_slopes; /* [h_q] or [b, h_q]: adds -slope * |p - kv| */
  const DLTensor* sinks;        /* [h_q]: a logit in the denominator only */
  /* [n + 1], int32 or int64: packed tensors. On the CPU; or on the tensors' device, where they are read like the arrays
   * of a mask: never copied, new ones each time a captured graph is replayed, brought back to valid ones. There the
   * mask is of causal, window, stride, full and none (with a cu_seqlens_kv in other memory than cu_seqlens_q, which ask
   * for no positions: full and none), and there is no bias. */
  const DLTensor* cu_seqlens_q;
  const DLTensor* cu_seqlens_kv; /* [n + 1]; NULL: as cu_seqlens_q */
  int32_t deterministic;
  int32_t num_threads; /* CPU; 0: all this process may use */
  const char* backend; /* NULL or "auto", "cpu", "cuda", "reference" (double precision), "naive" */
  void* stream;        /* CUDA: a cudaStream_t; NULL: the default stream */
  void* workspace;     /* device memory, of at least anymask_workspace_bytes */
  size_t workspace_bytes;
  /* Backward only. */
  const DLTensor* dlse;   /* [b, h_q, s_q] fp32: gradient flowing in through lse */
  const DLTensor* dbias;  /* the bias's shape; written; fp32 or the bias's type */
  const DLTensor* dsinks; /* [h_q]; written; fp32 or the sinks' type */
  /* CPU: asked now and then, by the thread that made the call, at most every 50 ms; not 0 stops the call, which returns
   * ANYMASK_INTERRUPTED within a fraction of a second and leaves its outputs unspecified. It may call this library.
   * NULL: never asked. */
  int32_t (*interrupted)(void* context);
  void* interrupted_context;
} anymask_options;

/* out = softmax(scale * q k^T + ..., masked) v. Head dimensions are multiples of 8 up to 256; q, k, v, out have one
 * type. Outputs may share no memory with inputs or each other, except interleaved (views of one [b, s, 3, h, d] tensor
 * are fine). lse may be NULL. Rows that keep nothing give out 0 and lse -inf (a sink: lse = sink). With backend
 * "reference", out and lse may be fp64. On failure nothing is written (save where the call was interrupted). */
ANYMASK_API anymask_status anymask_forward(const DLTensor* q, const DLTensor* k, const DLTensor* v, const DLTensor* out,
                                           const DLTensor* lse, const anymask_options* options);

/* Gradients of sum(dout * out) (+ sum(dlse * lse)). out and lse are the forward's. dq, dk, dv have the shapes of q, k,
 * v. A row that keeps nothing has a dq of 0 and gives nothing to dk, dv and dbias; with a sink its lse is the sink, so
 * its dlse goes to dsinks. Probabilities are exp(score - lse): where every key a row keeps has a bias near -FLT_MAX,
 * fp32 holds of lse no more than that bias, and the row's gradients come out too large by up to the number of its
 * keys. Drop such rows by the mask, or give them a dout of 0. */
ANYMASK_API anymask_status anymask_backward(const DLTensor* dout, const DLTensor* q, const DLTensor* k,
                                            const DLTensor* v, const DLTensor* out, const DLTensor* lse,
                                            const DLTensor* dq, const DLTensor* dk, const DLTensor* dv,
                                            const anymask_options* options);

/* Device memory the call needs (0 on a CPU). backward 0: the forward's. */
ANYMASK_API anymask_status anymask_workspace_bytes(const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                                   const anymask_options* options, int32_t backward, size_t* out);

/* What would run and why, as JSON: {"backend", "kernel", "kept_share", "tiles": {"full", "partial", "empty", "tile_m",
 * "tile_n"}, "planned", "plan_bytes", "facts": {...}, "refused": [{"backend", "reason"}]}. Tiles are those of all
 * sequences and mask heads (backward: of the plan whose rows are keys). Tensors' data may be NULL: only shapes count.
 * "backend" is null when nothing computes the call. anymask_free it. */
ANYMASK_API anymask_status anymask_explain(const DLTensor* q, const DLTensor* k, const DLTensor* v,
                                           const anymask_options* options, int32_t backward, char** json);

/* ---------------------------------------------------------------- machine */

/* Whether a backend can run here, and if not, why: {"cpu": {"available": true, "target": "AVX3", ...}, "cuda":
 * {"available": false, "reason": "..."}}. anymask_free it. */
ANYMASK_API anymask_status anymask_backends(char** json);

/* Device memory for programs without a CUDA runtime of their own: 256-byte aligned, freed by anymask_cuda_free. Copies
 * go in any direction between host and device and wait for all work before them. anymask_cuda_synchronize waits for the
 * device and gives the error of anything that failed on it. */
ANYMASK_API anymask_status anymask_cuda_malloc(int32_t device, size_t bytes, void** out);
ANYMASK_API void anymask_cuda_free(void* memory);
ANYMASK_API anymask_status anymask_cuda_copy(void* to, const void* from, size_t bytes);
ANYMASK_API anymask_status anymask_cuda_synchronize(int32_t device);
/* Measured now: bf16 products by the card's best matrix instruction, in FLOP/s, and a copy inside its memory, in bytes
 * read and written a second. Either may be NULL. */
ANYMASK_API anymask_status anymask_cuda_peak(int32_t device, double* flops, double* copy_bytes);

/* Multiply-add rate measured now, in a millisecond or two, in FLOP/s: `dtype` "float32" (FMA) or "bfloat16" (bf16 dot
 * product where the processor has it, else 0). */
ANYMASK_API anymask_status anymask_cpu_peak(const char* dtype, int32_t num_threads, double* out);
/* The same of the fp32 forward's two products alone, on packed operands of this head dimension (a multiple of 8 up to
 * 256): what the forward would reach if softmax, packing and masks cost nothing. */
ANYMASK_API anymask_status anymask_cpu_products(int32_t head_dim, int32_t num_threads, double* out);
/* Vector targets compiled in and usable here, separated by spaces, best first; forcing one (tests) or "" for the best
 * again. */
ANYMASK_API anymask_status anymask_cpu_targets(char** out);
ANYMASK_API anymask_status anymask_cpu_force_target(const char* name);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* ANYMASK_ANYMASK_H_ */
