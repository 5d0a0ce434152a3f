// For Apple's systems. It is compiled against stand-ins of Combine (tools/check-portable), and has not been
// run: what can be done without Combine is in `ObservedChanges`.
#if canImport(Combine)
  import Combine

  extension ViewState: ObservableObject {
    /// Tells before the state changes.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  extension ViewBinding: ObservableObject {
    /// Tells before the state changes.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  extension Store: ObservableObject {
    /// Tells before the state changes.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  extension LoadableViewModel: ObservableObject {
    /// Tells before the state changes.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  /// Tells before each change of what is read. Views subscribe, and cancel, on the main actor.
  private func changes(of read: @escaping @MainActor () -> Void) -> AnyPublisher<Void, Never> {
    Deferred { () -> AnyPublisher<Void, Never> in
      // Sends on the main actor only, where it was made.
      nonisolated(unsafe) let subject = PassthroughSubject<Void, Never>()
      let changes = MainActor.assumeIsolated {
        ObservedChanges(of: read, willChange: { subject.send() })
      }
      return
        subject
        .handleEvents(receiveCancel: { MainActor.assumeIsolated { changes.stop() } })
        .eraseToAnyPublisher()
    }
    .eraseToAnyPublisher()
  }
#endif
