/// One machine of a running composite, whatever its types. Its ``CompositeRun``'s drainer calls it.
protocol ComponentHost: AnyObject {
  var name: String { get }
  var state: any MachineState { get }
  var version: UInt64 { get }
  /// Whether it may take an input now.
  var isReady: Bool { get }
  /// Whether nothing is under way in it, and nothing waits for it.
  var isAtRest: Bool { get }
  /// Takes part in a synchronized event whose transitions run: keeps all other inputs.
  var isFrozen: Bool { get set }

  /// Enters the initial state.
  func start()
  /// Ends effects and lets all go that wait for it.
  func stop()
  /// Queues an event that was sent to it alone.
  /// - Parameter sender: The step that waits for the answer.
  func offer(
    _ event: any MachineEvent, by sender: AwaitedStep?,
    answer: @escaping (SendOutcome<any MachineState>) -> Void)
  /// Whether it is in a step that waits for this one, or is this one.
  func isInStep(awaiting step: AwaitedStep) -> Bool
  /// Takes what waits for it, a bounded number of inputs; returns whether it has stepped.
  func pump() -> Bool

  /// Asks whether it would take an event, and keeps the answer for ``adopt()``.
  /// - Returns: `nil` where it is busy: a transition of its own is running, or something that it sends
  ///   into is full. An asynchronous transition has a time limit.
  func prepare(_ event: SynchronizedEvent) -> Reduction<any Sendable>?
  /// A suspended preparation is run; ``returned()`` follows, once, however late that is.
  func begin()
  func returned()
  /// Gives the state that a suspended preparation has led to.
  func complete(with state: any Sendable)
  /// Forgets the answer: the machine stands where it stood.
  func abandon()
  /// Changes to the prepared state.
  func adopt()
  /// Enters the state that it has changed to.
  func enter()
}
