import PipeSystem

/// The file of the topology that a node runs in, beside which its machines find their data.
public enum TopologyFile {
  /// The environment variable that tells nodes its path, from the root.
  package static let variable = "PIPERUNTIME_TOPOLOGY_FILE"

  /// The path of a file that parameters name: a relative one counts from the directory of the
  /// topology file; from the working directory, where the machine runs in no node.
  public static func path(of name: String) -> String {
    guard !name.hasPrefix("/"), let file = ProcessEnvironment.current[variable] else {
      return name
    }
    return FileSystem.directory(of: file) + "/" + name
  }
}
