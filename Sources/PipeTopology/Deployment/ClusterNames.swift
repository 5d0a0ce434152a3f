import PipeMachines
import PipeSupport

/// The names that a topology's processes have in a cluster: labels of DNS names, since each names a service.
///
/// A name depends on nothing but the topology's and the process's, so that a change elsewhere in the file moves no
/// volume claim to another process.
package struct ClusterNames: Sendable {
  /// The topology's, which the names of all its objects begin with.
  package let topology: String
  private let whole: String

  /// The longest name of a StatefulSet: Kubernetes adds a hash to it, and makes a label of both. Unit: bytes.
  package static let lengthLimit = 52

  package init(topology: String) {
    self.topology = Self.label(of: topology)
    whole = topology
  }

  /// Whether services can have these names: that of one begins with a letter.
  var areOfServices: Bool { topology.utf8.first.map { $0 >= UInt8(ascii: "a") } == true }

  /// The name of a process's objects: `hall-door`. A long one is cut, and has a hash of the whole at its end.
  package func object(of process: String) -> String {
    let name = topology + "-" + Self.label(of: process)
    guard name.utf8.count > Self.lengthLimit else { return name }
    let hash = FNV.text(of: whole + "/" + process)
    let start = name.prefix(Self.lengthLimit - 1 - hash.utf8.count)
    return Self.trimmed(String(start)) + "-" + hash
  }

  /// That of the orchestrator's.
  package var orchestrator: String { object(of: Self.orchestratorProcess) }

  /// What stands for the orchestrator where processes have their names.
  package static let orchestratorProcess = "orchestrator"

  /// A name as a label of a DNS name: in small letters, with `-` for any mark.
  package static func label(of name: String) -> String {
    trimmed(
      String(
        decoding: name.utf8.map { byte -> UInt8 in
          switch byte {
          case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte | 0x20
          case UInt8(ascii: "_"), UInt8(ascii: "."): UInt8(ascii: "-")
          default: byte
          }
        }, as: UTF8.self))
  }

  /// Without marks at its end, where a label has none.
  private static func trimmed(_ text: String) -> String {
    var text = text
    while text.utf8.last == UInt8(ascii: "-") { text.removeLast() }
    return text
  }
}
