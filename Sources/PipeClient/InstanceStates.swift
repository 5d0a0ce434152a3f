import PipeMachines
import PipeSupport
import PipeWire

extension TopologyClient {
  /// Returns the instance that a name such as `orders[4711]` refers to, with its node; `nil` for
  /// any other name.
  /// - Throws: ``TopologyClientError`` if there is no such node, or the node has no instances.
  package func instance(
    _ name: String, in directory: TopologyDirectory
  ) throws -> (name: InstanceName, node: NodeInformation)? {
    guard directory[node: name] == nil, let instance = InstanceName(name) else { return nil }
    let node = try node(instance.node, in: directory)
    guard node.instanceField != nil else {
      throw TopologyClientError.invalidEvent(
        node.name, "the node has no instances; give it a 'key' in the topology file")
    }
    return (instance, node)
  }

  /// Follows the states of instances: first the current state of each, then its changes.
  func follow(
    _ instances: [(name: InstanceName, node: NodeInformation)], into buffer: StateStreamBuffer
  ) async throws -> @Sendable () -> Void {
    let changes = InstanceChanges(instances.map(\.name))
    let feeds = Set(instances.map(\.node.feedName))
    let topics = instances.map { FeedTopic.instances(of: $0.name.description) }
    return try await follow(ending: { buffer.end() }) { sockets in
      try sockets.read(Array(feeds), topics) { [weak self] frame in
        switch changes.take(frame) {
        case .change(let change): buffer.append(change)
        case .ask(let names, let incarnation):
          guard let client = self else { return }
          for name in names {
            client.addState(of: name, incarnation, to: changes, buffer)
          }
        case .nothing: break
        }
      }
    }
  }

  /// Adds the current state of an instance to the changes, unless a newer one is there already.
  private func addState(
    of name: InstanceName, _ incarnation: UInt64, to changes: InstanceChanges,
    _ buffer: StateStreamBuffer
  ) {
    Task {
      guard let state = try? await state(of: name, incarnation), let change = changes.take(state)
      else { return }
      buffer.append(change)
    }
  }

  /// Returns the current state of an instance; `nil` if the node has no such instance yet.
  private func state(
    of instance: InstanceName, _ incarnation: UInt64
  ) async throws -> StateChange? {
    let answer = try await exchange(
      instance.node, .explain([], key: instance.key), timeout: answerTimeout)
    guard case .explained(let json) = answer else { throw TopologyClientError.unexpectedAnswer }
    let explanation = try json.decode(NodeExplanation.self)
    guard explanation.isNew != true else { return nil }
    return StateChange(
      node: instance.description, incarnation: incarnation, version: explanation.version,
      time: explanation.time ?? 0, cause: explanation.cause ?? "", state: explanation.state)
  }
}

/// The changes of some instances, in the order of their versions, each once.
final class InstanceChanges: Sendable {
  /// The consequence of a frame.
  enum Action {
    case change(StateChange)
    /// The node, in this incarnation, has accepted the subscription: ask for the current states of
    /// these instances.
    case ask([InstanceName], incarnation: UInt64)
    case nothing
  }

  private let names: [String: InstanceName]
  /// The versions of the last changes, by the names of the instances.
  private let versions = Locked<[String: UInt64]>([:])

  init(_ names: [InstanceName]) {
    self.names = Dictionary(names.map { ($0.description, $0) }) { first, _ in first }
  }

  func take(_ frame: UnsafeRawBufferPointer) -> Action {
    guard let header = try? FrameHeader(frame), header.kind == .instance else { return .nothing }
    guard let change = try? StateChange(frame: frame) else {
      return .ask(
        names.filter { FeedTopic.number(of: $0.key) == header.count }.map(\.value),
        incarnation: header.number)
    }
    return take(change).map { .change($0) } ?? .nothing
  }

  /// Returns the change with the number of states that were missed; `nil` if it is not new.
  func take(_ change: StateChange) -> StateChange? {
    // Two names may have the same topic number.
    guard names[change.node] != nil else { return nil }
    return versions.withLock { versions in
      var change = change
      if let last = versions[change.node] {
        guard change.version > last else { return nil }
        change.missed = change.version - last - 1
      }
      versions[change.node] = change.version
      return change
    }
  }
}
