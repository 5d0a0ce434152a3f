import PipeSupport

/// A pure Moore machine: an initial state, transitions on events, an output for each state.
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
  // Compiled for the concrete types where the machine is written, and called by generic code,
  // such as the engine: several times faster there than `reduce` and `output` themselves.
  @usableFromInline package internal(set) var step: @Sendable (State, Event) -> Reduction<State>
  @usableFromInline let emit: @Sendable (State) -> Output?
  /// Whether its transitions stand in the table; a function cannot be read without a call.
  @usableFromInline let isListed: Bool
  /// Whether it is a function all of whose transitions are asynchronous.
  @usableFromInline var isAsynchronous = false
  /// Of such a function, which events act on nothing but its own state.
  @usableFromInline var selfContained = SelfContainedEvents<Event>.none
  /// Why it cannot run, where that is known.
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

  /// Describes a machine by what it does in each state.
  @inlinable
  public init(
    initial: State,
    @WhenBuilder<State, Event, Output> _ whens: () -> Whens<State, Event, Output>
  ) {
    self.init(initial: initial, whens: whens())
  }

  /// Describes a machine by what it does in each state, which also tells its types.
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
  /// Answers an event. Pure: guards and transitions are evaluated at most once, in the order
  /// written, and not after one has matched.
  @inlinable
  public func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    isListed ? table.reduce(state, event) : step(state, event)
  }

  /// The state that the event leads to, once its transition has returned; `nil` if refused, or if the
  /// transition throws.
  public func next(_ state: State, _ event: Event) async -> State? {
    switch step(state, event) {
    case .next(let state): state
    case .refused: nil
    case .suspended(let transition): try? await transition()
    }
  }

  /// What entering the state asks the runtime to do.
  @inlinable
  public func output(_ state: State) -> Output? {
    isListed ? table.output(state) : emit(state)
  }
}

// Listing.
extension StateMachine {
  /// Every case of the state type.
  public var states: [CaseDescription] { EnumCases<State>.descriptions }

  /// The fields of the state type where that is a struct, as declared; `nil` where it is an enum.
  public var stateFields: [CaseDescription.Field]? {
    StructFields.of(State.self)?.map {
      CaseDescription.Field(name: $0.name, type: TypeName.own($0.type))
    }
  }

  /// Every case of the event type.
  public var events: [CaseDescription] { EnumCases<Event>.descriptions }

  /// Every case of the output type.
  public var outputs: [CaseDescription] { EnumCases<Output>.descriptions }

  /// The names of the events that the machine takes in some state.
  ///
  /// Found by reading each `When` with sample values. Where an `if` or a `for` hides some `On`s
  /// from that, or no sample can be made, or where the machine is a function, every event counts as
  /// taken.
  @export(interface)
  public var alphabet: [String] {
    guard isListed else { return EnumCases<Event>.names }
    let list = EventList()
    for when in table.whens {
      guard let transitions = when.list else { continue }
      list.list(State.self, Event.self) { if !transitions() { list.missBranch() } }
    }
    let names = EnumCases<Event>.names
    return list.isIncomplete ? names : names.indices.filter(list.tags.contains).map { names[$0] }
  }
}

/// What a machine would say to an event, found out without a step.
package enum Evaluation: Hashable, Sendable {
  /// It would take it.
  case taken
  /// It would take it by an asynchronous transition, of which it is not stated that it acts on nothing but
  /// its own state.
  case asynchronous
  /// The same of one of which that is stated.
  case selfContained
  /// A guard decides by the values that the event carries.
  case byValue
  /// It would refuse it.
  case refused(Refusal)
}

extension Evaluation: Codable {
  private static let words: [String: Evaluation] = [
    "taken": .taken, "asynchronous": .asynchronous, "selfContained": .selfContained,
    "byValue": .byValue,
  ]

  package init(from decoder: any Decoder) throws {
    let word = try? decoder.singleValueContainer().decode(String.self)
    self = try word.flatMap { Self.words[$0] } ?? .refused(Refusal(from: decoder))
  }

  package func encode(to encoder: any Encoder) throws {
    let word: String
    switch self {
    case .taken: word = "taken"
    case .asynchronous: word = "asynchronous"
    case .selfContained: word = "selfContained"
    case .byValue: word = "byValue"
    case .refused(let refusal): return try refusal.encode(to: encoder)
    }
    var container = encoder.singleValueContainer()
    try container.encode(word)
  }
}

extension StateMachine {
  /// What the machine would say to an event.
  package func evaluate(_ event: Event, in state: State) -> Evaluation {
    switch step(state, event) {
    case .next: .taken
    // What would run is let go of, and has not begun.
    case .suspended(let transition): transition.limit == nil ? .asynchronous : .selfContained
    case .refused(.asynchronous): .asynchronous
    case .refused(let refusal): .refused(refusal)
    }
  }

  /// What the machine would say to an event of which only the case is known; `nil` where it has no
  /// such case.
  ///
  /// An event without associated values is tried. Of any other the transitions of this very state are
  /// read: where each of them has a guard, nothing can be said without values, nor where the machine is a
  /// function.
  package func evaluate(caseNamed name: String, in state: State) -> Evaluation? {
    guard let tag = EnumCases<Event>.names.firstIndex(of: name) else { return nil }
    if let event = EnumCases<Event>.bareValue(tag: tag) { return evaluate(event, in: state) }
    // What a function would say to a value is known only when it has it.
    guard isListed else {
      guard isAsynchronous else { return .byValue }
      return selfContained.limit(ofTag: tag) == nil ? .asynchronous : .selfContained
    }
    let entries = list(state).entries
    let own = entries.filter { $0.tags.contains(tag) }
    if let last = own.firstIndex(where: { !$0.isGuarded }) { return Self.evaluation(own[...last]) }
    // One that does not tell its case may be about this one.
    let isUntold = entries.contains { $0.tags.isEmpty }
    return own.isEmpty && !isUntold ? .refused(.noTransition) : .byValue
  }

  /// What entries say of an event, of which one takes it.
  private static func evaluation(_ entries: ArraySlice<EventList.Entry>) -> Evaluation {
    if entries.allSatisfy({ !$0.isAsynchronous }) { return .taken }
    if entries.allSatisfy(\.isUnlimited) { return .asynchronous }
    return entries.allSatisfy { $0.isAsynchronous && $0.limit != nil } ? .selfContained : .byValue
  }
}
