#include <sqlite3.h>

/// Makes SQLite keep the write-ahead log when the database is closed. A C function, because Swift
/// cannot call the variadic sqlite3_db_config.
static inline int pr_keep_log_on_close(sqlite3 *database) {
  return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
