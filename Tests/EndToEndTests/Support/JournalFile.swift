import CSQLite
import Glibc
import PipeRuntime
import PipeRuntimeTestKit

/// The files of one node's journal as other programs see them: through SQLite, or byte by byte.
struct JournalFile {
  let path: String
  static let suffixes = ["", "-wal", "-shm", ".step"]

  init(of node: String, in topology: TopologyHarness) throws {
    try self.init(of: node, topology: topology.topology, roots: topology.directory.roots)
  }

  init(of node: String, topology: String, roots: RuntimeRoots) throws {
    path = try RuntimeDirectories(topology: topology, roots: roots).journal(of: node)
  }

  // MARK: SQLite

  struct Failure: Error { var message: String }

  /// Runs SQL as the command `sqlite3` does.
  /// - Returns: The rows, their columns joined by `|`.
  @discardableResult
  func run(_ sql: String) throws -> [String] {
    var handle: OpaquePointer?
    defer { sqlite3_close_v2(handle) }
    guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK else {
      throw Failure(message: path)
    }
    sqlite3_busy_timeout(handle, 2_000)
    let rows = Rows()
    let code = sqlite3_exec(
      handle, sql,
      { context, count, values, _ in
        let columns = (0..<Int(count)).map { values?[$0].map { String(cString: $0) } ?? "" }
        Unmanaged<Rows>.fromOpaque(context!).takeUnretainedValue().all
          .append(columns.joined(separator: "|"))
        return 0
      }, Unmanaged.passUnretained(rows).toOpaque(), nil)
    guard code == SQLITE_OK else { throw Failure(message: String(cString: sqlite3_errmsg(handle))) }
    return rows.all
  }

  /// Returns the first column of a query's first row.
  func integer(_ query: String) throws -> Int {
    let first = try run(query).first?.split(separator: "|").first
    guard let number = first.flatMap({ Int($0) }) else { throw Failure(message: query) }
    return number
  }

  private final class Rows { var all: [String] = [] }

  /// Moves the content of all files into the main file, as an administrator with `sqlite3` would.
  func checkpoint() throws { try run("PRAGMA wal_checkpoint(TRUNCATE)") }

  // MARK: Bytes

  func write(_ bytes: [UInt8], at offset: Int, of suffix: String = "") throws {
    let descriptor = open(path + suffix, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    guard pwrite(descriptor, bytes, bytes.count, off_t(offset)) == bytes.count else {
      throw SystemError("pwrite", on: path, code: errno)
    }
  }

  /// Returns the bytes of each existing file, by its suffix.
  func contents() throws -> [String: [UInt8]] {
    var contents: [String: [UInt8]] = [:]
    for suffix in Self.suffixes
    where FileSystem.exists(path + suffix) && !FileSystem.isDirectory(path + suffix) {
      let descriptor = open(path + suffix, O_RDONLY | O_CLOEXEC)
      defer { close(descriptor) }
      contents[suffix] = try FileSystem.read(descriptor)
    }
    return contents
  }

  /// Replaces the files by the copy that ``contents()`` has returned.
  func replace(with contents: [String: [UInt8]]) throws {
    for suffix in Self.suffixes {
      FileSystem.removeTree(path + suffix)
      guard let bytes = contents[suffix] else { continue }
      let descriptor = open(path + suffix, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
      defer { close(descriptor) }
      guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
        throw SystemError("write", on: path + suffix, code: errno)
      }
    }
  }
}
