import PipeMachines

/// The attempt counters of events and effects: the number of consecutive times that an event or
/// effect has ended the process.
extension Journal {
  /// Records that the process ended during the step of an event.
  /// - Returns: The number of consecutive times that this event has ended the process.
  package func countAttempt(of step: StepMarkerFile.Step) throws(JournalError) -> Int {
    try countAttempt(
      step, "DELETE FROM attempt WHERE source NOT GLOB '\(EffectOrigin.attemptPrefix)*'")
  }

  /// Records that an effect ended the process. Each running effect has its own counter.
  /// - Returns: The number of consecutive times that this effect has ended the process.
  package func countAttempt(of effect: EffectOrigin) throws(JournalError) -> Int {
    try countAttempt(
      effect.attemptStep,
      """
      DELETE FROM attempt WHERE source GLOB '\(EffectOrigin.attemptPrefix)*' AND NOT EXISTS (
        SELECT 1 FROM effect
        WHERE version = sequence AND '\(EffectOrigin.attemptPrefix)' || feedback = source
        UNION ALL SELECT 1 FROM instance_effect
        WHERE version = sequence AND '\(EffectOrigin.attemptPrefix)' || feedback ||
          '\(EffectOrigin.instanceSeparator)' || instance = source)
      """)
  }

  /// Resets the counter of an effect that has made progress.
  package func resetAttempts(of effect: EffectOrigin) throws(JournalError) {
    try changeDatabase { try self.removeAttempts(effect.attemptStep) }
  }

  /// Increments the counter of an event or effect, and returns the new count.
  /// - Parameter obsolete: An SQL statement that deletes the counters of events and effects that
  ///   have since succeeded or ended.
  private func countAttempt(_ step: StepMarkerFile.Step, _ obsolete: String) throws(JournalError)
    -> Int
  {
    var count = 1
    try changeDatabase {
      let query = try self.database.prepare(
        "SELECT count FROM attempt WHERE source = ? AND sequence = ?")
      try query.forEachRow(.text(step.source), .integer(step.sequence)) { row in
        count = Int(row.integer(0)) + 1
      }
      try self.database.execute(obsolete)
      try self.removeAttempts(step)
      try self.database.prepare("INSERT INTO attempt VALUES (?, ?, ?)").run(
        .text(step.source), .integer(step.sequence), .integer(Int64(count)))
    }
    return count
  }

  private func removeAttempts(_ step: StepMarkerFile.Step) throws {
    try database.prepare("DELETE FROM attempt WHERE source = ? AND sequence = ?").run(
      .text(step.source), .integer(step.sequence))
  }

  /// Returns the effects that are dead letters.
  package func deadLetteredEffects() throws(JournalError) -> Set<EffectOrigin> {
    guard let contents, contents.deadLetterCount > 0, !contents.effects.isEmpty || hasInstances
    else { return [] }
    do {
      let deadLetters = try updatedDatabase().select(
        """
        SELECT pipe, sequence FROM dead_letter
        WHERE pipe GLOB 'effect *' OR pipe GLOB 'feedback *' OR pipe GLOB 'timer *'
        """
      ) { EffectOrigin(ofDeadLetterFrom: $0.text(0), UInt64(bitPattern: $0.integer(1))) }
      return Set(deadLetters.compactMap(\.self))
    } catch {
      throw JournalError(error, path: path, node: identity.node)
    }
  }
}

extension EffectOrigin {
  /// The prefix of the names of effects in the table `attempt`. Names of pipes contain no spaces,
  /// so the prefix distinguishes effects from pipes.
  fileprivate static var attemptPrefix: String { "effect " }

  /// In the name of an instance's effect, the text before the number of the instance.
  fileprivate static var instanceSeparator: String { " of instance " }

  private var instanceSuffix: String {
    instance == 0 ? "" : Self.instanceSeparator + String(instance)
  }

  fileprivate var attemptStep: StepMarkerFile.Step {
    StepMarkerFile.Step(
      source: Self.attemptPrefix + String(feedback) + instanceSuffix, sequence: version)
  }

  /// Returns the value of a dead letter's column `pipe` if the dead letter is an effect. For a dead
  /// letter that is an event, the column contains the name of a pipe.
  /// - Parameter name: The name of the effect or, for timers, of the state with the timers.
  package func deadLetterSource(named name: String) -> String {
    let source =
      switch feedback {
      case Self.timers: "timer \(name)"
      case 0: "effect \(name)"
      default: "feedback \(feedback)"
      }
    return source + instanceSuffix
  }

  /// Creates the origin of the effect that is stored as a dead letter. Returns `nil` if the dead
  /// letter is an event.
  /// - Parameter source: The value of the dead letter's column `pipe`. See
  ///   ``deadLetterSource(named:)``.
  package init?(ofDeadLetterFrom source: String, _ sequence: UInt64) {
    let words = source.split(separator: " ", omittingEmptySubsequences: false)
    let suffix = Self.instanceSeparator.split(separator: " ")
    let instance =
      words.count == 5 && words[2...3].elementsEqual(suffix) ? Int64(words[4]) ?? 0 : 0
    switch words.first {
    case "effect" where words.count > 1: self.init(version: sequence, instance: instance)
    case "timer" where words.count > 1:
      self.init(version: sequence, feedback: Self.timers, instance: instance)
    case "feedback" where words.count > 1:
      guard let feedback = Int(words[1]) else { return nil }
      self.init(version: sequence, feedback: feedback, instance: instance)
    default: return nil
    }
  }
}
