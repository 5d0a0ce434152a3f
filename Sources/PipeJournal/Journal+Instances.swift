import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

extension RecordedInstance {
  static let columns = "id, key, version, time, cause, label, state, ended"

  /// Reads the values of an operation; `nil` if they do not describe an instance.
  init?(_ values: [EncodedOperation.Value]) {
    guard values.count == 8, case .integer(let id) = values[0], case .text(let key) = values[1],
      case .integer(let version) = values[2], case .integer(let time) = values[3],
      case .text(let cause) = values[4], case .text(let label) = values[5],
      case .text(let state) = values[6]
    else { return nil }
    self.init(
      id: id, key: InstanceKey(recorded: String(decoding: key, as: UTF8.self)),
      version: UInt64(bitPattern: version), time: time,
      cause: String(decoding: cause, as: UTF8.self), label: String(decoding: label, as: UTF8.self),
      state: Array(state), ended: values[7].integer)
  }

  init(_ row: Row) {
    self.init(
      id: row.integer(0), key: InstanceKey(recorded: row.text(1)), version: row.unsigned(2),
      time: row.integer(3), cause: row.text(4), label: row.text(5), state: row.bytes(6),
      ended: row.isNull(7) ? nil : row.integer(7))
  }
}

extension Journal {
  /// Memory for the pages of many instances, and fewer copies of pages that change again and again.
  private static let instanceSettings = """
    PRAGMA cache_size = -65536;
    PRAGMA wal_autocheckpoint = 16000;
    PRAGMA journal_size_limit = 65536000;
    """

  /// The number of the last record, and of the last record that the database has.
  package var recordNumbers: (last: UInt64, written: UInt64) { (log.last, log.written) }

  /// Records the state of an instance after its last step of a burst.
  package func instanceChanged(_ instance: RecordedInstance) throws {
    run(
      .instanceChanged, .integer(instance.id), .text(instance.key.text),
      .integer(instance.version), .integer(instance.time), .text(instance.cause),
      .text(instance.label), .text(instance.state),
      instance.ended.map { .integer($0) } ?? .null)
  }

  /// Deletes an instance that has ended.
  package func instanceRemoved(_ id: Int64, _ key: InstanceKey) throws {
    run(.instanceRemoved, .integer(id), .text(key.text))
  }

  /// Returns the highest number of an instance; 0 if there is none.
  package func lastInstance() throws(JournalError) -> Int64 {
    do {
      return try JournalCheck.number("SELECT coalesce(max(id), 0) FROM instance", in: database)
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Returns instances that the database has and that ended before a time, oldest first.
  package func instances(
    endedBefore time: Int64, limit: Int
  ) throws(JournalError) -> [(id: Int64, key: InstanceKey, label: String)] {
    do {
      return try database.select(
        "SELECT id, key, label FROM instance WHERE ended < ? ORDER BY ended LIMIT ?",
        .integer(time), .integer(Int64(limit))
      ) { ($0.integer(0), InstanceKey(recorded: $0.text(1)), $0.text(2)) }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Stores the field that is the key of the instances; `nil` for a node with one machine.
  /// - Throws: ``JournalError`` if the journal belongs to a node of the other kind, or with another
  ///   key.
  package func keep(instanceField: String?) throws(JournalError) {
    do {
      hasInstances = instanceField != nil
      if hasInstances { try database.execute(Self.instanceSettings) }
      let recorded = try JournalCheck.meta(JournalSnapshot.instanceFieldKey, in: database)
      guard recorded != instanceField else { return }
      guard contents == nil else {
        throw JournalError.other(
          path: path, node: identity.node, attribute: "a node with the key",
          found: recorded ?? "none", expected: instanceField ?? "none")
      }
      try database.prepare("DELETE FROM meta WHERE key = ?")
        .run(.text(JournalSnapshot.instanceFieldKey))
      if let instanceField {
        try database.prepare("REPLACE INTO meta VALUES (?, ?)")
          .run(.text(JournalSnapshot.instanceFieldKey), .text(instanceField))
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  package func instanceEffectStarted(
    _ origin: EffectOrigin, state: [UInt8], progress: BootClock.Instant
  ) throws {
    run(
      .instanceEffectStarted, .integer(origin.instance), .integer(origin.version),
      .integer(Int64(origin.feedback)), .text(state), .integer(progress.time), .text(boot),
      .integer(progress.clock))
  }

  package func instanceEffectEnded(_ origin: EffectOrigin) throws {
    run(
      .instanceEffectEnded, .integer(origin.instance), .integer(origin.version),
      .integer(Int64(origin.feedback)))
  }

  /// Whether the journal lists an effect of an instance as running.
  package func hasInstanceEffect(_ origin: EffectOrigin) throws(JournalError) -> Bool {
    do {
      return try !updatedDatabase().select(
        "SELECT 1 FROM instance_effect WHERE instance = ? AND version = ? AND feedback = ?",
        .integer(origin.instance), .integer(origin.version), .integer(Int64(origin.feedback))
      ) { $0.integer(0) }.isEmpty
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Returns the effects of all instances that had not ended, in the order of their steps.
  package func instanceEffects() throws(JournalError) -> [(
    key: InstanceKey, effect: JournalContents.Effect
  )] {
    let now = BootClock.now
    do {
      return try updatedDatabase().select(
        """
        SELECT instance, instance_effect.version, feedback, instance_effect.state,
          instance_effect.time, boot, clock, key
        FROM instance_effect JOIN instance ON id = instance
        ORDER BY instance, instance_effect.version, feedback
        """
      ) { row in
        let start = BootClock.Instant(time: row.integer(4), clock: row.integer(6))
        return (
          InstanceKey(recorded: row.text(7)),
          JournalContents.Effect(
            origin: EffectOrigin(
              version: row.unsigned(1), feedback: Int(row.integer(2)), instance: row.integer(0)),
            state: row.bytes(3),
            elapsed: now.duration(since: start, isSameBoot: row.text(5) == boot))
        )
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}
