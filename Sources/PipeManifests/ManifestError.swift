import PipeMachines
import PipeTopology

/// Why a topology cannot be written as manifests.
package enum ManifestError: Error, Hashable, Sendable {
  /// The deployment has another engine.
  case otherEngine(Deployment.Engine)
  /// The name of the topology begins with a digit.
  case noServiceName(String)
  /// The names of two processes are the same one in a cluster.
  case sameName(String, String, name: String)
  /// The name of a process is the orchestrator's in a cluster.
  case orchestratorName(String, name: String)
  /// The files do not fit into a ConfigMap. Unit: bytes.
  case tooLarge(Int)
  /// A variable stands for one thing in one file, and for another in the other.
  case twoValues(String, String, String)
  /// A file is no UTF-8 text.
  case notText(String)
}

extension ManifestError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .otherEngine(let engine):
      "the deployment has engine '\(engine.rawValue)', and manifests are Kubernetes': write 'engine: kubernetes', "
        + "'image' and the hosts or labels of each place"
    case .noServiceName(let topology):
      "topology '\(topology)' cannot be in a cluster under this name: its services begin with it, and the name of a "
        + "service begins with a letter; name it otherwise"
    case .sameName(let first, let second, let name):
      "'\(first)' and '\(second)' would both be '\(name)' in a cluster, where names have small letters, digits and '-' "
        + "alone; rename one"
    case .orchestratorName(let process, let name):
      "'\(process)' would be '\(name)' in a cluster, which is the orchestrator's name there; rename it"
    case .tooLarge(let size):
      "the two files have \(size) bytes together, and a ConfigMap takes \(ManifestSet.fileLimit); keep large data in "
        + "files of the image, which parameters name"
    case .twoValues(let name, let first, let second):
      "variable '\(name)' stands for one thing in '\(first)' and for another in '\(second)', since the files '.env' "
        + "beside them differ, and a pod has one environment for both; name it otherwise in one of them"
    case .notText(let file): "'\(file)' is no UTF-8 text, which a ConfigMap asks for"
    }
  }
}
