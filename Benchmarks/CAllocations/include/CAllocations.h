#ifndef CALLOCATIONS_H
#define CALLOCATIONS_H

/// Counts allocations from now on, or no more. The count starts at 0 again.
void ca_count(int enabled);

/// How many blocks were allocated since the counting began, on all threads.
unsigned long long ca_allocations(void);

#endif
