import PipeSupport
import Synchronization

/// Tells of a machine that waits for an iterator of its states that nobody reads. Once for each run.
final class ReaderWatch: Sendable {
  /// How far the readers have come that have no room, by reader.
  typealias Lag = [ObjectIdentifier: Int]

  /// How long the machine waits without a read before that is told.
  private static let patience = Duration.seconds(1)

  private let begun = Atomic(false)
  private let subject: @Sendable () -> String
  private let clock = EffectClock.current
  private let tell = Warnings.tell

  /// - Parameter subject: Whose states they are.
  init(_ subject: @escaping @Sendable () -> String) { self.subject = subject }

  /// Whether it looks already, or has told all that it has to.
  var hasBegun: Bool { begun.load(ordering: .relaxed) }

  /// The machine waits for readers.
  func begin(_ lag: @escaping @Sendable () -> Lag) {
    guard !begun.exchange(true, ordering: .sequentiallyConsistent) else { return }
    Task { [self] in
      repeat {
        if await findsStandstill(lag) {
          return tell(
            "\(subject()) waits for an iterator of its states that has not been read for "
              + "\(Self.patience.shortText); read it, or let go of it")
        }
        begun.store(false, ordering: .sequentiallyConsistent)
        // The machine may have begun to wait again, and found that this task looks.
      } while !lag().isEmpty && !begun.exchange(true, ordering: .sequentiallyConsistent)
    }
  }

  /// Looks on until no reader keeps the machine waiting, or until one does that reads nothing.
  private func findsStandstill(_ lag: @Sendable () -> Lag) async -> Bool {
    var before = lag()
    while !before.isEmpty {
      guard (try? await clock.sleep(for: Self.patience)) != nil else { return false }
      let now = lag()
      if before.contains(where: { now[$0.key] == $0.value }) { return true }
      before = now
    }
    return false
  }
}

extension ShownStates {
  /// How far the readers have come that have no room.
  var lag: ReaderWatch.Lag {
    Dictionary(
      uniqueKeysWithValues: readers.filter(\.hasNoRoom).map {
        // What it has read, also where it has not told the machine yet.
        (ObjectIdentifier($0), $0.readCount.load(ordering: .relaxed))
      })
  }
}
