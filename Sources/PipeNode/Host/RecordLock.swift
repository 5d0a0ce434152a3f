import Glibc
import PipeMachines
import PipeSystem
import PipeWire

/// The lock of a lodger's record, by which its process is known to live in this one: as the lock of a
/// process's own record, which that inherits from its orchestrator.
struct RecordLock {
  private let descriptor: Int32

  /// Takes the lock, and writes down whose it is.
  /// - Throws: ``NodeProblem`` where the record is another start's, or somebody has the lock.
  init(_ path: String, incarnation: UInt64) throws {
    let descriptor = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    self.descriptor = descriptor
    do {
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
        throw SystemError("flock", on: path, code: errno)
      }
      let written = try FileSystem.read(descriptor, limit: 4 << 20)
      let record = try? JSONValue(parsing: written.prefix { $0 != 0x0A })
        .decode(ProcessRecord.self)
      guard record?.incarnation == incarnation else {
        throw NodeProblem("'\(path)' is the record of another start")
      }
      try FileSystem.write(Self.ownStatus(), to: descriptor, path: path)
    } catch {
      close(descriptor)
      throw error
    }
  }

  /// Gives it away: nobody lives here of whom the record tells.
  func release() { close(descriptor) }

  /// The line of this process, with its end. Source: proc(5).
  private static func ownStatus() throws -> [UInt8] {
    let path = "/proc/self/stat"
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(descriptor) }
    return try FileSystem.read(descriptor, limit: 4096)
  }
}
