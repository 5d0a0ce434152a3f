import PipeMachines

/// The names of requests for events that the effects of a node have given.
///
/// An effect that is run again gives its events under the same names, and each of them is taken once. What a
/// model announces is never given again, so that another process has other names for it.
package struct EmittedNumbers {
  /// Whose request it is, and its number among those.
  package struct Name: Hashable {
    package let scope: UInt64
    package let number: UInt64

    package init(scope: UInt64, number: UInt64) {
      self.scope = scope
      self.number = number
    }
  }

  /// How many events each effect has given, by its number in the engine.
  private var counts: [UInt64: UInt64] = [:]
  private var announced: UInt64 = 0
  private let process: UInt64

  /// Effects that are remembered before those that have ended are looked for.
  private static let kept = 64

  /// - Parameter process: A random number, of this process alone.
  package init(process: UInt64 = .random(in: 1...UInt64(Int64.max))) { self.process = process }

  /// The name of the next event of an effect.
  /// - Parameters:
  ///   - journal: The id of the node's journal.
  ///   - isRunning: Whether an effect has not ended.
  package mutating func next(
    of effect: UInt64, _ origin: EffectOrigin, _ place: EffectEventPlace, journal: UInt64,
    _ isRunning: (UInt64) -> Bool
  ) -> Name {
    if case .announced = place {
      announced += 1
      // Apart from those of effects: an answer has the number alone.
      return Name(scope: process, number: 1 << 63 | announced)
    }
    if counts.count >= Self.kept { counts = counts.filter { isRunning($0.key) } }
    let count = counts[effect, default: 0]
    counts[effect] = count + 1
    return Name(
      scope: Self.scope(journal, block: count >> 16),
      number: origin.version << 24 | UInt64(origin.feedback & 0xFF) << 16 | count & 0xFFFF)
  }

  /// The name of a journal, for the first 65,536 events of an effect; each block of as many after that has another.
  private static func scope(_ journal: UInt64, block: UInt64) -> UInt64 {
    guard block > 0 else { return journal }
    return max(1, (journal &+ block &* 0x9E37_79B9_7F4A_7C15) >> 1)
  }
}
