import PipeClient
import PipeSystem

/// A directory for one test. It is removed when this object is deallocated.
package final class TemporaryDirectory {
  package let path: String

  package init() throws { path = try FileSystem.makeTemporaryDirectory("/tmp/prt-") }

  deinit { FileSystem.removeTree(path) }

  package var roots: RuntimeRoots { RuntimeRoots(environment: ["PIPERUNTIME_ROOT": path]) }
}
