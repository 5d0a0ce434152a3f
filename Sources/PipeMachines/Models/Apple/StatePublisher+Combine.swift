// For Apple's systems. It is compiled against stand-ins of Combine (tools/check-portable), and has not been
// run.
#if canImport(Combine)
  import Combine

  extension StatePublisher {
    /// The states for Combine: the current one, then each that comes, until the states end.
    ///
    /// They are read by a task, so that a subscriber may read the model. Where it asks for fewer than come,
    /// it gets the newest.
    public func eraseToAnyPublisher() -> AnyPublisher<State, Never> {
      Deferred { () -> AnyPublisher<State, Never> in
        // A subject of Combine may be sent to from any thread.
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
