import PipeRuntime

/// A directory of a test's own, removed with its last use.
final class TemporaryDirectory {
  let path: String

  init() throws { path = try FileSystem.makeTemporaryDirectory("/tmp/prt-") }

  deinit { FileSystem.removeTree(path) }

  var roots: RuntimeRoots { RuntimeRoots(environment: ["PIPERUNTIME_ROOT": path]) }
}
