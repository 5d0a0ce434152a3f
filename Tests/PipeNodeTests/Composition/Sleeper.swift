import PipeMachines

/// A model that acts by itself, even while it evaluates a synchronized event.
actor Sleeper: HostableModel {
  enum State: MachineState, StateProtocol, Hashable {
    case asleep(bed: Int, met: Int)
    case awake(bed: Int, met: Int)

    var bed: Int {
      switch self {
      case .asleep(let bed, _), .awake(let bed, _): bed
      }
    }

    var met: Int {
      switch self {
      case .asleep(_, let met), .awake(_, let met): met
      }
    }
  }

  enum Event: MachineEvent, Hashable {
    /// A synchronized event with a manner for each participant.
    case meet(left: Manner, right: Manner)
    /// Wakes the model with the third nudge. The model's state does not show the first two nudges.
    case nudge
    /// The model's own change.
    case woke
    case look
  }

  enum Manner: Codable, Hashable, Sendable {
    case gladly, refusing
    /// Returns when the test releases it, even if it is cancelled before.
    case hanging
    /// Waits like `hanging`, and then refuses.
    case hangingAndRefusing
  }

  struct Parameters: MachineParameters {
    var bed = 0
    var isLeft = true
    init() {}
    init(bed: Int, isLeft: Bool) { (self.bed, self.isLeft) = (bed, isLeft) }
  }

  struct Refused: Error {}

  private let subject: ConcurrentValueSubject<State>
  private let parameters: Parameters
  private var nudges = 0

  init(startsWith state: State, _ parameters: Parameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    self.parameters = parameters
    let subject = subject
    Bed.with(parameters.bed) { $0.models.append(subject) }
  }

  static func initialState(_ parameters: Parameters) -> State {
    .asleep(bed: parameters.bed, met: 0)
  }

  static var selfContained: SelfContainedEvents<Event> {
    .events(OneOf { Event.meet(left:right:) }, within: .seconds(600))
  }

  static func event(forChangeTo state: State) -> Event? {
    guard case .awake(let bed, _) = state else { return nil }
    Bed.with(bed) { $0.announcements += 1 }
    return .woke
  }

  nonisolated var state: State { subject.state }
  nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  func take(_ event: Event) async throws {
    let bed = parameters.bed
    switch event {
    case .look: subject.send(subject.state)
    case .woke: Bed.with(bed) { $0.wokenByEvent += 1 }
    case .nudge:
      nudges += 1
      if nudges == 3 { subject.send(.awake(bed: bed, met: subject.state.met)) }
    case .meet(let left, let right):
      let manner = parameters.isLeft ? left : right
      switch manner {
      case .gladly: break
      case .refusing: throw Refused()
      case .hanging, .hangingAndRefusing:
        await withCheckedContinuation { continuation in
          Bed.with(bed) { $0.hanging.append(continuation) }
        }
        if manner == .hangingAndRefusing { throw Refused() }
      }
      subject.send(.asleep(bed: bed, met: subject.state.met + 1))
    }
  }
}

/// The test's view of the models of one node, and its controls.
struct Bed: Sendable {
  /// The states of the models, in the order of their creation.
  var models: [ConcurrentValueSubject<Sleeper.State>] = []
  /// The number of changes that were offered for announcement.
  var announcements = 0
  /// The number of announced events that a model was given.
  var wokenByEvent = 0
  /// The transitions that wait to be released.
  var hanging: [CheckedContinuation<Void, Never>] = []

  private static let beds = ConcurrentValueSubject<[Int: Bed]>([:])

  /// Returns a number that no other test uses.
  static func make() -> Int {
    var number = 0
    beds.update { beds in
      number = beds.count + 1
      beds[number] = Bed()
    }
    return number
  }

  static func with(_ number: Int, _ body: (inout Bed) -> Void) {
    beds.update { body(&$0[number, default: Bed()]) }
  }

  static subscript(_ number: Int) -> Bed { beds.state[number] ?? Bed() }

  /// Waits until the body returns a value.
  static func first<Value: Sendable>(
    _ number: Int, _ body: (Bed) -> Value?
  ) async throws -> Value {
    for await beds in beds.eraseToAnyPublisher() {
      if let found = beds[number].flatMap(body) { return found }
    }
    throw CancellationError()
  }

  /// Releases the hanging transitions once there are at least this many.
  static func letGo(_ number: Int, _ count: Int = 1) async throws {
    let hanging = try await first(number) { $0.hanging.count >= count ? $0.hanging : nil }
    with(number) { $0.hanging = [] }
    for continuation in hanging { continuation.resume() }
  }
}
