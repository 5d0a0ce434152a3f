import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

extension RecordedInstance {
  static let instanceColumns = "id, key, version, time, cause, label, state, ended, schema"

  /// Creates an instance from the values of an `instanceChanged` operation. Returns `nil` if a
  /// value is missing or has the wrong type.
  init?(_ values: [EncodedOperation.Value]) {
    guard 8...9 ~= values.count, case .integer(let id) = values[0], case .text(let key) = values[1],
      case .integer(let version) = values[2], case .integer(let time) = values[3],
      case .text(let cause) = values[4], case .text(let label) = values[5],
      case .text(let state) = values[6]
    else { return nil }
    self.init(
      id: id, key: InstanceKey(recorded: String(decoding: key, as: UTF8.self)),
      version: UInt64(bitPattern: version), time: time,
      cause: String(decoding: cause, as: UTF8.self), label: String(decoding: label, as: UTF8.self),
      state: Array(state), ended: values[7].integer,
      schema: values.count < 9 ? 1 : values[8].integer.map { Int($0) } ?? 1)
  }

  init(_ row: Row) {
    self.init(
      id: row.integer(0), key: InstanceKey(recorded: row.text(1)), version: row.unsigned(2),
      time: row.integer(3), cause: row.text(4), label: row.text(5), state: row.bytes(6),
      ended: row.isNull(7) ? nil : row.integer(7),
      schema: row.schema(8))
  }
}

extension Journal {
  /// Settings for many instances: a large page cache, and rare checkpoints, so that a page that
  /// changes often is rarely copied.
  private static let instanceSettings = """
    PRAGMA cache_size = -65536;
    PRAGMA wal_autocheckpoint = 16000;
    PRAGMA journal_size_limit = 65536000;
    """

  /// The number of the last record, and the number of the last record in the database.
  package var recordNumbers: (last: UInt64, written: UInt64) {
    (log.lastNumber, log.lastWrittenNumber)
  }

  /// Records the state of an instance after its last step in a batch.
  package func recordInstance(_ instance: RecordedInstance) throws {
    run(
      .instanceChanged, .integer(instance.id), .text(instance.key.text),
      .integer(instance.version), .integer(instance.time), .text(instance.cause),
      .text(instance.label), .text(instance.state),
      instance.ended.map { .integer($0) } ?? .null, .schema(schema))
  }

  /// Deletes an instance that has ended.
  package func removeInstance(_ id: Int64, _ key: InstanceKey) throws {
    run(.instanceRemoved, .integer(id), .text(key.text))
  }

