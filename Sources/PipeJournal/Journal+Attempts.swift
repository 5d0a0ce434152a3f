import PipeMachines

/// How often in a row events and effects have ended the process.
extension Journal {
  /// The same of the step of an event, this time included.
  package func attempts(of step: StepMark.Step) throws(JournalError) -> Int {
    try count(step, "DELETE FROM attempt WHERE source NOT GLOB '\(EffectOrigin.attemptPrefix)*'")
  }

  /// The same of an effect. Where several do it by turns, each has its own count.
  package func attempts(of effect: EffectOrigin) throws(JournalError) -> Int {
    try count(
      effect.attempt,
      """
      DELETE FROM attempt WHERE source GLOB '\(EffectOrigin.attemptPrefix)*' AND NOT EXISTS (
        SELECT 1 FROM effect
        WHERE version = sequence AND '\(EffectOrigin.attemptPrefix)' || feedback = source)
      """)
  }

  /// The effect has got on: what it did before counts no more.
  package func forgetAttempts(of effect: EffectOrigin) throws(JournalError) {
    try change { try self.remove(effect.attempt) }
  }

  /// - Parameter obsolete: Deletes what is not in a row with it.
  private func count(_ step: StepMark.Step, _ obsolete: String) throws(JournalError) -> Int {
    var count = 1
    try change {
      let known = try self.database.prepare(
        "SELECT count FROM attempt WHERE source = ? AND sequence = ?")
      try known.rows(.text(step.source), .integer(step.sequence)) { row in
        count = Int(row.integer(0)) + 1
      }
      try self.database.execute(obsolete)
      try self.remove(step)
      try self.database.prepare("INSERT INTO attempt VALUES (?, ?, ?)").run(
        .text(step.source), .integer(step.sequence), .integer(Int64(count)))
    }
    return count
  }

  private func remove(_ step: StepMark.Step) throws {
    try database.prepare("DELETE FROM attempt WHERE source = ? AND sequence = ?").run(
      .text(step.source), .integer(step.sequence))
  }

  /// The effects that are dead letters.
  package func parkedEffects() throws(JournalError) -> Set<EffectOrigin> {
    guard let contents, !contents.effects.isEmpty, contents.deadLetterCount > 0 else { return [] }
    do {
      let letters = try upToDate().select(
        "SELECT pipe, sequence FROM letter WHERE pipe GLOB 'effect *' OR pipe GLOB 'feedback *'"
      ) { EffectOrigin(ofLetterFrom: $0.text(0), UInt64(bitPattern: $0.integer(1))) }
      return Set(letters.compactMap(\.self))
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}

extension EffectOrigin {
  /// A pipe has no space in its name.
  fileprivate static var attemptPrefix: String { "effect " }

  fileprivate var attempt: StepMark.Step {
    StepMark.Step(source: Self.attemptPrefix + String(feedback), sequence: version)
  }

  /// What stands for the pipe in the dead letter of an effect.
  /// - Parameter name: The effect's.
  package func letterSource(named name: String) -> String {
    feedback == 0 ? "effect \(name)" : "feedback \(feedback)"
  }

  /// The effect of a dead letter; `nil` of any other letter.
  package init?(ofLetterFrom source: String, _ sequence: UInt64) {
    if source.hasPrefix("effect ") {
      self.init(version: sequence)
    } else if source.hasPrefix("feedback "), let place = Int(source.dropFirst(9)) {
      self.init(version: sequence, feedback: place)
    } else {
      return nil
    }
  }
}
