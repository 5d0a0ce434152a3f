// For Apple platforms. This file is compiled against stubs of Combine (tools/check-portable), and
// has not been run. ``ObservedChanges`` contains the part that does not need Combine.
#if canImport(Combine)
  import Combine

  extension ViewState: ObservableObject {
    /// A publisher that emits before each change of the state.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  extension ViewBinding: ObservableObject {
    /// A publisher that emits before each change of the state.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  extension Store: ObservableObject {
    /// A publisher that emits before each change of the state.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  extension LoadableViewModel: ObservableObject {
    /// A publisher that emits before each change of the state.
    public nonisolated var objectWillChange: AnyPublisher<Void, Never> {
      changes { [weak self] in _ = self?.state }
    }
  }

  /// Returns a publisher that emits before each change of the properties that `read` reads. Views
  /// subscribe, and cancel, on the main actor.
  private func changes(of read: @escaping @MainActor () -> Void) -> AnyPublisher<Void, Never> {
    Deferred { () -> AnyPublisher<Void, Never> in
      // Made and used on the main actor only.
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
