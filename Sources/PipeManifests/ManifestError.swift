import PipeTopology

/// Why a topology cannot be written as manifests.
package enum ManifestError: Error, Hashable, Sendable {
  /// The deployment has another engine.
  case otherEngine(Deployment.Engine)
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
