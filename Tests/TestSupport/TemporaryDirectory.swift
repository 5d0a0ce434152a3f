import PipeClient
import PipeSystem

/// A directory of a test's own, removed with its last use.
package final class TemporaryDirectory {
  package let path: String

  package init() throws { path = try FileSystem.makeTemporaryDirectory("/tmp/prt-") }

  deinit { FileSystem.removeTree(path) }

  package var roots: RuntimeRoots { RuntimeRoots(environment: ["PIPERUNTIME_ROOT": path]) }
}
