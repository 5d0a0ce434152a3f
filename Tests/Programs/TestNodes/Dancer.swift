import Glibc
import PipeRuntime
import Synchronization

/// A model that synchronizes an event, the dance, with another model. It logs each evaluation.
package actor Dancer: HostableModel {
  package enum State: MachineState, StateProtocol, Hashable {
    /// The dancer is at rest. The values are the number of dances, and a random number from the
    /// last dance.
    case sitting(danced: Int, number: Int)
    case dancing

    package var isStable: Bool { self != .dancing }
  }

  package enum Event: MachineEvent, Hashable {
    /// A dance, with the behavior of each dancer.
    case dance(left: Manner, right: Manner)
    /// An event that the left dancer never finishes, even if its task is cancelled.
    case freeze
    /// An event that both dancers process for hours, unless the task is cancelled. A second such
    /// event is refused.
    case ponder
    /// Copies the dancer's counter into its state.
    case look
  }

  package enum Manner: String, Codable, Hashable, Sendable {
    case gladly
    case refusing
    case trapping
    /// The dancer counts the dance, but does not change its state.
    case hidden
  }

  package struct Parameters: MachineParameters {
    /// Whether the dancer is the left dancer of the pair.
    package var isLeft = true
    package init() {}
  }

  package struct Refused: Error, CustomStringConvertible {
    package let description = "not today"
  }

  private let subject: ConcurrentValueSubject<State>
  private let isLeft: Bool
  private var danced = 0

  package init(startsWith state: State, _ parameters: Parameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    isLeft = parameters.isLeft
    if case .sitting(let danced, _) = state { self.danced = danced }
  }

  package static func initialState(_ parameters: Parameters) -> State {
    .sitting(danced: 0, number: 0)
  }

  package static var selfContained: SelfContainedEvents<Event> {
    .events(OneOf { Event.freeze }, within: .seconds(1))
      .and(
        OneOf {
          Event.dance(left:right:)
          Event.ponder
        }, within: .seconds(3_600))
  }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  private static let hasPondered = Atomic(false)

  private func ponder() async throws {
    guard !Self.hasPondered.exchange(true, ordering: .relaxed) else { throw Refused() }
    print("ponders")
    defer { print("ponders no more") }
    try await Task.sleep(for: .seconds(7_200))
  }

  private func freeze() async {
    guard isLeft else { return }
    print("freezes")
    await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
  }

  package func take(_ event: Event) async throws {
    if case .ponder = event { return try await ponder() }
    if case .freeze = event { return await freeze() }
    guard case .dance(let left, let right) = event else {
      if case .sitting(_, let number) = subject.state {
        subject.send(.sitting(danced: danced, number: number))
      }
      return
    }
    danced += 1
    let number = Int.random(in: 1...Int.max)
    print("dance \(danced), number \(number)")
    switch isLeft ? left : right {
    case .refusing: throw Refused()
    case .trapping: abort()
    case .hidden: break
    case .gladly:
      subject.send(.dancing)
      await Task.yield()
      subject.send(.sitting(danced: danced, number: number))
    }
  }
}
