import PipeMachines
import PipeSupport
import PipeSystem

/// The instance of a keyed node, as recorded.
package struct RecordedInstance {
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

  package init(
    key: InstanceKey, version: UInt64, time: Int64, cause: String, label: String, state: [UInt8]
  ) {
    self.key = key
    self.version = version
    self.time = time
    self.cause = cause
    self.label = label
    self.state = state
  }

  static let columns = "key, version, time, cause, label, state"

  init(_ row: Row) {
    self.init(
      key: InstanceKey(recorded: row.text(0)), version: row.unsigned(1), time: row.integer(2),
      cause: row.text(3), label: row.text(4), state: row.bytes(5))
  }
}

extension Journal {
  /// The number of the last record, and of the last record that the database has.
  package var recordNumbers: (last: UInt64, written: UInt64) { (log.last, log.written) }

  /// Records the state of an instance after its last step of a burst.
  package func instanceChanged(_ instance: RecordedInstance) throws {
    run(
      .instanceChanged, .text(instance.key.text), .integer(instance.version),
      .integer(instance.time), .text(instance.cause), .text(instance.label), .text(instance.state))
  }

  package func instanceEffectStarted(
    _ key: InstanceKey, _ origin: EffectOrigin, state: [UInt8], progress: BootClock.Instant
  ) throws {
    run(
      .instanceEffectStarted, .text(key.text), .integer(origin.version),
      .integer(Int64(origin.feedback)), .text(state), .integer(progress.time), .text(boot),
      .integer(progress.clock))
  }

  package func instanceEffectEnded(_ key: InstanceKey, _ origin: EffectOrigin) throws {
    run(
      .instanceEffectEnded, .text(key.text), .integer(origin.version),
      .integer(Int64(origin.feedback)))
  }

  /// Returns the effects of all instances that had not ended, in the order of their steps.
  package func instanceEffects() throws(JournalError) -> [(
    key: InstanceKey, effect: JournalContents.Effect
  )] {
    let now = BootClock.now
    do {
      return try updatedDatabase().select(
        """
        SELECT key, version, feedback, state, time, boot, clock FROM instance_effect
        ORDER BY key, version, feedback
        """
      ) { row in
        let start = BootClock.Instant(time: row.integer(4), clock: row.integer(6))
        return (
          InstanceKey(recorded: row.text(0)),
          JournalContents.Effect(
            origin: EffectOrigin(version: row.unsigned(1), feedback: Int(row.integer(2))),
            state: row.bytes(3),
            elapsed: now.duration(since: start, isSameBoot: row.text(5) == boot))
        )
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}

extension JournalReader {
  /// Returns instances in the order of their keys.
  /// - Parameters:
  ///   - key: Only instances with keys after this one, compared byte by byte.
  ///   - label: Only instances in this state.
  ///   - time: Only instances whose last step was before this time. Unit: nanoseconds since 1970.
  package func instances(
    after key: String? = nil, label: String? = nil, before time: Int64? = nil, limit: Int
  ) throws(JournalError) -> [RecordedInstance] {
    try read {
      var conditions = ["1"]
      var values: [SQLValue] = []
      if let key { (conditions, values) = (conditions + ["key > ?"], values + [.text(key)]) }
      if let label { (conditions, values) = (conditions + ["label = ?"], values + [.text(label)]) }
      if let time { (conditions, values) = (conditions + ["time < ?"], values + [.integer(time)]) }
      values.append(.integer(Int64(limit)))
      return try database.select(
        """
        SELECT \(RecordedInstance.columns) FROM instance
        WHERE \(conditions.joined(separator: " AND ")) ORDER BY key LIMIT ?
        """, values
      ) { RecordedInstance($0) }
    }
  }

  /// Returns the instance with this key; `nil` if there is none.
  package func instance(_ key: String) throws(JournalError) -> RecordedInstance? {
    try read {
      try database.select(
        "SELECT \(RecordedInstance.columns) FROM instance WHERE key = ?", .text(key)
      ) { RecordedInstance($0) }.first
    }
  }
}
