import PipeClient
import PipeLogs
import PipeWire

extension LogWriter {
  /// The log of a node in its topology's state directory.
  /// - Parameter retention: How much is kept; `nil` to add lines alone.
  package convenience init(
    node: String, in directories: RuntimeDirectories, keeping retention: LogRetention? = nil
  ) {
    self.init(path: directories.logs + "/" + node + ".log", keeping: retention)
  }
}
