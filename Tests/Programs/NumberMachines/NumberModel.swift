import PipeRuntime

extension NumberMember.State: StateProtocol {}

/// A ``NumberMember`` that is written as an actor. The function that evaluates a meeting needs
/// time, and sometimes more time than allowed.
///
/// The actor also counts its meetings outside of its state. A difference between the two counts
/// means that the actor evaluated a meeting that was not committed, and was not created again
/// afterwards. The actor then adds a meeting to its state that no caller has requested, so that the
/// soak reports a violation.
package actor NumberModel: HostableModel {
  package typealias State = NumberMember.State
  package typealias Event = NumberMember.Event
  package typealias Parameters = NumberMember.Parameters

  /// The error with which the actor refuses an event.
  package struct Declined: Error, CustomStringConvertible {
    package let description: String
  }

  private let subject: ConcurrentValueSubject<State>
  private let machine: StateMachine<State, Event, NumberMember.Output>
  private var met: Int

  private static let limit: Duration = .milliseconds(300)

  package init(startsWith state: State, _ parameters: Parameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    machine = NumberMember.stateMachine(parameters)
    met = state.record.met.count
  }

  package static func initialState(_ parameters: Parameters) -> State {
    .free(record: NumberMember.Record())
  }

  package static var selfContained: SelfContainedEvents<Event> {
    .events(OneOf { Event.meet(by:n:) }, within: limit)
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    LifetimeRecorder.begin(parameters.id)
    return Runtime()
      .feedback(
        Feedback(lensing: { (state: State) -> Int? in
          if case .resting(let record) = state { record.met.count } else { nil }
        }) { count in
          try? await Task.sleep(for: .microseconds(parameters.rest))
          return Event.rested(count: count)
        }
      )
      .connectAsSender(
        to: ports.pipe("out"),
        when: OneOf {
          State.met(record:)
          State.resting(record:)
        },
        send: { state in NumberEvent.number(route: parameters.id, n: state.record.met.count) })
  }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package func take(_ event: Event) async throws {
    switch machine.reduce(subject.state, event) {
    case .next(let next):
      guard case .meet(let by, let n) = event else { return subject.send(next) }
      met += 1
      await linger(by, n)
      subject.send(met == next.record.met.count ? next : .free(record: torn(next.record)))
    case .refused(let refusal): throw Declined(description: refusal.code)
    case .stays, .ignored, .suspended: break
    }
  }

  /// Waits for a short time. For some numbers, waits for longer than allowed, unless the caller is
  /// a bell.
  private func linger(_ by: String, _ n: Int) async {
    for _ in 0..<n % 3 { await Task.yield() }
    guard n % 50 == 17, !by.hasPrefix(NumberMember.bell) else { return }
    try? await Task.sleep(for: Self.limit * 2)
  }

  private func torn(_ record: NumberMember.Record) -> NumberMember.Record {
    var record = record
    record.met.append("torn:\(met)")
    return record
  }
}
