// Counts the calls of the C library's allocator. A program that links this target defines malloc
// itself. This definition takes precedence over the definition of the C library.
#include "CAllocations.h"

#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int is_counting;
static unsigned long long allocations;

void ca_count(int enabled) {
  __atomic_store_n(&allocations, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&is_counting, enabled, __ATOMIC_RELAXED);
}

unsigned long long ca_allocations(void) { return __atomic_load_n(&allocations, __ATOMIC_RELAXED); }

static void count_allocation(void) {
  if (__atomic_load_n(&is_counting, __ATOMIC_RELAXED)) {
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  }
}

void *malloc(size_t size) {
  count_allocation();
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  count_allocation();
  return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
  count_allocation();
  return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
  count_allocation();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count_allocation();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
  count_allocation();
  void *memory = __libc_memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *block = memory;
  return 0;
}
