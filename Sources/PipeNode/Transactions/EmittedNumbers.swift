import PipeMachines

/// The names of requests for events that the effects of a node have given.
///
/// An effect that is run again gives its events under the same names, and each of them is taken once. What a
/// model announces is never given again, so that another process has other names for it.
struct EmittedNumbers {
  /// Whose request it is, and its number among those.
  struct Name: Hashable {
    let scope: UInt64
    let number: UInt64
  }

  /// How many events each effect has given, by its number in the engine.
  private var counts: [UInt64: UInt64] = [:]
  private var announced: UInt64 = 0
  private let process: UInt64

  /// Effects that are remembered before those that have ended are looked for.
  private static let kept = 64

  /// - Parameter process: A random number, of this process alone.
  init(process: UInt64 = .random(in: 1...UInt64(Int64.max))) { self.process = process }

  /// The name of the next event of an effect.
  /// - Parameters:
  ///   - journal: The id of the node's journal.
  ///   - isRunning: Whether an effect has not ended.
  mutating func next(
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
      scope: journal,
      number: origin.version << 24 | UInt64(origin.feedback & 0xFF) << 16 | count & 0xFFFF)
  }
}
