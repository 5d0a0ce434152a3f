import PipeRuntime

package protocol KettleModelProtocol: StateMachineProtocol<KettleState> {
  nonisolated func switchOn()
  nonisolated func switchOff()
}

extension KettleState: StateProtocol {}

/// The kettle as an actor, which keeps its own state and its own task.
package actor KettleModel: KettleModelProtocol {
  private let subject: ConcurrentValueSubject<KettleState>
  private let parameters: KettleParameters
  private let events = AsyncStream.makeStream(of: KettleEvent.self)
  private var boiling: Task<Void, Never>?

  package nonisolated var state: KettleState { subject.state }
  package nonisolated var stateDidChange: StatePublisher<KettleState> {
    subject.eraseToAnyPublisher()
  }

  package init(startsWith state: KettleState, _ parameters: KettleParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    self.parameters = parameters
    Task { [weak self, stream = events.stream] in
      if state == .heating { await self?.heat() }
      for await event in stream { await self?.take(event) }
    }
  }

  deinit {
    boiling?.cancel()
    events.continuation.finish()
  }

  package nonisolated func switchOn() { events.continuation.yield(.switchOn) }
  package nonisolated func switchOff() { events.continuation.yield(.switchOff) }

  package func take(_ event: KettleEvent) {
    switch (subject.state, event) {
    case (.off, .switchOn): heat()
    case (.heating, .boiled): subject.send(.hot)
    case (.heating, .switchOff), (.hot, .switchOff):
      boiling?.cancel()
      subject.send(.off)
    case (.off, _), (.heating, .switchOn), (.hot, _): break
    }
  }

  private func heat() {
    subject.send(.heating)
    boiling = Task { [weak self, parameters] in
      do { try await parameters.boil() } catch { return }
      await self?.finishBoiling()
    }
  }

  /// Ends the boiling, unless the kettle was switched off while this call waited for the actor:
  /// switching off cancels the task.
  private func finishBoiling() { if !Task.isCancelled { take(.boiled) } }
}

extension KettleModel: HostableModel {
  package static func initialState(_ parameters: KettleParameters) -> KettleState { .off }

  package static func event(forChangeTo state: KettleState) -> KettleEvent? {
    state == .hot ? .boiled : nil
  }
}
