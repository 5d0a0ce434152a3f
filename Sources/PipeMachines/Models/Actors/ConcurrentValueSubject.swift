import PipeSupport

/// A value that any thread reads and sets, and whose changes can be followed: where a model keeps its
/// state.
///
/// All subscribers see the same values in the same order.
public final class ConcurrentValueSubject<State: Sendable>: Sendable {
  private struct Subscriber {
    var receive: @Sendable (State) -> Void
    var end: @Sendable () -> Void
  }

  private struct Content {
    var state: State
    var subscribers: [Int: Subscriber] = [:]
    var last = 0
    var hasFinished = false
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
      for subscriber in content.subscribers.values { subscriber.receive(state) }
    }
  }

  /// Sets the value to what is made of it, with nobody in between.
  public func update(_ change: (inout State) -> Void) {
    storage.content.withLock { content in
      guard !content.hasFinished else { return }
      change(&content.state)
      for subscriber in content.subscribers.values { subscriber.receive(content.state) }
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
      let id = storage.content.withLock { content -> Int? in
        receive(content.state)
        guard !content.hasFinished else { return nil }
        content.last += 1
        content.subscribers[content.last] = Subscriber(receive: receive, end: end)
        return content.last
      }
      guard let id else {
        end()
        return {}
      }
      return { storage.content.withLock { _ = $0.subscribers.removeValue(forKey: id) } }
    }
  }
}
