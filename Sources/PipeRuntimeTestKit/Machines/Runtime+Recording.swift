import PipeRuntime

extension Runtime {
  /// The same runtime, whose machine also tells a collector of every transition it takes.
  ///
  /// For one run: give each sequence a runtime of its own.
  public func recording(into coverage: TransitionCoverage<State, Event, Output>) -> Self {
    // In each step the event is seen first, and then the state that it leads to, if any.
    let last = Locked<(state: State?, event: Event?)>((nil, nil))
    return register(middleware: { (event: Event) in
      let state = last.withLock { last in
        last.event = event
        return last.state
      }
      if let state { coverage.given(event, in: state) }
    })
    .register(middleware: { (state: State) in
      let before = last.withLock { last in
        defer { last = (state, nil) }
        return last
      }
      if let state = before.state, let event = before.event { coverage.taken(event, in: state) }
    })
  }
}
