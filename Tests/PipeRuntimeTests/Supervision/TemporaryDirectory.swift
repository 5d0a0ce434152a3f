import Glibc
import PipeRuntime

/// A directory of a test's own, removed with its last use.
final class TemporaryDirectory {
  let path: String

  init() throws {
    var template = Array("/tmp/prt-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SystemError("mkdtemp", code: errno) }
    path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  deinit { Self.remove(path) }

  var roots: RuntimeRoots { RuntimeRoots(environment: ["PIPERUNTIME_ROOT": path]) }

  private static func remove(_ path: String) {
    for name in FileSystem.entries(of: path) {
      let entry = path + "/" + name
      if unlink(entry) != 0 { remove(entry) }
    }
    rmdir(path)
  }
}
