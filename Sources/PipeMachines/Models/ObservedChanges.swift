import Observation

/// Calls `willChange` on the main actor before each change of the properties that `read` reads. The
/// calls end when this object is stopped or deallocated.
///
/// `ObservableObject` requires this behaviour. `Observation` alone reports only one change per
/// registration.
@MainActor
package final class ObservedChanges {
  private let read: @MainActor () -> Void
  private let willChange: @MainActor () -> Void
  private var isStopped = false

  /// Starts to observe properties.
  /// - Parameter read: Reads observable properties, which must be changed on the main actor only.
  package init(
    of read: @escaping @MainActor () -> Void, willChange: @escaping @MainActor () -> Void
  ) {
    self.read = read
    self.willChange = willChange
    observe()
  }

  /// Stops the calls.
  package func stop() { isStopped = true }

  private func observe() {
    withObservationTracking {
      read()
    } onChange: { [weak self] in
      MainActor.assumeIsolated {
        guard let self, !self.isStopped else { return }
        // Observes again before the property changes, so that no change is missed.
        self.observe()
        self.willChange()
      }
    }
  }
}
