/// A binding to a value in a view state. A view reads the value, and sets it by sending an event.
///
/// The type does not depend on any user interface library. With SwiftUI, `Binding(binding)` makes a
/// SwiftUI binding.
///
/// A subview that receives a binding declares a property with the attribute `@Binding`. The subview
/// passes the binding on with a `$` before the name of the property:
///
/// ```swift
/// struct MessageField {
///   @Binding var message: String
///   var field: TextField { TextField("Message", $message) }
/// }
/// ```
@MainActor
@propertyWrapper
public struct ValueBinding<Value> {
  /// Reads the value.
  public let get: @MainActor () -> Value
  /// Sends the event for the new value. Events are sent in the order of the calls.
  public let set: @MainActor (Value) -> Void
  let timers: ViewTimers

  /// The value. Setting this property sends an event. The value changes only if the machine accepts
  /// that event.
  public var wrappedValue: Value {
    get { get() }
    nonmutating set { set(newValue) }
  }

  /// The binding itself: `$message` of `@Binding var message: String`.
  public var projectedValue: Self { self }

  /// Makes a binding from functions that read and set the value.
  public init(get: @escaping @MainActor () -> Value, set: @escaping @MainActor (Value) -> Void) {
    self.init(get: get, set: set, timers: ViewTimers())
  }

  /// Makes a copy of a binding that is passed with a `$`.
  public init(projectedValue: Self) { self = projectedValue }

  init(
    get: @escaping @MainActor () -> Value, set: @escaping @MainActor (Value) -> Void,
    timers: ViewTimers
  ) {
    self.get = get
    self.set = set
    self.timers = timers
  }

  /// Makes a binding with a constant value, for previews and tests. Setting the value does nothing.
  public static func constant(_ value: Value) -> Self {
    Self(get: { value }, set: { _ in })
  }

  /// Returns a binding that waits for the given time before it sends a value. A new value replaces
  /// a waiting value, which is not sent.
  /// - Parameters:
  ///   - duration: The time to wait. The clock is ``EffectClock``.
  ///   - id: The identity of the debounced value. A new value replaces a waiting value with the
  ///     same `id` in the same view state, even if the two values are set through different
  ///     bindings. Default: the source location of the call.
  public func debounce(
    for duration: Duration, id: some Hashable = Int?.none,
    fileID: StaticString = #fileID, line: UInt = #line, column: UInt = #column
  ) -> Self {
    let key = ViewTimers.Key(id: AnyHashable(id), sourceLocation: "\(fileID):\(line):\(column)")
    let clock = EffectClock.current
    return Self(
      get: get,
      set: { [timers, set] value in
        timers.start(key, duration, clock) { set(value) }
      },
      timers: timers)
  }
}

#if !canImport(SwiftUI)
  /// A shorter name for ``ValueBinding``, for systems without SwiftUI, which has its own `Binding`.
  public typealias Binding = ValueBinding
#endif

extension ValueBinding where Value: Equatable {
  /// Returns a binding that sends nothing if the new value equals the current value.
  public func distinct() -> Self {
    Self(get: get, set: { [get, set] value in if value != get() { set(value) } }, timers: timers)
  }
}

extension ViewState {
  /// Returns a binding to the state. Setting the value sends `event`.
  public func binding(send event: Event) -> ValueBinding<State> { binding { _ in event } }

  /// Returns a binding to the state. Setting the value sends the event that the closure makes from
  /// the new state.
  public func binding(send event: @escaping @MainActor (State) -> Event) -> ValueBinding<State> {
    ValueBinding(get: { self.state }, set: { self.post(event($0)) }, timers: timers)
  }

  /// Returns a binding to a property of the state. Setting the value sends `event`.
  public func binding<Value>(
    keypath: KeyPath<State, Value>, send event: Event
  ) -> ValueBinding<Value> { binding(keypath: keypath) { _ in event } }

  /// Returns a binding to a property of the state. Setting the value sends the event that the
  /// closure makes from the new value.
  public func binding<Value>(
    keypath: KeyPath<State, Value>, send event: @escaping @MainActor (Value) -> Event
  ) -> ValueBinding<Value> {
    ValueBinding(
      get: { self.state[keyPath: keypath] }, set: { self.post(event($0)) }, timers: timers)
  }
}

/// The timers of the debounced values that have not been sent yet.
@MainActor
final class ViewTimers {
  struct Key: Hashable {
    let id: AnyHashable
    let sourceLocation: String
  }

  private var runningTimers: [Key: (number: Int, task: Task<Void, Never>)] = [:]
  private var lastNumber = 0

  /// Calls `action` after a time. Starting a timer with the same key again cancels the previous
  /// call.
  func start(
    _ key: Key, _ duration: Duration, _ clock: any Clock<Duration>,
    _ action: @escaping @MainActor () -> Void
  ) {
    runningTimers[key]?.task.cancel()
    lastNumber += 1
    let number = lastNumber
    let task = Task { [weak self] in
      guard (try? await clock.sleep(for: duration)) != nil, !Task.isCancelled else { return }
      action()
      if let self, runningTimers[key]?.number == number { runningTimers[key] = nil }
    }
    runningTimers[key] = (number, task)
  }

  isolated deinit { for timer in runningTimers.values { timer.task.cancel() } }
}
