import PipeClient
import PipeLogs

extension LogWriter {
  /// The log of a node in its topology's state directory.
  package convenience init(node: String, in directories: RuntimeDirectories) {
    self.init(path: directories.logs + "/" + node + ".log")
  }
}
