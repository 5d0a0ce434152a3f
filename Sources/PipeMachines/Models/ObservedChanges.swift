import Observation

/// Calls a function before each change of what another one reads, on the main actor, until it is stopped or
/// let go of.
///
/// It is what `ObservableObject` asks for, made of `Observation`, which tells of one change only.
@MainActor
package final class ObservedChanges {
  private let read: @MainActor () -> Void
  private let willChange: @MainActor () -> Void
  private var isStopped = false

  /// - Parameter read: Reads observable properties, which are changed on the main actor only.
  package init(
    of read: @escaping @MainActor () -> Void, willChange: @escaping @MainActor () -> Void
  ) {
    self.read = read
    self.willChange = willChange
    observe()
  }

  /// Ends the calls.
  package func stop() { isStopped = true }

  private func observe() {
    withObservationTracking {
      read()
    } onChange: { [weak self] in
      MainActor.assumeIsolated {
        guard let self, !self.isStopped else { return }
        // Observed again before the change is made, so that none is missed.
        self.observe()
        self.willChange()
      }
    }
  }
}
