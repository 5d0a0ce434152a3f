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
  /// Which features have which parts, by their places in the state's memory.
  private var parts: [(feature: String, place: Range<Int>, count: Int)] = []

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
  /// - Precondition: No feature of another type takes care of any of it, but for one whose part holds
  ///   all of this one's: its parent.
  func add<Feature: FeatureType>(
    _: Feature.Type, at part: WritableKeyPath<State, Feature.State>
  ) {
    guard let place = Self.place(of: part) else { return }
    let name = "\(Feature.self)"
    if let index = parts.firstIndex(where: { $0.feature == name && $0.place == place }) {
      parts[index].count += 1
      return
    }
    if let other = parts.first(where: { Self.alias($0.place, place) }) {
      preconditionFailure(
        "the state that \(name) is scoped to is also that of \(other.feature), and each would change "
          + "it behind the other's back. Give each scope a property of its own.")
    }
    parts.append((name, place, 1))
  }

  func remove<Feature: FeatureType>(
    _: Feature.Type, at part: WritableKeyPath<State, Feature.State>
  ) {
    guard let place = Self.place(of: part),
      let index = parts.firstIndex(where: { $0.feature == "\(Feature.self)" && $0.place == place })
    else { return }
    parts[index].count -= 1
    if parts[index].count == 0 { parts.remove(at: index) }
  }

  /// The whole state is its own feature's, and a part within a part its child's.
  private static func alias(_ one: Range<Int>, _ other: Range<Int>) -> Bool {
    guard one.overlaps(other) else { return false }
    if one == other { return one.count < MemoryLayout<State>.size }
    return !(one.contains(other) || other.contains(one))
  }

  /// Where a part lies in the state; `nil` where it is computed, or has no size.
  private static func place<Part>(of part: WritableKeyPath<State, Part>) -> Range<Int>? {
    guard let offset = MemoryLayout<State>.offset(of: part), MemoryLayout<Part>.size > 0 else {
      return nil
    }
    return offset..<(offset + MemoryLayout<Part>.size)
  }
}