  /// Returns the highest number of an instance; 0 if there are no instances.
  package func lastInstanceID() throws(JournalError) -> Int64 {
    do {
      return try JournalCheck.selectNumber(
        "SELECT coalesce(max(id), 0) FROM instance", in: database)
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Returns instances that ended before `time`, oldest first. Ignores records that are only in the
  /// log.
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

  /// Stores the name of the event field whose value selects the instance; `nil` for a node without
  /// instances.
  /// - Throws: ``JournalError`` if the journal contains a state that was recorded with another
  ///   field.
  package func store(instanceField: String?) throws(JournalError) {
    do {
      hasInstances = instanceField != nil
      if hasInstances { try database.execute(Self.instanceSettings) }
      let recorded = try JournalCheck.metaValue(JournalSnapshot.instanceFieldKey, in: database)
      guard recorded != instanceField else { return }
      guard contents == nil else {
        throw JournalError.mismatch(
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

  /// Stores which shard of its node the journal belongs to; `nil` for a node that is not divided
  /// into shards.
  /// - Throws: ``JournalError`` if the journal contains a state that was recorded for another
  ///   shard, or if a move of instances between shards is not complete.
  package func store(shard: NodeShard?) throws(JournalError) {
    do {
      if let move = try ShardMove.incompleteMoveMarkers(database).first {
        throw JournalError.inaccessible(
          path: path, node: identity.node,
          reason: "a move of instances to \(move.count) shard\(move.count == 1 ? "" : "s") is not "
            + "complete; 'orchestrator up' with a file with this number of shards completes the move"
        )
      }
      let wanted = shard.map { "\($0.index)/\($0.count)" }
      let recorded = try JournalCheck.metaValue(JournalSnapshot.shardKey, in: database)
      guard recorded != wanted else { return }
      guard contents == nil else {
        throw JournalError.mismatch(
          path: path, node: identity.node, attribute: "shard", found: recorded ?? "0/1",
          expected: wanted ?? "0/1")
      }
      try database.prepare("DELETE FROM meta WHERE key = ?").run(.text(JournalSnapshot.shardKey))
      if let wanted {
        try database.prepare("REPLACE INTO meta VALUES (?, ?)")
          .run(.text(JournalSnapshot.shardKey), .text(wanted))
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  package func recordInstanceEffectStart(
    _ origin: EffectOrigin, state: [UInt8], progress: BootClock.Instant
  ) throws {
    run(
      .instanceEffectStarted, .integer(origin.instance), .integer(origin.version),
      .integer(Int64(origin.feedback)), .text(state), .integer(progress.timeOfDay), .text(boot),
      .integer(progress.timeSinceBoot), .schema(schema))
  }

  package func recordInstanceEffectEnd(_ origin: EffectOrigin) throws {
    run(
      .instanceEffectEnded, .integer(origin.instance), .integer(origin.version),
      .integer(Int64(origin.feedback)))
  }

  /// Whether the journal lists the instance's effect with this origin as running.
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

  /// Calls `body` with each instance that has running timers, and with these timers.
  package func forEachInstanceTimer(
    _ body: (InstanceKey, JournalContents.Effect) throws -> Void
  ) throws(JournalError) {
    let now = BootClock.now
    do {
      try updatedDatabase().prepare(
        """
        SELECT instance, instance_effect.version, instance_effect.state, instance_effect.time, boot,
          clock, key
        FROM instance_effect JOIN instance ON id = instance WHERE feedback = -1
        """
      ).forEachRow { row in
        let start = BootClock.Instant(timeOfDay: row.integer(3), timeSinceBoot: row.integer(5))
        try body(
          InstanceKey(recorded: row.text(6)),
          JournalContents.Effect(
            origin: EffectOrigin(
              version: row.unsigned(1), feedback: EffectOrigin.timers, instance: row.integer(0)),
            state: row.bytes(2),
            elapsedTime: now.duration(since: start, isSameBoot: row.text(4) == boot),
            readInstant: now))
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }

  /// Returns the unfinished effects of all instances, without timers, sorted by instance and
  /// version.
  /// - Returns: The key of the effect's instance, the effect, and `stream`. If the effect began in
  ///   the journal of another shard, `stream` is the stream id of that journal; otherwise `nil`.
  package func instanceEffects() throws(JournalError) -> [(
    key: InstanceKey, effect: JournalContents.Effect, stream: UInt64?
  )] {
    let now = BootClock.now
    do {
      return try updatedDatabase().select(
        """
        SELECT instance, instance_effect.version, feedback, instance_effect.state,
          instance_effect.time, boot, clock, key, stream, instance_effect.schema
        FROM instance_effect JOIN instance ON id = instance WHERE feedback >= 0
        ORDER BY instance, instance_effect.version, feedback
        """
      ) { row in
        let start = BootClock.Instant(timeOfDay: row.integer(4), timeSinceBoot: row.integer(6))
        return (
          InstanceKey(recorded: row.text(7)),
          JournalContents.Effect(
            origin: EffectOrigin(
              version: row.unsigned(1), feedback: Int(row.integer(2)), instance: row.integer(0)),
            state: row.bytes(3),
            elapsedTime: now.duration(since: start, isSameBoot: row.text(5) == boot),
            readInstant: now,
            schema: row.schema(9)),
          row.isNull(8) ? nil : row.unsigned(8)
        )
      }
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}
