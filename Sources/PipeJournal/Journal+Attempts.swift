import PipeMachines

/// The numbers of consecutive process ends that an event or an effect has caused.
extension Journal {
  /// Counts an end of the process in the step of this event. Returns the number of such ends in a
  /// row, this one included.
  package func countAttempt(of step: StepMarkerFile.Step) throws(JournalError) -> Int {
    try count(step, "DELETE FROM attempt WHERE source NOT GLOB '\(EffectOrigin.attemptPrefix)*'")
  }

  /// Counts an end of the process in this effect. Returns the number of such ends in a row, this
  /// one included. If several effects alternate, each has its own count.
  package func countAttempt(of effect: EffectOrigin) throws(JournalError) -> Int {
    try count(
      effect.attempt,
      """
      DELETE FROM attempt WHERE source GLOB '\(EffectOrigin.attemptPrefix)*' AND NOT EXISTS (
        SELECT 1 FROM effect
        WHERE version = sequence AND '\(EffectOrigin.attemptPrefix)' || feedback = source
        UNION ALL SELECT 1 FROM instance_effect
        WHERE version = sequence AND '\(EffectOrigin.attemptPrefix)' || feedback ||
          '\(EffectOrigin.instanceSeparator)' || instance = source)
      """)
  }

  /// Resets the count of an effect that has made progress.
  package func resetAttempts(of effect: EffectOrigin) throws(JournalError) {
    try change { try self.remove(effect.attempt) }
  }

  /// - Parameter obsolete: The statement that deletes counts which are not in a row with this one.
  private func count(_ step: StepMarkerFile.Step, _ obsolete: String) throws(JournalError) -> Int {
    var count = 1
    try change {
      let query = try self.database.prepare(
        "SELECT count FROM attempt WHERE source = ? AND sequence = ?")
      try query.rows(.text(step.source), .integer(step.sequence)) { row in
        count = Int(row.integer(0)) + 1
      }
      try self.database.execute(obsolete)
      try self.remove(step)
      try self.database.prepare("INSERT INTO attempt VALUES (?, ?, ?)").run(
        .text(step.source), .integer(step.sequence), .integer(Int64(count)))
    }
    return count
  }

  private func remove(_ step: StepMarkerFile.Step) throws {
    try database.prepare("DELETE FROM attempt WHERE source = ? AND sequence = ?").run(
      .text(step.source), .integer(step.sequence))
  }

  /// Returns the effects that are dead letters.
  package func deadLetteredEffects() throws(JournalError) -> Set<EffectOrigin> {
    guard let contents, contents.deadLetterCount > 0, !contents.effects.isEmpty || hasInstances
    else { return [] }
    do {
      let deadLetters = try updatedDatabase().select(
        "SELECT pipe, sequence FROM dead_letter WHERE pipe GLOB 'effect *' OR pipe GLOB 'feedback *'"
      ) { EffectOrigin(ofDeadLetterFrom: $0.text(0), UInt64(bitPattern: $0.integer(1))) }
      return Set(deadLetters.compactMap(\.self))
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}

extension EffectOrigin {
  /// Distinct from names of pipes, which have no spaces.
  fileprivate static var attemptPrefix: String { "effect " }

  /// Separates the number of an instance.
  fileprivate static var instanceSeparator: String { " of instance " }

  private var instanceSuffix: String {
    instance == 0 ? "" : Self.instanceSeparator + String(instance)
  }

  fileprivate var attempt: StepMarkerFile.Step {
    StepMarkerFile.Step(
      source: Self.attemptPrefix + String(feedback) + instanceSuffix, sequence: version)
  }

  /// Returns the text that replaces the pipe's name in the dead letter of an effect.
  /// - Parameter name: The name of the effect.
  package func deadLetterSource(named name: String) -> String {
    (feedback == 0 ? "effect \(name)" : "feedback \(feedback)") + instanceSuffix
  }

  /// Finds the effect of a dead letter; `nil` for the dead letter of an event.
  package init?(ofDeadLetterFrom source: String, _ sequence: UInt64) {
    let words = source.split(separator: " ", omittingEmptySubsequences: false)
    let suffix = Self.instanceSeparator.split(separator: " ")
    let instance =
      words.count == 5 && words[2...3].elementsEqual(suffix) ? Int64(words[4]) ?? 0 : 0
    switch words.first {
    case "effect" where words.count > 1: self.init(version: sequence, instance: instance)
    case "feedback" where words.count > 1:
      guard let feedback = Int(words[1]) else { return nil }
      self.init(version: sequence, feedback: feedback, instance: instance)
    default: return nil
    }
  }
}
