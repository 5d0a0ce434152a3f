import CSQLite
import PipeRuntime
import PipeRuntimeTestKit

/// A node's journal, read as anybody may who has SQLite.
struct JournalFile {
  let path: String

  init(of node: String, in topology: TopologyHarness) throws {
    let roots = topology.directory.roots
    path = try RuntimeDirectories(topology: topology.topology, roots: roots).journal(of: node)
  }

  /// The first column of the only row that a query gives.
  func integer(_ query: String) throws -> Int {
    var database: OpaquePointer?
    defer { sqlite3_close(database) }
    var statement: OpaquePointer?
    defer { sqlite3_finalize(statement) }
    guard sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, nil) == SQLITE_OK,
      sqlite3_prepare_v2(database, query, -1, &statement, nil) == SQLITE_OK,
      sqlite3_step(statement) == SQLITE_ROW
    else { throw JournalFileError(path: path, reason: String(cString: sqlite3_errmsg(database))) }
    return Int(sqlite3_column_int64(statement, 0))
  }
}

struct JournalFileError: Error {
  let path: String
  let reason: String
}
