import PipeSupport

/// The environment of a machine: the effects of its outputs, its middleware and its pipes.
///
/// A runtime is a value: each function returns a copy with an addition.
///
/// ```swift
/// let runtime = Runtime<State, Event, Output>()
///   .map(output: Output.close(speed:), to: close(speed:))
///   .register(middleware: { (state: State) in print(state) })
/// ```
public struct Runtime<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>: Sendable {
  var effects: [Int: Effect<State, Event, Output>] = [:]
  var stateMiddleware: [Middleware<State>] = []
  var eventMiddleware: [Middleware<Event>] = []
  var stateSendRules: [SendRule<State>] = []
  var receivingPipes: [EventPipe<Event>] = []
  var eventSendRules: [SendRule<Event>] = []
  var feedbacks: [Feedback<State, Event>] = []

  /// The messages about errors of the runtime; empty if there are none.
  package private(set) var problems: [String] = []

  /// Makes a runtime without effects.
  public init() {}

  @export(interface)
  func adding(
    _ gives: GivenEvents<Event>?, _ effect: Effect<State, Event, Output>
  ) -> Self {
    var runtime = self
    if runtime.effects[effect.tag] == nil {
      runtime.effects[effect.tag] = effect
      runtime.effects[effect.tag]?.gives = gives
    } else {
      let name = EnumCases<Output>.names[effect.tag]
      runtime.problems.append(
        "output '\(name)' is mapped to two effects, and only the first effect is used; remove a "
          + "mapping, or map another output to the second effect")
    }
    return runtime
  }
}

// Properties for the node or run that hosts the machine.
extension Runtime {
  /// Whether the machine can start effects.
  package var hasEffects: Bool { !effects.isEmpty || !feedbacks.isEmpty }

  /// Whether the machine runs a model. Only a model needs a feedback that announces changes.
  package var hasAnnouncingFeedback: Bool { feedbacks.contains { $0.isAnnouncing } }

  /// This runtime without its middleware.
  var withoutMiddleware: Self {
    var runtime = self
    runtime.stateMiddleware = []
    runtime.eventMiddleware = []
    return runtime
  }

  /// The named pipes that the machine sends into, without duplicates. If several rules send into a
  /// pipe, the description lists the events of all these rules.
  package var outPorts: [PortDescription] {
    var ports: [PortDescription] = []
    // Written as a loop, because the standard library's generic functions would look up
    // conformances at run time.
    var sending: [PortDescription] = []
    for sender in stateSendRules { if let port = sender.port { sending.append(port) } }
    for sender in eventSendRules { if let port = sender.port { sending.append(port) } }
    for port in sending {
      guard let index = ports.firstIndex(where: { $0.name == port.name }) else {
        ports.append(port)
        continue
      }
      guard let known = ports[index].sentEvents, let more = port.sentEvents else {
        ports[index].sentEvents = nil
        continue
      }
      ports[index].sentEvents = known + more.filter { !known.contains($0) }
    }
    return ports
  }

  /// The named pipes that the machine receives from.
  package var inPorts: [PortDescription] {
    var seen: Set<String> = []
    var ports: [PortDescription] = []
    for pipe in receivingPipes {
      guard let name = pipe.name, seen.insert(name).inserted else { continue }
      ports.append(
        PortDescription(
          name: name, eventType: TypeName.of(Event.self), events: EnumCases<Event>.descriptions))
    }
    return ports
  }

  /// The names of the outputs that no effect is mapped to; `nil` if there are none.
  package var unmappedOutputs: [String]? {
    // Written as a loop, because the standard library's generic functions would look up
    // conformances at run time.
    let names = EnumCases<Output>.names
    var unmapped: [String] = []
    for tag in 0..<names.count where effects[tag] == nil { unmapped.append(names[tag]) }
    return unmapped.isEmpty ? nil : unmapped
  }

  /// The effects and feedbacks that declare their events; `nil` if there are none.
  package var declaredEffects: [EffectDescription]? {
    var declared: [EffectDescription] = []
    // Written as a loop, because the standard library's generic functions would look up
    // conformances at run time.
    let names = EnumCases<Output>.names
    for tag in 0..<names.count {
      guard let gives = effects[tag]?.gives else { continue }
      declared.append(gives.description(of: names[tag]))
    }
    for place in 0..<feedbacks.count {
      guard let gives = feedbacks[place].gives else { continue }
      declared.append(gives.description(of: "feedback\(place + 1)"))
    }
    return declared.isEmpty ? nil : declared
  }

