import PipeMachines
import PipeSupport
import PipeWire

/// The keys that a keyed node's events carry, and the check whether this process can have an
/// instance with a key.
final class InstanceKeys<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let engines: InstanceEngines<Hosted>
  /// The name of the node, which begins the names of its instances. It is the same in all shards.
  let nodeName: String
  /// The shard that this process is; `nil` if the node has one process.
  private let shard: NodeShard?
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var reader: InstanceKeyReader
  /// The keys of the waiting events, by pipe. They are stored because an event's bytes are not
  /// available any more when the event is processed.
  @exclusivity(unchecked)
  private var waitingKeys: [Queue<Result<InstanceKey, InstanceKeyError>>] = []

  init(
    _ instances: NodeArguments.Instances, node: String, _ core: MachineCore<Hosted>,
    _ engines: InstanceEngines<Hosted>
  ) {
    self.core = core
    self.engines = engines
    shard = instances.shard
    nodeName = instances.shard?.node ?? node
    reader = InstanceKeyReader(field: instances.key)
  }

  // MARK: Keys of waiting events

  func connect(pipeCount: Int) {
    waitingKeys = Array(repeating: Queue(), count: pipeCount)
  }

  /// Stores the key of an event that waits in a pipe.
  func append(_ bytes: UnsafeRawBufferPointer, schema: Int, of pipe: Int) {
    waitingKeys[pipe].append(key(ofEvent: bytes, schema: schema))
  }

  /// Removes and returns the key of the first waiting event of a pipe.
  func popFirst(of pipe: Int) -> Result<InstanceKey, InstanceKeyError>? {
    waitingKeys[pipe].popFirst()
  }

  // MARK: Keys of events

  func key(ofEvent bytes: [UInt8]) -> Result<InstanceKey, InstanceKeyError> {
    bytes.withUnsafeBytes { key(ofEvent: $0) }
  }

  private func key(
    ofEvent bytes: UnsafeRawBufferPointer
  ) -> Result<InstanceKey, InstanceKeyError> {
    Result { () throws(InstanceKeyError) in try reader.key(ofEvent: bytes) }
  }

  /// Returns the key of an event that has the schema version `schema`.
  private func key(
    ofEvent bytes: UnsafeRawBufferPointer, schema: Int
  ) -> Result<InstanceKey, InstanceKeyError> {
    guard schema != Hosted.schema,
      case .event(let event) = core.content(bytes, schema: schema)
    else { return key(ofEvent: bytes) }
    return key(of: event)
  }

  /// Returns the key of a decoded event, such as the event of a client's request or of a resent
  /// dead letter.
  func key(of event: Hosted.Event) -> Result<InstanceKey, InstanceKeyError> {
    guard let bytes = try? core.events.encode(event) else {
      return .failure(.missing(field: reader.field))
    }
    return key(ofEvent: bytes)
  }

  /// Returns `text` as a key. If `text` is `nil`, returns the key of the event in `body`.
  func key(_ text: String?, or body: UnsafeRawBufferPointer) throws -> InstanceKey {
    if let text {
      let key = try InstanceKey(text)
      if let problem = ownershipProblem(of: key) { throw NodeSetupError(problem) }
      guard engines.accepts(key) else {
        throw NodeSetupError("the machine does not accept the key '\(key)' as a parameter")
      }
      return key
    }
    guard !body.isEmpty else {
      throw NodeSetupError(
        "the node has instances; name one, as in '\(nodeName)[KEY]'")
    }
    return try reader.key(ofEvent: body)
  }

  // MARK: Checks of keys

  /// Returns why the node has no instance with this key; `nil` if the node can have such an
  /// instance.
  func problem(withKey key: InstanceKey) -> String? {
    ownershipProblem(of: key) ?? problem(withParameter: key)
  }

  /// Returns why the machine has no instance with this key; `nil` if it can have such an instance.
  func problem(withParameter key: InstanceKey) -> String? {
    engines.accepts(key)
      ? nil
      : "parameter '\(reader.field)' of machine '\(Hosted.name)' does not accept the key '\(key)'"
  }

  /// Returns the reason why this shard does not accept events with the key; `nil` if the shard owns
  /// the key's slot.
  func ownershipProblem(of key: InstanceKey) -> String? {
    guard let shard, !shard.owns(key) else { return nil }
    let owner = NodeShard(
      of: shard.node, index: NodeShard.index(of: key, among: shard.count), count: shard.count)
    return
      "the instance '\(key)' belongs to shard '\(owner.name)', not to '\(shard.name)'; send the "
      + "event to '\(shard.node)[\(key)]'"
  }
}
