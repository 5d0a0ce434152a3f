import PipeSupport
import Synchronization

/// A value that any thread reads and sets, and whose changes can be followed: where a model keeps its
/// state.
///
/// All subscribers see the same values in the same order.
public final class ConcurrentValueSubject<State: Sendable>: Sendable {
  private final class Subscriber: Sendable {
    let receive: @Sendable (State) -> Void
    let end: @Sendable () -> Void
    let isOver = Atomic(false)

    init(_ receive: @escaping @Sendable (State) -> Void, _ end: @escaping @Sendable () -> Void) {
      (self.receive, self.end) = (receive, end)
    }
  }

  private struct Content {
    var state: State
    var subscribers: [Int: Subscriber] = [:]
    var last = 0
    var hasFinished = false

    /// Tells everybody of the state.
    mutating func tell() {
      for (id, subscriber) in subscribers {
        if subscriber.isOver.load(ordering: .relaxed) {
          subscribers[id] = nil
        } else {
          subscriber.receive(state)
        }
      }
    }
  }

  /// Apart from the subject, so that who follows it does not keep it.
  private final class Storage: Sendable {
    let content: Locked<Content>
    init(_ state: State) { content = Locked(Content(state: state)) }
  }

  private let storage: Storage

  /// Makes a subject that holds a value.
  public init(_ state: State) { storage = Storage(state) }

  /// Makes a subject for a model to start with.
  /// - Throws: ``UnstableStateError`` where the state is not stable.
  public convenience init(startsWith state: State) throws(UnstableStateError)
  where State: StateProtocol {
    self.init(try state.stable())
  }

  deinit { finish() }

  /// The value.
  public var state: State { storage.content.withLock(\.state) }

  /// Sets the value. After ``finish()`` nothing changes any more.
  public func send(_ state: State) {
    // Subscribers are told under the lock, so that all are told in one order. What they do is to put
    // the value into a buffer of their own.
    storage.content.withLock { content in
      guard !content.hasFinished else { return }
      content.state = state
      content.tell()
    }
  }

  /// Sets the value to what is made of it, with nobody in between.
  public func update(_ change: (inout State) -> Void) {
    storage.content.withLock { content in
      guard !content.hasFinished else { return }
      change(&content.state)
      content.tell()
    }
  }

  /// Ends all subscriptions; the value stays.
  public func finish() {
    let subscribers = storage.content.withLock { content in
      content.hasFinished = true
      defer { content.subscribers = [:] }
      return content.subscribers.values
    }
    // Not under the lock: an end takes the subscription back.
    for subscriber in subscribers { subscriber.end() }
  }

  /// The value to those who only read it.
  public func eraseToAnyPublisher() -> StatePublisher<State> {
    StatePublisher { [storage] receive, end in
      let subscriber = Subscriber(receive, end)
      let id = storage.content.withLock { content -> Int? in
        receive(content.state)
        guard !content.hasFinished else { return nil }
        content.last += 1
        content.subscribers[content.last] = subscriber
        return content.last
      }
      guard let id else {
        end()
        return {}
      }
      return {
        // Without waiting for the lock: this is called while a task is being cancelled, and who tells a
        // value, under the lock, may have to wait until it is.
        subscriber.isOver.store(true, ordering: .relaxed)
        storage.content.withLockIfAvailable { _ = $0.subscribers.removeValue(forKey: id) }
      }
    }
  }
}

/// A model whose state is a value that a view may set.
public protocol ConcurrentValueStateMachineProtocol<State>: StateMachineProtocol {
  /// Sets the value.
  nonisolated func set(_ state: State)
}

extension ConcurrentValueStateMachineProtocol {
  /// The value for a view that reads it and sets it.
  @MainActor
  public func binding() -> ValueBinding<State> {
    ValueBinding(get: { self.state }, set: { self.set($0) }, timers: ViewTimers())
  }
}

/// The model of one value: what a text field, a picker or a switch shows and sets.
public actor ConcurrentValueStateMachine<State: StateProtocol>:
  ConcurrentValueStateMachineProtocol
{
  private let subject: ConcurrentValueSubject<State>

  /// Makes a model with a value.
  public init(_ state: State) { subject = ConcurrentValueSubject(state) }

  /// The value.
  public nonisolated var state: State { subject.state }

  /// The value, then each one that is set.
  public nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  /// Sets the value. Whoever reads it afterwards, on any thread, finds it.
  public nonisolated func set(_ state: State) { subject.send(state) }
}

/// A model that stays in one state, and whose value cannot be set: for tests and previews.
public actor ConstantStateMachine<State: StateProtocol>: ConcurrentValueStateMachineProtocol {
  /// The state.
  public nonisolated let state: State

  /// Makes a model that stays in a state, a stable one or not.
  public init(_ state: State) { self.state = state }

  /// The state.
  public nonisolated var stateDidChange: StatePublisher<State> { .constant(state) }

  /// Changes nothing.
  public nonisolated func set(_ state: State) {}
}

/// A model that shows what two others show together.
///
/// ```swift
/// let both = CompositeStateMachine(observing: modelA, observing: modelB) { CompositeState($0, $1) }
/// ```
///
/// It takes no events: these go to the two, or to a model of one's own that holds them. Two models that
/// take an event one after the other are seen in between; where that must not be, or one of them may
/// refuse, let them be machines of an ``AsyncCompositeSequence``.
public actor CompositeStateMachine<State: StateProtocol>: StateMachineProtocol {
  private nonisolated let current: @Sendable () -> State

  /// The state made of theirs.
  public nonisolated var state: State { current() }

  /// The state made of theirs, then another one whenever one of them has changed.
  public nonisolated let stateDidChange: StatePublisher<State>

  /// Observes two models, which may be constant ones.
  /// - Parameter combine: What their states are together. Pure.
  public init<First: StateMachineProtocol, Second: StateMachineProtocol>(
    observing first: First, observing second: Second,
    _ combine: @escaping @Sendable (First.State, Second.State) -> State
  ) {
    current = { combine(first.state, second.state) }
    stateDidChange = first.stateDidChange.combineLatest(second.stateDidChange, combine)
  }
}

/// A model: an actor that is a state machine, whose state is read at once and whose changes can be
/// followed.
///
/// A model comes as three parts: a protocol with a function for each event, the model itself, and a
/// constant one for tests and previews (see ``StatePublisher/constant(_:)``).
///
/// ```swift
/// protocol LampModelProtocol: StateMachineProtocol<LampState> {
///   nonisolated func toggle()
/// }
/// ```
///
/// ``ModelMachine`` makes a node of one.
public protocol StateMachineProtocol<State>: Actor {
  /// The states.
  associatedtype State: StateProtocol

  /// The current state.
  nonisolated var state: State { get }

  /// The current state, then each state as it is entered.
  nonisolated var stateDidChange: StatePublisher<State> { get }
}