  /// The number of connections whose pipe has no name. A topology cannot refer to such a pipe.
  package var unnamedPipeCount: Int {
    // Written as a loop, because the standard library's generic functions would look up
    // conformances at run time.
    var count = 0
    for sender in stateSendRules where sender.port == nil { count += 1 }
    for sender in eventSendRules where sender.port == nil { count += 1 }
    for pipe in receivingPipes where pipe.name == nil { count += 1 }
    return count
  }
}

// Overloads for a case with one value. On.swift explains why these overloads are separate.
extension Runtime {
  /// Runs `effect` with the output's associated value, and processes the event that `effect`
  /// returns.
  public func map<Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        if let event = await effect(place.one(of: output, as: Value.self)) {
          _ = await deliver(event, .last)
        }
      })
  }

  /// Runs `effect` with the output's associated value, and processes every event of the returned
  /// sequence.
  public func map<Events: AsyncSequence & SendableMetatype, Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async -> Events,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where
    Events.Element == Event, Events.Failure == Never, Events.AsyncIterator: SendableMetatype
  {
    nonisolated(unsafe) let effect = effect
    let place = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        for await event in await effect(place.one(of: output, as: Value.self)) {
          guard await deliver(event, .oneOfMany) else { return }
        }
      })
  }

  /// Runs `effect` with the output's associated value, and processes the event that `effect` or
  /// `catch` returns.
  /// - Parameter catch: Returns the event for an error, or `nil` for no event.
  public func map<Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async throws -> Event?,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self {
    nonisolated(unsafe) let effect = effect
    let place = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy) { output, deliver in
        let value = place.one(of: output, as: Value.self)
        let answer: Event?
        do { answer = try await effect(value) } catch { answer = event(error) }
        if let answer { _ = await deliver(answer, .last) }
      })
  }

  /// Runs `effect` with the output's associated value, and processes every event of the returned
  /// sequence. An error ends the effect.
  /// - Parameter catch: Returns the event for an error, or `nil` for no event.
  public func map<Events: AsyncSequence & SendableMetatype, Value: Sendable>(
    output: (Value) -> Output,
    to effect: sending @escaping (Value) async throws -> Events,
    catch event: @escaping @Sendable (any Error) -> Event?,
    gives: GivenEvents<Event>? = nil, priority: TaskPriority? = nil,
    strategy: ExecutionStrategy<State> = .continueWhenAnyState
  ) -> Self
  where Events.Element == Event, Events.AsyncIterator: SendableMetatype {
    nonisolated(unsafe) let effect = effect
    let place = CaseAccessor<Output>(constructor: output)
    return adding(
      gives,
      Effect(tag: place.tag, priority: priority, strategy: strategy, isSequence: true) {
        output, deliver in
        do {
          for try await event in try await effect(place.one(of: output, as: Value.self)) {
            guard await deliver(event, .oneOfMany) else { return }
          }
        } catch {
          if let answer = event(error) { _ = await deliver(answer, .last) }
        }
      })
  }

  /// Sends `event` into the pipe each time the machine enters the case that the constructor makes.
  public func connectAsSender<Other, Value>(
    to pipe: EventPipe<Other>, when state: (Value) -> State, send event: Other
  ) -> Self {
    sending(event, into: pipe, on: [CasePattern(constructor: state).tag])
  }

  /// Sends an event each time the machine enters the case that the constructor makes. The closure
  /// makes the event from the associated value.
  public func connectAsSender<Other, Value>(
    to pipe: EventPipe<Other>, when state: (Value) -> State,
    send event: @escaping @Sendable (Value) -> Other
  ) -> Self {
    let place = CaseAccessor<State>(constructor: state)
    let pattern = CasePattern<State>(tag: place.tag)
    return sending(into: pipe, on: [place.tag]) { state in
      pattern.matches(state) ? event(place.one(of: state, as: Value.self)) : nil
    }
  }
}

extension ExecutionStrategy {
  /// Cancels the effect on entry into the case that the constructor makes.
  public static func cancel<Value>(when state: (Value) -> State) -> Self {
    let pattern = CasePattern(constructor: state)
    return Self { pattern.matches($0) }
  }
}

extension ViewState where State: DSLCompatible {
  /// Sends an event and waits until the machine enters the case that the constructor makes.
  @discardableResult
  public func send<Value>(
    _ event: Event, resumeWhen state: (Value) -> State
  ) async -> SendOutcome<State> {
    let pattern = CasePattern(constructor: state)
    return await send(event) { pattern.matches($0) }
  }
}
