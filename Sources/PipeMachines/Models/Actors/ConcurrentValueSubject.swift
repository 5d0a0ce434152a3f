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
