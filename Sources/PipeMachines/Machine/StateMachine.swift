import PipeSupport

/// A pure Moore machine: an initial state, transitions on events, and an output for each state.
///
/// ```swift
/// let machine = StateMachine(initial: State.open(persons: 0)) {
///   When(state: State.open(persons:)) { _ in
///     Execute.noOutput
///   } transitions: { persons in
///     On(event: Event.closeButtonWasPressed) {
///       Guard(predicate: persons < 10)
///     } transition: {
///       Transition(to: State.closing(persons: persons))
///     }
///   }
/// }
/// ```
public struct StateMachine<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>:
  Sendable
{
  /// The state that the machine starts in.
  public let initial: State
  @usableFromInline let table: StateTable<State, Event, Output>
  // The compiler specializes these closures for the machine's types, because they are created where
  // the machine is defined. Generic code such as the engine calls these closures instead of
  // `reduce` and `output`, which are several times slower in generic code.
  @usableFromInline package internal(set) var step: @Sendable (State, Event) -> Reduction<State>
  @usableFromInline let emit: @Sendable (State) -> Output?
  /// Whether the transitions are listed in the table. `false` for a machine that is defined by a
  /// function, whose transitions are not known before the function is called.
  @usableFromInline let isListed: Bool
  /// Whether the machine is defined by a function whose transitions are all asynchronous.
  @usableFromInline var isAsynchronous = false
  /// The events for which the asynchronous function acts only on the machine's own state.
  @usableFromInline var selfContainedEvents = SelfContainedEvents<Event>.none
  /// Returns whether the transition of a timer may lead from `state` to `next`. If this property is
  /// `nil`, such a transition may lead to any state.
  var admitsTimerTransition: (@Sendable (_ next: State, _ state: State) -> Bool)?
  /// The tags of the final states; `nil` if there are none.
  var finalTags: Set<Int>?
  /// The reason why the machine cannot run; `nil` if none is known.
  @usableFromInline package var problem: String?

  @inlinable
  init(initial: State, whens: Whens<State, Event, Output>) {
    let table = StateTable<State, Event, Output>(whens.all)
    self.initial = initial
    self.table = table
    step = { table.reduce($0, $1) }
    emit = { table.output($0) }
    isListed = true
  }

  @inlinable
  init(
    initial: State, step: @escaping @Sendable (State, Event) -> Reduction<State>,
    emit: @escaping @Sendable (State) -> Output?
  ) {
    self.initial = initial
    table = StateTable([])
    self.step = step
    self.emit = emit
    isListed = false
  }

  /// Creates a machine from a description of each state.
  @inlinable
  public init(
    initial: State,
    @WhenBuilder<State, Event, Output> _ whens: () -> Whens<State, Event, Output>
  ) {
    self.init(initial: initial, whens: whens())
  }

  /// Creates a machine from a description of each state, and infers the machine's types from these
  /// descriptions.
  @inlinable
  @_disfavoredOverload
  public init(
    initial: State,
    @WhenInferringBuilder<State> _ whens: () -> InferredWhens<State, Event, Output>
  ) {
    self.init(initial: initial, whens: whens().whens)
  }
}

extension StateMachine {
  /// Returns the machine's answer to an event. The function is pure. It evaluates guards and
  /// transitions in the order written, each at most once, and stops at the first match.
  @inlinable
  public func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    isListed ? table.reduce(state, event) : step(state, event)
  }

  /// Returns the state after the event, and waits for an asynchronous transition. Returns `nil` if
  /// the machine refuses the event, or if the transition throws. Returns `state` if the machine
  /// ignores the event.
  public func next(_ state: State, _ event: Event) async -> State? {
    switch step(state, event) {
    case .next(let state), .stays(let state): state
    case .ignored: state
    case .refused: nil
    case .suspended(let transition): try? await transition()
    }
  }

  /// Returns the output that the runtime executes on entering the state; `nil` if there is none.
  @inlinable
  public func output(_ state: State) -> Output? {
    isListed ? table.output(state) : emit(state)
  }
}

// The cases of the machine's states, events and outputs.
extension StateMachine {
  /// Every case of the state type.
  public var states: [CaseDescription] { EnumCases<State>.descriptions }

  /// The fields of the state type, in the order of declaration, if the state is a struct; otherwise
  /// `nil`.
  public var stateFields: [CaseDescription.Field]? {
    StructFields.of(State.self)?.map {
      CaseDescription.Field(name: $0.name, type: TypeName.unqualified($0.type))
    }
  }

  /// Every case of the event type.
  public var events: [CaseDescription] { EnumCases<Event>.descriptions }

  /// Every case of the output type.
  public var outputs: [CaseDescription] { EnumCases<Output>.descriptions }

