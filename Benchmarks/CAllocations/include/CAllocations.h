#ifndef CALLOCATIONS_H
#define CALLOCATIONS_H

/// Starts or stops counting, and resets the count to 0.
void ca_count(int enabled);

/// Returns the number of blocks that all threads have allocated since counting started.
unsigned long long ca_allocations(void);

#endif
