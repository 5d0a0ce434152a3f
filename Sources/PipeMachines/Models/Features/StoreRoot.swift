/// The state behind a store and all stores scoped from it: a machine whose events are steps.
@MainActor
final class StoreRoot<State: Sendable> {
  /// One step.
  enum Step: DSLCompatible {
    /// Changes the state at once.
    case edit(@Sendable (inout State) -> Void)
    /// Goes on from the state, in as long as it takes.
    case run(@MainActor @Sendable (State) async -> State)
  }

  struct Held: DSLCompatible {
    var value: State
  }

  private let run: AsyncStateMachineSequence<Held, Step, Never>
  private let subject: ConcurrentValueSubject<State>
  /// The parts that have features, with the parts that they are scoped from, and how often.
  private var parts: [(part: StorePart, above: [StorePart], count: Int)] = []

  init(_ initial: State) {
    let subject = ConcurrentValueSubject(initial)
    self.subject = subject
    run = AsyncStateMachineSequence(
      stateMachine: StateMachine(initial: Held(value: initial)) { state, step in
        switch step {
        case .edit(let edit):
          var next = state
          edit(&next.value)
          return .next(next)
        case .run(let run):
          return .suspended { Held(value: await run(state.value)) }
        }
      },
      runtime: Runtime().register(middleware: { (state: Held) in subject.send(state.value) }))
  }

  isolated deinit { run.finish() }

  var state: State { subject.state }
  var changes: StatePublisher<State> { subject.eraseToAnyPublisher() }

  func edit(_ change: @escaping @Sendable (inout State) -> Void) { run.take(.edit(change)) }

  func post(_ step: @escaping @MainActor @Sendable (State) async -> State) {
    run.post(.run(step))
  }

  func send(_ step: @escaping @MainActor @Sendable (State) async -> State) async {
    await run.send(.run(step))
  }

  // MARK: Parts

  /// A feature takes care of a part of the state.
  /// - Parameter above: What this returned for the features that it is scoped from.
  /// - Returns: What stands for the part; `nil` where nothing is known of its place.
  /// - Precondition: No other feature takes care of any of it, but for those above and below this one.
  func add<Feature: FeatureType>(
    _: Feature.Type, at part: WritableKeyPath<State, Feature.State>, above: [StorePart]
  ) -> StorePart? {
    guard let place = Self.place(of: part) else { return nil }
    let part = StorePart(feature: "\(Feature.self)", place: place)
    if let index = parts.firstIndex(where: { $0.part == part && $0.above == above }) {
      parts[index].count += 1
      return part
    }
    let other = parts.first { other in
      other.part.place.overlaps(place) && !above.contains(other.part)
        && !other.above.contains(part)
    }
    if let other {
      preconditionFailure(
        "the state that \(part.feature) is scoped to is also that of \(other.part.feature), and each "
          + "would change it behind the other's back. Give each scope a property of its own.")
    }
    parts.append((part, above, 1))
    return part
  }

  func remove(_ part: StorePart, above: [StorePart]) {
    guard let index = parts.firstIndex(where: { $0.part == part && $0.above == above }) else {
      return
    }
    parts[index].count -= 1
    if parts[index].count == 0 { parts.remove(at: index) }
  }

  /// Where a part lies in the state; `nil` where it is computed, or has no size.
  private static func place<Part>(of part: WritableKeyPath<State, Part>) -> Range<Int>? {
    guard let offset = MemoryLayout<State>.offset(of: part), MemoryLayout<Part>.size > 0 else {
      return nil
    }
    return offset..<(offset + MemoryLayout<Part>.size)
  }
}

/// A part of a store's state that a feature takes care of.
struct StorePart: Hashable {
  let feature: String
  /// In the memory of the state.
  let place: Range<Int>
}
