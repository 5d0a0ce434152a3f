/// The names that a topology file changes, according to its keys `was`.
package struct NameChanges: Codable, Hashable, Sendable {
  /// A pipe with its present name.
  package struct Pipe: Codable, Hashable, Sendable {
    package var name: String
    /// The process that sends the pipe's events.
    package var sender: String
    /// The process that receives the pipe's events.
    package var receiver: String

    package init(_ name: String, from sender: String, to receiver: String) {
      self.name = name
      self.sender = sender
      self.receiver = receiver
    }
  }

  /// The present names of nodes, shards of nodes and composites, by their former names.
  package var members: [String: String] = [:]
  /// The pipes, by their former names.
  package var pipes: [String: Pipe] = [:]

  package init() {}

  package var isEmpty: Bool { members.isEmpty && pipes.isEmpty }

  /// Returns the former names of a node or composite, sorted.
  package func formerNames(of name: String) -> [String] {
    members.filter { $0.value == name }.keys.sorted()
  }

  /// Returns the former names of a pipe, sorted.
  package func formerNames(ofPipe name: String) -> [String] {
    pipes.filter { $0.value.name == name }.keys.sorted()
  }

  /// Returns the present name of a participant in a synchronized event: of a node, or of an instance
  /// of a node.
  package func name(ofParticipant participant: String) -> String {
    let node = InstanceName.node(of: participant)
    guard let name = members[node] else { return participant }
    return name + String(decoding: participant.utf8.dropFirst(node.utf8.count), as: UTF8.self)
  }

  /// The changes in words, such as `node 'door' is renamed to 'gate'`, sorted.
  package var lines: [String] {
    members.sorted { $0.key < $1.key }.map { "'\($0.key)' is renamed to '\($0.value)'" }
      + pipes.sorted { $0.key < $1.key }.map {
        "pipe '\($0.key)' is renamed to '\($0.value.name)'"
      }
  }
}
