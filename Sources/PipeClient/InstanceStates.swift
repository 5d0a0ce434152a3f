import PipeMachines
import PipeSupport
import PipeWire

extension TopologyClient {
  /// Returns the instance with this name, such as `orders[4711]`, and its node. Returns `nil` if
  /// the name has another form.
  /// - Throws: ``TopologyClientError`` if there is no node with this name, or the node has no
  ///   instances.
  package func instance(
    _ name: String, in directory: TopologyDirectory
  ) throws -> (name: InstanceName, node: NodeInformation)? {
    guard directory[node: name] == nil, let instance = InstanceName(name) else { return nil }
    let key: InstanceKey
    do { key = try InstanceKey(instance.key) } catch {
      throw TopologyClientError.invalidEvent(instance.node, "\(error)")
    }
    guard let node = directory.host(of: key, in: instance.node) else {
      throw TopologyClientError.unknownNode(instance.node, known: directory.names)
    }
    guard node.instanceField != nil else {
      throw TopologyClientError.invalidEvent(
        node.name, "the node has no instances; add a 'key' to the node in the topology file")
    }
    // A shard reports its instances under the name of the node to which the shard belongs.
    return (InstanceName(node: node.shard?.node ?? node.name, key: instance.key), node)
  }

  /// Follows the states of instances: first reports the current state of each instance, then each
  /// change.
  func follow(
    _ instances: [(name: InstanceName, node: NodeInformation)], into buffer: StateStreamBuffer
  ) async throws -> @Sendable () -> Void {
    if let composite = instances.first(where: { $0.node.kind == .composite }) {
      throw TopologyClientError.invalidEvent(
        composite.node.name,
        "a composite has no states of instances; name an instance of one of its nodes")
    }
    let changes = InstanceChanges(instances.map(\.name))
    let feeds = Set(instances.map(\.node.feedName))
    let topics = instances.map { FeedTopic.instances(of: $0.name.description) }
    return try await follow(ending: { buffer.end() }) { sockets in
      try sockets.readFrames(Array(feeds), topics) { [weak self] frame in
        switch changes.handle(frame) {
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

  /// Reports the current state of an instance, unless this state or a newer state was already
  /// reported.
  private func addState(
    of name: InstanceName, _ incarnation: UInt64, to changes: InstanceChanges,
    _ buffer: StateStreamBuffer
  ) {
    Task {
      guard let state = try? await state(of: name, incarnation), let change = changes.accept(state)
      else { return }
      buffer.append(change)
    }
  }

  /// Returns the current state of an instance; `nil` if the node has no such instance yet.
  private func state(
    of instance: InstanceName, _ incarnation: UInt64
  ) async throws -> StateChange? {
    let host = try self.instance(instance.description, in: await sharedDirectory())?.node
    let answer = try await exchange(
      host?.name ?? instance.node, .explain([], key: instance.key), timeout: answerTimeout)
    guard case .explained(let json) = answer else { throw TopologyClientError.unexpectedAnswer }
    let explanation = try json.decode(NodeExplanation.self)
    guard explanation.isNew != true else { return nil }
    return StateChange(
      node: instance.description, incarnation: incarnation, version: explanation.version,
      time: explanation.time ?? 0, cause: explanation.cause ?? "", state: explanation.state)
  }
}

/// The state changes of some instances. Each change is reported once, in the order of the versions.
final class InstanceChanges: Sendable {
  /// The action that a frame requires of the client.
  enum Action {
    case change(StateChange)
    /// The node has accepted the subscription, so the client must ask the node for the current
    /// states of these instances. `incarnation` is the node's incarnation.
    case ask([InstanceName], incarnation: UInt64)
    case nothing
  }

  private let instancesByName: [String: InstanceName]
  /// The versions of the last reported changes, by the instances' names.
  private let versions = Locked<[String: UInt64]>([:])

  init(_ names: [InstanceName]) {
    instancesByName = Dictionary(names.map { ($0.description, $0) }) { first, _ in first }
  }

  func handle(_ frame: UnsafeRawBufferPointer) -> Action {
    guard let header = try? FrameHeader(frame), header.kind == .instance else { return .nothing }
    guard let change = try? StateChange(frame: frame) else {
      return .ask(
        instancesByName.filter { FeedTopic.topicNumber(of: $0.key) == header.count }.map(\.value),
        incarnation: header.incarnationOrSession)
    }
    return accept(change).map { .change($0) } ?? .nothing
  }

  /// Returns the change, with the number of missed states. Returns `nil` if this change or a later
  /// change was already reported.
  func accept(_ change: StateChange) -> StateChange? {
    // Names of different instances may have the same topic number, so the name itself is checked.
    guard instancesByName[change.node] != nil else { return nil }
    return versions.withLock { versions in
      var change = change
      if let last = versions[change.node] {
        guard change.version > last else { return nil }
        change.missedCount = change.version - last - 1
      }
      versions[change.node] = change.version
      return change
    }
  }
}
