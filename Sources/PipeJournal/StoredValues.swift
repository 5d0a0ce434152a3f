import PipeMachines
import PipeWire

/// A state or an event in a journal, with the schema version for which it is encoded.
package struct StoredValue {
  package enum Content {
    case state([UInt8])
    /// The state whose timers are running.
    case timerState([UInt8])
    case event([UInt8])
  }

  package var kind: StoredValueID.Kind
  package var number: UInt64
  package var pipe: String?
  package var key: String?
  package var feedback: Int?
  package var schema: Int
  package var content: Content

  package init(
    _ kind: StoredValueID.Kind, _ number: UInt64, _ content: Content, schema: Int,
    pipe: String? = nil, key: String? = nil, feedback: Int? = nil
  ) {
    self.kind = kind
    self.number = number
    self.content = content
    self.schema = schema
    self.pipe = pipe
    self.key = key
    self.feedback = feedback
  }
}

// The stored values that the next process of a node must be able to read.
extension JournalReader {
  /// Calls `body` with each state and event that the node's machine reads at its next start, or
  /// later.
  package func forEachStoredValue(_ body: (StoredValue) -> Void) throws(JournalError) {
    try readConsistently {
      let isKeyed =
        try JournalCheck.metaValue(JournalSnapshot.instanceFieldKey, in: database) != nil
      if isKeyed { try readInstances(body) } else { try readState(body) }
      try database.prepare("SELECT sequence, event, pipe, schema FROM postponed ORDER BY id")
        .forEachRow { row in
          body(
            StoredValue(
              .postponedEvent, row.unsigned(0), .event(row.bytes(1)), schema: row.schema(3),
              pipe: row.text(2)))
        }
      try database.prepare("SELECT id, event, pipe, sequence, schema FROM dead_letter ORDER BY id")
        .forEachRow { row in
          // Skips effects, because their states are in the table `effect`. Also skips events of an
          // unknown schema version, because the node could not read them when they arrived.
          let pipe = row.text(2)
          guard EffectOrigin(ofDeadLetterFrom: pipe, row.unsigned(3)) == nil,
            row.schema(4) != unknownSchema
          else { return }
          body(
            StoredValue(
              .deadLetter, row.unsigned(0), .event(row.bytes(1)), schema: row.schema(4), pipe: pipe)
          )
        }
    }
  }

  private func readState(_ body: (StoredValue) -> Void) throws {
    let states = RecordedStateReader(database)
    var current: StoredValue?
    try database.prepare(
      "SELECT version, id, base, state, schema FROM record ORDER BY id DESC LIMIT 1"
    ).forEachRow { row in
      current = StoredValue(
        .state, row.unsigned(0), .state(try states.state(of: row, at: 1)), schema: row.schema(4))
    }
    guard let current, case .state(let state) = current.content else { return }
    body(current)
    try database.prepare(
      "SELECT version, feedback, state, schema FROM effect ORDER BY version, feedback"
    ).forEachRow { row in
      let feedback = Int(row.integer(1))
      if feedback == EffectOrigin.timers {
        body(
          StoredValue(.timer, row.unsigned(0), .timerState(state), schema: current.schema))
      } else {
        body(
          StoredValue(
            .effect, row.unsigned(0), .state(row.bytes(2)), schema: row.schema(3),
            feedback: feedback))
      }
    }
    guard let step = try pendingStep() else { return }
    let number = step.transaction.sequence
    body(
      StoredValue(.preparedStep, number, .state(step.move.state), schema: step.schema, feedback: 0))
    guard let event = TransactionBody(step.event)?.event else { return }
    body(StoredValue(.preparedStep, number, .event(event), schema: step.schema))
  }

  private func readInstances(_ body: (StoredValue) -> Void) throws {
    try database.prepare("SELECT key, version, state, schema FROM instance ORDER BY id")
      .forEachRow { row in
        body(
          StoredValue(
            .state, row.unsigned(1), .state(row.bytes(2)), schema: row.schema(3), key: row.text(0)))
      }
    try database.prepare(
      """
      SELECT key, effect.version, feedback, effect.state, effect.schema, instance.state,
        instance.schema
      FROM instance_effect AS effect JOIN instance ON id = instance
      ORDER BY instance, effect.version, feedback
      """
    ).forEachRow { row in
      let feedback = Int(row.integer(2))
      if feedback == EffectOrigin.timers {
        body(
          StoredValue(
            .timer, row.unsigned(1), .timerState(row.bytes(5)), schema: row.schema(6),
            key: row.text(0)))
      } else {
        body(
          StoredValue(
            .effect, row.unsigned(1), .state(row.bytes(3)), schema: row.schema(4), key: row.text(0),
            feedback: feedback))
      }
    }
    for (key, step) in try JournalContents.preparedInstances(of: database) {
      let number = step.transaction.sequence
      body(
        StoredValue(
          .preparedStep, number, .state(step.move.state), schema: step.schema, key: key.text,
          feedback: 0))
      guard let event = TransactionBody(step.event)?.event else { continue }
      body(
        StoredValue(
          .preparedStep, number, .event(event), schema: step.schema, key: key.text))
    }
  }

  /// Calls `body` with each event of an outbound pipe whose number is higher than `applied`.
  /// - Parameter applied: The number of the last event that the receiver has applied.
  package func forEachQueuedEvent(
    of pipe: String, after applied: UInt64, _ body: (StoredValue) -> Void
  ) throws(JournalError) {
    try readConsistently {
      let acknowledged = try database.select(
        "SELECT acknowledged FROM sent WHERE pipe = ?", .text(pipe)
      ) { $0.unsigned(0) }.first
      guard let acknowledged else { return }
      try database.prepare(
        "SELECT last, count, events, schema FROM outbox WHERE pipe = ? AND last > ? ORDER BY last"
      ).forEachRow(.text(pipe), .integer(max(acknowledged, applied))) { row in
        var number = row.unsigned(0) - row.unsigned(1)
        for event in row.bytes(2).split(separator: 0x0A, omittingEmptySubsequences: false) {
          number += 1
          guard number > max(acknowledged, applied) else { continue }
          body(
            StoredValue(
              .queuedEvent, number, .event(Array(event)), schema: row.schema(3), pipe: pipe))
        }
      }
    }
  }

  /// The id of the journal, which identifies the numbering of the events that the node sends.
  package var stream: UInt64 {
    get throws(JournalError) {
      try readConsistently { try JournalCheck.streamID(of: database, path, node: node) }
    }
  }
}