  /// The names of the events that the machine accepts in at least one state.
  ///
  /// To find these events, the machine reads each `When` with sample values. Every event counts as
  /// accepted if an `if` or a `for` hides some `On`s from the samples, if no sample can be made, or
  /// if the machine is defined by a function.
  @export(interface)
  public var alphabet: [String] {
    guard isListed else { return EnumCases<Event>.names }
    let lists = table.sampleLists
    let names = EnumCases<Event>.names
    if lists.contains(where: \.isIncomplete) { return names }
    let tags = lists.reduce(into: Set<Int>()) { $0.formUnion($1.tags) }
    return names.indices.filter(tags.contains).map { names[$0] }
  }
}

/// A machine's answer to an event, evaluated without taking a step.
package enum Evaluation: Hashable, Sendable {
  /// The machine would accept the event.
  case accepted
  /// The machine would consume the event, and nothing would change.
  case ignored
  /// The machine would accept the event by an asynchronous transition that is not declared to be
  /// self-contained.
  case asynchronous
  /// The machine would accept the event by an asynchronous transition that is declared to be
  /// self-contained.
  case selfContained
  /// The answer depends on the values that the event carries, for example through a guard.
  case dependsOnValues
  /// The machine would refuse the event.
  case refused(Refusal)
}

extension Evaluation: Codable {
  private static let evaluationsByWord: [String: Evaluation] = [
    "accepted": .accepted, "ignored": .ignored, "asynchronous": .asynchronous,
    "selfContained": .selfContained, "dependsOnValues": .dependsOnValues,
  ]

  package init(from decoder: any Decoder) throws {
    let word = try? decoder.singleValueContainer().decode(String.self)
    self = try word.flatMap { Self.evaluationsByWord[$0] } ?? .refused(Refusal(from: decoder))
  }

  package func encode(to encoder: any Encoder) throws {
    let word: String
    switch self {
    case .accepted: word = "accepted"
    case .ignored: word = "ignored"
    case .asynchronous: word = "asynchronous"
    case .selfContained: word = "selfContained"
    case .dependsOnValues: word = "dependsOnValues"
    case .refused(let refusal): return try refusal.encode(to: encoder)
    }
    var container = encoder.singleValueContainer()
    try container.encode(word)
  }
}

extension StateMachine {
  /// Returns the machine's answer to an event, without taking a step.
  package func evaluate(_ event: Event, in state: State) -> Evaluation {
    switch step(state, event) {
    case .next, .stays: .accepted
    case .ignored: .ignored
    // The transition does not begin: it is discarded here.
    case .suspended(let transition): transition.limit == nil ? .asynchronous : .selfContained
    case .refused(.asynchronous): .asynchronous
    case .refused(let refusal): .refused(refusal)
    }
  }

  /// Returns the machine's answer to an event with this case name, whose values are unknown.
  /// Returns `nil` if the machine's event type has no such case.
  ///
  /// An event without associated values is evaluated directly. For any other event, the transitions
  /// of `state` are read. The answer is ``Evaluation/dependsOnValues`` if guards decide the answer,
  /// or if the machine is defined by a synchronous function.
  package func evaluate(caseNamed name: String, in state: State) -> Evaluation? {
    guard let tag = EnumCases<Event>.names.firstIndex(of: name) else { return nil }
    if let event = EnumCases<Event>.bareValue(tag: tag) { return evaluate(event, in: state) }
    // The answer of a synchronous function is known only after a call with the event's values.
    guard isListed else {
      guard isAsynchronous else { return .dependsOnValues }
      return selfContainedEvents.timeLimit(ofTag: tag) == nil ? .asynchronous : .selfContained
    }
    let entries = list(state).entries
    let own = entries.filter { $0.tags.contains(tag) }
    if let last = own.firstIndex(where: { !$0.isGuarded }) { return Self.evaluation(own[...last]) }
    // An `On` whose case is unknown may accept this event.
    let hasUnknownEvents = entries.contains { $0.tags.isEmpty }
    return own.isEmpty && !hasUnknownEvents ? .refused(.noTransition) : .dependsOnValues
  }

  /// Returns the answer to an event that these entries accept. The last entry has no guard.
  private static func evaluation(_ entries: ArraySlice<EventList.Entry>) -> Evaluation {
    if entries.allSatisfy(\.isIgnored) { return .ignored }
    // The guards decide whether the event is ignored.
    if entries.contains(where: \.isIgnored) { return .dependsOnValues }
    if entries.allSatisfy({ !$0.isAsynchronous }) { return .accepted }
    if entries.allSatisfy(\.isUnlimited) { return .asynchronous }
    return entries.allSatisfy { $0.isAsynchronous && $0.timeLimit != nil }
      ? .selfContained : .dependsOnValues
  }
}

// Machines with final states.
extension StateMachine {
  /// Returns a copy of the machine that refuses every event in the given final states.
  ///
  /// - Parameter finalTags: The tags of the final states.
  package func ending(in finalTags: Set<Int>) -> Self {
    guard !finalTags.isEmpty else { return self }
    var machine = self
    machine.finalTags = finalTags
    machine.step = { [step] state, event in
      if let tag = EnumCases<State>.tag(of: state), finalTags.contains(tag) {
        return .refused(.ended)
      }
      return step(state, event)
    }
    return machine
  }
}
