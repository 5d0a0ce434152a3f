// Showing.
extension CompositeRun {
  /// Keeps the state of a component that moves with others; ``publish()`` follows.
  func keep(_ state: some MachineState, at place: Int) {
    states.components[place] = ComponentState(state, isCompared: false)
  }

  /// Shows that one component has entered a state.
  func show(_ state: some MachineState, at place: Int) {
    keep(state, at: place)
    // The initial states are entered one after the other, and are there from the beginning.
    if hosts[place].version > 0 { publish() }
  }

  func publish() {
    let states = states
    let (_, isAwaited, isFull) = shown.withLock { $0.enter(states) }
    if isFull { mayHaveToWait = true }
    if isAwaited {
      let waiting = shown.withLock { shown in
        shown.readers.filter { $0.isWaiting.load(ordering: .relaxed) }
      }
      for reader in waiting { reader.wake() }
    }
  }

  /// Whether some reader lags as far behind as it may. If so, it will say when it has room.
  var mustWait: Bool {
    guard mayHaveToWait else { return false }
    mayHaveToWait = shown.withLock { shown in shown.readers.count { $0.isFull } > 0 }
    if mayHaveToWait, !watch.hasBegun { watch.begin { [self] in shown.withLock(\.lag) } }
    return mayHaveToWait
  }

  private func wakeAll() {
    post(inTask: true) { [self] in
      touched = Set(hosts.indices)
      hasStepped = true
    }
  }

  func addReader() -> StateReaderHandle<ProductState> {
    let reader = shown.withLock { shown in
      shown.makeReader(
        isLate: false, madeRoom: { [self] in wakeAll() },
        ended: { [self] reader in
          self.shown.withLock { $0.remove(reader) }
          wakeAll()
        })
    }
    return StateReaderHandle(reader)
  }

  /// The next state for a reader; `nil` at the end or on cancellation.
  nonisolated(nonsending)
    func nextState(_ reader: StateReader<ProductState>) async -> ProductState?
  {
    if let state = reader.readNow() { return state }
    return await withTaskCancellationHandler {
      await reader.readLater()
    } onCancel: {
      reader.end()
    }
  }

  func finish() {
    post { [self] in
      guard !isFinished else { return }
      isFinished = true
      for host in hosts { host.stop() }
      for request in requests {
        for task in request.evaluation?.tasks ?? [] { task.cancel() }
        request.answer(.unavailable(name))
      }
      requests = []
      hosts = []
      for reader in shown.withLock({ $0.stop() }) { reader.finish() }
    }
  }
}
