// For Apple platforms. This file is compiled against stubs of Combine (tools/check-portable), and
// has not been run.
#if canImport(Combine)
  import Combine

  extension StatePublisher {
    /// Returns a Combine publisher of the states: the current state, then each further state, until
    /// the states end.
    ///
    /// A separate task delivers the states, so a subscriber may read the model. If a subscriber's
    /// demand is lower than the number of states, the subscriber receives only the newest states.
    public func eraseToAnyPublisher() -> AnyPublisher<State, Never> {
      Deferred { () -> AnyPublisher<State, Never> in
        // A subject of Combine accepts values from any thread.
        nonisolated(unsafe) let subject = CurrentValueSubject<State?, Never>(nil)
        let task = Task {
          for await state in self { subject.send(state) }
          subject.send(completion: .finished)
        }
        return
          subject
          .compactMap { $0 }
          .handleEvents(receiveCancel: { task.cancel() })
          .eraseToAnyPublisher()
      }
      .eraseToAnyPublisher()
    }
  }
#endif
