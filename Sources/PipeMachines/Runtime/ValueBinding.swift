/// A value of a view state that a view reads, and sets by sending an event.
///
/// It takes no part in any user interface library. Where there is SwiftUI, `Binding(binding)` is its own.
///
/// A part of a view that is given a binding declares it as an attribute, and passes it on by its name with a `$`:
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
  /// Sends the event that stands for setting the value. Events go out in the order of the calls.
  public let set: @MainActor (Value) -> Void
  let timers: ViewTimers

  /// The value, which setting does not change by itself: the machine does, if it takes the event.
  public var wrappedValue: Value {
    get { get() }
    nonmutating set { set(newValue) }
  }

  /// The binding itself: `$message` of `@Binding var message: String`.
  public var projectedValue: Self { self }

  /// Makes a binding of functions that read and set the value.
  public init(get: @escaping @MainActor () -> Value, set: @escaping @MainActor (Value) -> Void) {
    self.init(get: get, set: set, timers: ViewTimers())
  }

  /// Takes a binding, as an argument with a `$` does.
  public init(projectedValue: Self) { self = projectedValue }

  init(
    get: @escaping @MainActor () -> Value, set: @escaping @MainActor (Value) -> Void,
    timers: ViewTimers
  ) {
    self.get = get
    self.set = set
    self.timers = timers
  }

  /// A binding whose value stays, for previews and tests: setting it does nothing.
  public static func constant(_ value: Value) -> Self {
    Self(get: { value }, set: { _ in })
  }

  /// The binding that sends once the value has not been set for a while, and then the last one.
  /// - Parameters:
  ///   - duration: How long, by the clock of effects.
  ///   - id: Which setting it is. Settings of one view state with the same `id` replace each other,
  ///     also if the binding is made anew for each. Default: the place of the call in the source.
  public func debounce(
    for duration: Duration, id: some Hashable = Int?.none,
    fileID: StaticString = #fileID, line: UInt = #line, column: UInt = #column
  ) -> Self {
    let key = ViewTimers.Key(id: AnyHashable(id), place: "\(fileID):\(line):\(column)")
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
  /// The same by the name that SwiftUI has for its own. On systems that have SwiftUI there is
  /// ``ValueBinding`` alone.
  public typealias Binding = ValueBinding
#endif

extension ValueBinding where Value: Equatable {
  /// The binding that sends nothing where the value set is the one that it has.
  public func distinct() -> Self {
    Self(get: get, set: { [get, set] value in if value != get() { set(value) } }, timers: timers)
  }
}

extension ViewState {
  /// The state; setting it sends `event`.
  public func binding(send event: Event) -> ValueBinding<State> { binding { _ in event } }

  /// The state; setting it sends the event made of the state set.
  public func binding(send event: @escaping @MainActor (State) -> Event) -> ValueBinding<State> {
    ValueBinding(get: { self.state }, set: { self.post(event($0)) }, timers: timers)
  }

  /// A property of the state; setting it sends `event`.
  public func binding<Value>(
    keypath: KeyPath<State, Value>, send event: Event
  ) -> ValueBinding<Value> { binding(keypath: keypath) { _ in event } }

  /// A property of the state; setting it sends the event made of the value set.
  public func binding<Value>(
    keypath: KeyPath<State, Value>, send event: @escaping @MainActor (Value) -> Event
  ) -> ValueBinding<Value> {
    ValueBinding(
      get: { self.state[keyPath: keypath] }, set: { self.post(event($0)) }, timers: timers)
  }
}

/// The settings that wait for a pause.
@MainActor
final class ViewTimers {
  struct Key: Hashable {
    let id: AnyHashable
    let place: String
  }

  private var running: [Key: (number: Int, task: Task<Void, Never>)] = [:]
  private var last = 0

  /// Calls `action` after a time, unless it is started again before.
  func start(
    _ key: Key, _ duration: Duration, _ clock: any Clock<Duration>,
    _ action: @escaping @MainActor () -> Void
  ) {
    running[key]?.task.cancel()
    last += 1
    let number = last
    let task = Task { [weak self] in
      guard (try? await clock.sleep(for: duration)) != nil, !Task.isCancelled else { return }
      action()
      if let self, running[key]?.number == number { running[key] = nil }
    }
    running[key] = (number, task)
  }

  isolated deinit { for timer in running.values { timer.task.cancel() } }
}
