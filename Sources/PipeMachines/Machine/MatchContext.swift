#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The context of a running `When` closure, which its `On`s read: the event, and memory for the outcome.
///
/// `On` values are created in each step, so they store nothing: they compare themselves with the
/// context of their thread's current step. A step within a step saves and restores the context.
@usableFromInline
struct MatchContext {
  @usableFromInline
  enum Status { case noTransition, refusedByGuard, matched, suspended, listing }

  @usableFromInline var status: Status
  @usableFromInline let stateType: UnsafeRawPointer
  @usableFromInline let eventType: UnsafeRawPointer
  @usableFromInline let event: UnsafeRawPointer
  @usableFromInline let tag: Int
  @usableFromInline unowned(unsafe) let layout: EnumLayout
  /// Uninitialized memory of the state's type; holds the next state once the event has matched.
  @usableFromInline let next: UnsafeMutableRawPointer
  // Unmanaged, so that a step without a suspension or a list does no reference counting.
  /// A retained ``Suspension`` once the transition is suspended.
  @usableFromInline var suspension: Unmanaged<AnyObject>?
  /// The list that listing fills.
  @usableFromInline let listed: Unmanaged<EventList>?

  @inlinable
  init(
    status: Status, stateType: Any.Type, eventType: Any.Type, event: UnsafeRawPointer, tag: Int,
    layout: EnumLayout,
    next: UnsafeMutableRawPointer, listed: EventList? = nil
  ) {
    self.status = status
    self.stateType = TypeMetadata(stateType).pointer
    self.eventType = TypeMetadata(eventType).pointer
    self.event = event
    self.tag = tag
    self.layout = layout
    self.next = next
    self.listed = listed.map(Unmanaged.passUnretained)
  }

  /// Whether the next `On` may still answer the event.
  @inlinable
  var isUnanswered: Bool { status == .noTransition || status == .refusedByGuard }
}

/// The innermost context of the current thread.
@usableFromInline
enum MatchThread {
  @usableFromInline
  typealias Slot = UnsafeMutablePointer<UnsafeMutablePointer<MatchContext>?>

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let failed = pthread_key_create(&key) { $0?.deallocate() }
    precondition(
      failed == 0, "pthread_key_create failed: no thread-specific storage is left in this process.")
    return key
  }()

  /// The memory in which this thread keeps its context, allocated at the thread's first step.
  @usableFromInline
  static var slot: Slot {
    if let known = pthread_getspecific(key) {
      return known.assumingMemoryBound(to: UnsafeMutablePointer<MatchContext>?.self)
    }
    let slot = Slot.allocate(capacity: 1)
    slot.initialize(to: nil)
    pthread_setspecific(key, slot)
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
  // The closure runs once, on one task, after the step that made it has returned.
  @usableFromInline let run: () async throws -> Transition<State>
  // Set while that step runs.
  @usableFromInline var limit: Duration?

  @usableFromInline
  init(_ run: @escaping () async throws -> Transition<State>) { self.run = run }
}
