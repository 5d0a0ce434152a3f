#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The context of a running `When` closure: the event, and storage for the outcome. The `On`s of
/// the closure read the context.
///
/// Each step runs the closure, which creates the `On`s again. The initializer of an `On` compares
/// the `On` with the event in the current thread's context. After that, the `On` is not needed, so
/// it stores nothing. If a step takes another step, the inner step saves and restores the context
/// of the outer step.
@usableFromInline
struct MatchContext {
  @usableFromInline
  enum Status {
    case noTransition, refusedByGuard, matched, suspended
    /// An `On` has matched the event, and has made an internal transition.
    case stayed
    case ignored
    /// The `On`s and `After`s of sample states add themselves to a list.
    case listing
    /// The `After`s of a state that the machine has entered add themselves to a list.
    case listingTimers
    /// One of the `After`s of the state makes its transition.
    case firing
  }

  @usableFromInline var status: Status
  @usableFromInline let stateType: UnsafeRawPointer
  @usableFromInline let eventType: UnsafeRawPointer
  @usableFromInline let event: UnsafeRawPointer
  @usableFromInline let tag: Int
  @usableFromInline unowned(unsafe) let layout: EnumLayout
  /// The storage of the next state, which is uninitialized until an `On` matches the event.
  @usableFromInline let nextState: UnsafeMutableRawPointer
  // Unmanaged, so that a step that neither suspends nor fills a list does no reference counting.
  /// The retained ``Suspension`` of an asynchronous transition; `nil` until an `On` suspends the
  /// step.
  @usableFromInline var suspension: Unmanaged<AnyObject>?
  /// The list to which the `On`s add themselves, if this thread is listing a machine's events.
  @usableFromInline let eventList: Unmanaged<EventList>?

  @inlinable
  init(
    status: Status, stateType: Any.Type, eventType: Any.Type, event: UnsafeRawPointer, tag: Int,
    layout: EnumLayout,
    nextState: UnsafeMutableRawPointer, eventList: EventList? = nil
  ) {
    self.status = status
    self.stateType = TypeMetadata(stateType).pointer
    self.eventType = TypeMetadata(eventType).pointer
    self.event = event
    self.tag = tag
    self.layout = layout
    self.nextState = nextState
    self.eventList = eventList.map(Unmanaged.passUnretained)
  }

  /// Whether no `On` has answered the event yet, so that the next `On` may answer it.
  @inlinable
  var isUnanswered: Bool { status == .noTransition || status == .refusedByGuard }
}

/// The innermost context of the current thread.
@usableFromInline
enum MatchThread {
  @usableFromInline
  typealias Slot = UnsafeMutablePointer<UnsafeMutablePointer<MatchContext>?>

  private static let threadKey: pthread_key_t = {
    var key = pthread_key_t()
    let failed = pthread_key_create(&key) { $0?.deallocate() }
    precondition(
      failed == 0, "pthread_key_create failed: no thread-specific storage is left in this process.")
    return key
  }()

  /// The storage of this thread's pointer to its context, allocated on first use.
  @usableFromInline
  static var slot: Slot {
    if let known = pthread_getspecific(threadKey) {
      return known.assumingMemoryBound(to: UnsafeMutablePointer<MatchContext>?.self)
    }
    let slot = Slot.allocate(capacity: 1)
    slot.initialize(to: nil)
    pthread_setspecific(threadKey, slot)
    return slot
  }

  @usableFromInline
  static var current: UnsafeMutablePointer<MatchContext>? { slot.pointee }

  /// Calls `body` with `context` as the context of the current thread.
  @inlinable
  static func with(_ context: UnsafeMutablePointer<MatchContext>, _ body: () -> Void) {
    let slot = Self.slot
    let outer = slot.pointee
    slot.pointee = context
    body()
    slot.pointee = outer
  }
}

/// A box that carries an asynchronous transition out of its `On`.
@usableFromInline
final class Suspension<State: DSLCompatible>: @unchecked Sendable {
  // The closure runs once, in one task, after the step that created the closure has returned.
  @usableFromInline let run: () async throws -> Transition<State>
  // The time limit of the transition. It is set during the step that created this box.
  @usableFromInline var limit: Duration?

  @usableFromInline
  init(_ run: @escaping () async throws -> Transition<State>) { self.run = run }
}
