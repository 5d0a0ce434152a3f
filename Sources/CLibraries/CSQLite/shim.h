#include <sqlite3.h>

/// Keeps the write-ahead log when the database is closed. sqlite3_db_config is variadic, which Swift cannot call.
static inline int pr_keep_log_on_close(sqlite3 *database) {
  return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
