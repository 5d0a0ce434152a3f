import PipeMachines

/// An instance of a keyed node, as its journal has recorded it.
package struct RecordedInstance: Hashable, Sendable {
  /// The number of the instance in its node. Numbers are assigned in the order of creation.
  package var id: Int64
  package var key: InstanceKey
  /// The number of steps of the instance.
  package var version: UInt64
  /// The time of the last step. Unit: nanoseconds since 1970.
  package var time: Int64
  /// The cause of the last step.
  package var cause: String
  /// The name of the state's case; empty if the state is a struct.
  package var label: String
  /// The state as JSON.
  package var state: [UInt8]
  /// The time at which the instance ended in a final state; `nil` if the instance has not ended.
  /// Unit: nanoseconds since 1970.
  package var ended: Int64?
  /// The schema version of the state.
  package var schema: Int

  package init(
    id: Int64, key: InstanceKey, version: UInt64, time: Int64, cause: String, label: String,
    state: [UInt8], ended: Int64? = nil, schema: Int = 1
  ) {
    self.schema = schema
    self.id = id
    self.ended = ended
    self.key = key
    self.version = version
    self.time = time
    self.cause = cause
    self.label = label
    self.state = state
  }
}

extension RecordedInstance: Codable {
  private enum CodingKeys: CodingKey {
    case id, key, version, time, cause, label, state, ended, schema
  }

  package init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    self.init(
      id: try values.decode(Int64.self, forKey: .id),
      key: InstanceKey(recorded: try values.decode(String.self, forKey: .key)),
      version: try values.decode(UInt64.self, forKey: .version),
      time: try values.decode(Int64.self, forKey: .time),
      cause: try values.decode(String.self, forKey: .cause),
      label: try values.decode(String.self, forKey: .label),
      state: try values.decode(JSONValue.self, forKey: .state).bytes,
      ended: try values.decodeIfPresent(Int64.self, forKey: .ended),
      schema: try values.decodeIfPresent(Int.self, forKey: .schema) ?? 1)
  }

  package func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encode(id, forKey: .id)
    try values.encode(key.text, forKey: .key)
    try values.encode(version, forKey: .version)
    try values.encode(time, forKey: .time)
    try values.encode(cause, forKey: .cause)
    try values.encode(label, forKey: .label)
    try values.encode(
      (try? JSONValue(parsing: state)) ?? .string(String(decoding: state, as: UTF8.self)),
      forKey: .state)
    try values.encodeIfPresent(ended, forKey: .ended)
    if schema != 1 { try values.encode(schema, forKey: .schema) }
  }
}

/// The instances to read.
package struct InstanceSelection: Codable, Hashable, Sendable {
  /// Selects only instances whose keys come after this key, compared byte by byte; `nil` for no
  /// limit.
  package var after: String?
  /// Selects only the instances with these keys; `nil` for all keys.
  package var keys: [String]?
  /// Selects only instances in the state with this case name; `nil` for all states.
  package var label: String?
  /// Selects only instances whose last step was before this time; `nil` for no limit. Unit:
  /// nanoseconds since 1970.
  package var time: Int64?
  /// The maximum number of instances to read.
  package var limit: Int

  package init(
    after: String? = nil, keys: [String]? = nil, label: String? = nil, before time: Int64? = nil,
    limit: Int
  ) {
    self.after = after
    self.keys = keys
    self.label = label
    self.time = time
    self.limit = limit
  }

  package func contains(_ instance: RecordedInstance) -> Bool {
    let key = instance.key.text
    return after.map { Self.precedes($0, key) } != false && keys?.contains(key) != false
      && label.map { instance.label == $0 } != false && time.map { instance.time < $0 } != false
  }

  /// Whether a key comes before another key, compared byte by byte.
  package static func precedes(_ left: String, _ right: String) -> Bool {
    left.utf8.lexicographicallyPrecedes(right.utf8)
  }
}

/// Some of the selected instances, in the order of their keys.
package struct InstancePage: Codable, Hashable, Sendable {
  package var instances: [RecordedInstance]
  /// Whether there are more instances than fit into an answer.
  package var hasMore: Bool

  package init(instances: [RecordedInstance], hasMore: Bool) {
    self.instances = instances
    self.hasMore = hasMore
  }
}
