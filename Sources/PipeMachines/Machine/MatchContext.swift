#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// What an `On` looks at while a `When`'s transitions run: the event, and room for the outcome.
///
/// `On` values are built anew in each step, so they hold nothing: they compare themselves with
/// the context of the step that their thread is in. A step in a step saves and restores it.
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
  /// Uninitialized memory of the state's type; holds the next state once matched.
  @usableFromInline let next: UnsafeMutableRawPointer
  // Unmanaged, so that a context costs no counting of references in a step that needs neither.
  /// A retained ``Suspension`` once suspended.
  @usableFromInline var suspension: Unmanaged<AnyObject>?
  /// What listing has found.
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

  /// Whether an `On` still has a say.
  @inlinable
  var isOpen: Bool { status == .noTransition || status == .refusedByGuard }
}

/// The innermost context of the current thread.
@usableFromInline
enum MatchThread {
  @usableFromInline
  typealias Slot = UnsafeMutablePointer<UnsafeMutablePointer<MatchContext>?>

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    let failed = pthread_key_create(&key) { $0?.deallocate() }
    precondition(failed == 0, "No thread-specific storage is left in this process.")
    return key
  }()

  /// Where this thread keeps its context; allocated at the thread's first step.
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

  /// Calls `body` in the given context.
  @inlinable
  static func with(_ context: UnsafeMutablePointer<MatchContext>, _ body: () -> Void) {
    let slot = Self.slot
    let outer = slot.pointee
    slot.pointee = context
    body()
    slot.pointee = outer
  }
}

/// Carries an asynchronous transition out of its `On`.
@usableFromInline
final class Suspension<State: DSLCompatible>: @unchecked Sendable {
  // The closure runs once, on one task, after the step that made it has returned.
  @usableFromInline let run: () async throws -> Transition<State>
  // Set within that step.
  @usableFromInline var limit: Duration?

  @usableFromInline
  init(_ run: @escaping () async throws -> Transition<State>) { self.run = run }
}
