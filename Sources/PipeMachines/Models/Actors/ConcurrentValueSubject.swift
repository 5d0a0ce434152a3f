import PipeSupport
import Synchronization

/// A value that any thread can read, set and observe. A model can store its state in a subject.
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
    var lastSubscriberID = 0
    var hasFinished = false

    /// Passes the state to all subscribers.
    mutating func notifySubscribers() {
      for (id, subscriber) in subscribers {
        if subscriber.isOver.load(ordering: .relaxed) {
          subscribers[id] = nil
        } else {
          subscriber.receive(state)
        }
      }
    }
  }

  /// The contents of the subject. They are a separate object, so that a subscription does not keep
  /// the subject alive.
  private final class Storage: Sendable {
    let content: Locked<Content>
    init(_ state: State) { content = Locked(Content(state: state)) }
  }

  private let storage: Storage

  /// Makes a subject with an initial value.
  public init(_ state: State) { storage = Storage(state) }

  /// Makes a subject with the initial state of a model.
  /// - Throws: ``UnstableStateError`` if the state is not stable.
  public convenience init(startsWith state: State) throws(UnstableStateError)
  where State: StateProtocol {
    self.init(try state.stable())
  }

  deinit { finish() }

  /// The value.
  public var state: State { storage.content.withLock(\.state) }

  /// Sets the value. After ``finish()``, the value does not change any more.
  public func send(_ state: State) {
    // Notifies subscribers under the lock, so that all of them receive the values in the same
    // order. A subscriber only appends the value to its own buffer.
    storage.content.withLock { content in
      guard !content.hasFinished else { return }
      content.state = state
      content.notifySubscribers()
    }
  }

  /// Changes the value atomically. After ``finish()``, the value does not change any more.
  public func update(_ change: (inout State) -> Void) {
    storage.content.withLock { content in
      guard !content.hasFinished else { return }
      change(&content.state)
      content.notifySubscribers()
    }
  }

  /// Ends all subscriptions. The value remains.
  public func finish() {
    let subscribers = storage.content.withLock { content in
      content.hasFinished = true
      defer { content.subscribers = [:] }
      return content.subscribers.values
    }
    // Called outside the lock, because the end of a subscription also cancels the subscription,
    // which tries to acquire the lock.
    for subscriber in subscribers { subscriber.end() }
  }

  /// Returns a read-only publisher of the value.
  public func eraseToAnyPublisher() -> StatePublisher<State> {
    StatePublisher { [storage] receive, end in
      let subscriber = Subscriber(receive, end)
      let id = storage.content.withLock { content -> Int? in
        receive(content.state)
        guard !content.hasFinished else { return nil }
        content.lastSubscriberID += 1
        content.subscribers[content.lastSubscriberID] = subscriber
        return content.lastSubscriberID
      }
      guard let id else {
        end()
        return {}
      }
      return {
        // Does not wait for the lock, because this code runs while a task is being cancelled. The
        // sender that holds the lock may itself be waiting for the end of this cancellation.
        subscriber.isOver.store(true, ordering: .relaxed)
        storage.content.withLockIfAvailable { _ = $0.subscribers.removeValue(forKey: id) }
      }
    }
  }
}

/// A model whose state is a value that a view can set.
public protocol ConcurrentValueStateMachineProtocol<State>: StateMachineProtocol {
  /// Sets the value.
  nonisolated func set(_ state: State)
}

extension ConcurrentValueStateMachineProtocol {
  /// Returns a binding to the value, for a view that reads and sets the value.
  @MainActor
  public func binding() -> ValueBinding<State> {
    ValueBinding(get: { self.state }, set: { self.set($0) }, timers: ViewTimers())
  }
}

/// A model with a single value, such as the value of a text field, a picker or a switch.
public actor ConcurrentValueStateMachine<State: StateProtocol>:
  ConcurrentValueStateMachineProtocol
{
  private let subject: ConcurrentValueSubject<State>

  /// Makes a model with a value.
  public init(_ state: State) { subject = ConcurrentValueSubject(state) }

  /// The value.
  public nonisolated var state: State { subject.state }

  /// The current value, then each new value.
  public nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  /// Sets the value. Later reads, on any thread, return the new value.
  public nonisolated func set(_ state: State) { subject.send(state) }
}

/// A model that stays in one state and ignores new values, for tests and previews.
public actor ConstantStateMachine<State: StateProtocol>: ConcurrentValueStateMachineProtocol {
  /// The state.
  public nonisolated let state: State

  /// Makes a model that stays in a state. The state does not have to be stable.
  public init(_ state: State) { self.state = state }

  /// A publisher of the constant state.
  public nonisolated var stateDidChange: StatePublisher<State> { .constant(state) }

  /// Ignores the value.
  public nonisolated func set(_ state: State) {}
}

/// A model that combines the states of two other models.
///
/// ```swift
/// let both = CompositeStateMachine(observing: modelA, observing: modelB) { CompositeState($0, $1) }
/// ```
///
/// The combined model accepts no events. Send events to the two models, or to your own model that
/// contains them. If the two models process an event one after the other, an inconsistent combined
/// state is visible in between. If you must prevent that, or if one of the models may refuse the
/// event, use the machines of an ``AsyncCompositeSequence``.
public actor CompositeStateMachine<State: StateProtocol>: StateMachineProtocol {
  private nonisolated let current: @Sendable () -> State

  /// The combined state.
  public nonisolated var state: State { current() }

  /// The combined state, then a new combined state whenever one of the models has changed.
  public nonisolated let stateDidChange: StatePublisher<State>

  /// Makes a model that observes two models, which may be constant.
  /// - Parameter combine: Makes the combined state. This function must be pure.
  public init<First: StateMachineProtocol, Second: StateMachineProtocol>(
    observing first: First, observing second: Second,
    _ combine: @escaping @Sendable (First.State, Second.State) -> State
  ) {
    current = { combine(first.state, second.state) }
    stateDidChange = first.stateDidChange.combineLatest(second.stateDidChange, combine)
  }
}

/// A model: an actor that is a state machine. Its state can be read without waiting, and its
/// changes can be observed.
///
/// A model has three parts: a protocol with a function for each event, the model itself, and a
/// constant model for tests and previews (see ``StatePublisher/constant(_:)``).
///
/// ```swift
/// protocol LampModelProtocol: StateMachineProtocol<LampState> {
///   nonisolated func toggle()
/// }
/// ```
///
/// ``ModelMachine`` makes a node from a model.
public protocol StateMachineProtocol<State>: Actor {
  /// A state of the model.
  associatedtype State: StateProtocol

  /// The current state.
  nonisolated var state: State { get }

  /// The current state, then each state that the model enters.
  nonisolated var stateDidChange: StatePublisher<State> { get }
}
