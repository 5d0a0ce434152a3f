import PipeMachines
import Synchronization
import Testing

private enum Job: MachineState, Equatable { case idle, working(Int), paused, done }
private enum Order: MachineEvent, Equatable { case work(Int), again, pause, finish, slow, never }
private enum Task_: MachineOutput { case run(Int), rest }
private enum Elsewhere: MachineEvent, Equatable { case started(Int), stopped }

private func machine() -> StateMachine<Job, Order, Task_> {
  StateMachine(initial: .idle) {
    When(
      states: OneOf {
        Job.idle; Job.working; Job.paused
      }
    ) { state in
      switch state {
      case .working(let number): Execute(output: .run(number))
      case .paused: Execute(output: .rest)
      default: Execute.noOutput
      }
    } transitions: {
      On(event: Order.work) { number in Transition(to: .working(number)) }
      On(event: .pause) { Transition(to: .paused) }
      On(event: .finish) { Transition(to: .done) }
      On(event: .slow) { _ in
        await Task.yield()
        return Transition(to: .paused)
      }
      On(event: .never) {
        Guard(predicate: false)
      } transition: {
        Transition(to: .done)
      }
    }
    When(state: Job.working) { number in
      On(event: .again) { Transition(to: .working(number)) }
    }
  }
}

/// Owns an engine as a node does: posted inputs are processed through a queue in one isolation.
private final class Owner {
  let engine: Engine<Job, Order, Task_>
  private let posts: AsyncStream<EngineInput<Job, Order>>.Iterator
  private(set) var entries: [String] = []

  init(_ runtime: Runtime<Job, Order, Task_> = Runtime()) {
    let (stream, continuation) = AsyncStream.makeStream(of: EngineInput<Job, Order>.self)
    posts = stream.makeAsyncIterator()
    engine = Engine(machine: machine(), runtime: runtime) { continuation.yield($0) }
    engine.onEntry = { [unowned self] in entries.append("\($1) \($0) by \($2)") }
    engine.start()
  }

  /// Processes posted inputs until the condition holds.
  func process(until condition: () -> Bool) async {
    var posts = posts
    while !condition(), let input = await posts.next() { engine.process(input) }
  }

  /// Waits for one posted input without processing it.
  func nextPost() async -> EngineInput<Job, Order>? {
    var posts = posts
    return await posts.next()
  }
}

@Suite("The engine that runs a machine")
struct EngineTests {
  @Test("For a synchronous step, 'take' calls the reply closure before 'take' returns")
  func steps() {
    let owner = Owner()
    var outcomes: [StepOutcome<Job>] = []
    #expect(owner.engine.take(.work(1), cause: "test") { outcomes.append($0) } == outcomes.last)
    owner.engine.take(.never, cause: "test") { outcomes.append($0) }
    owner.engine.take(.again, cause: "test") { outcomes.append($0) }
    owner.engine.take(.finish, cause: "test") { outcomes.append($0) }
    owner.engine.take(.again, cause: "test") { outcomes.append($0) }
    #expect(
      outcomes == [
        .accepted(.working(1), version: 1), .refused(.guard), .accepted(.working(1), version: 2),
        .accepted(.done, version: 3), .refused(.noTransition),
      ])
    #expect(
      owner.entries == [
        "0 idle by initial", "1 working(1) by test", "2 working(1) by test", "3 done by test",
      ])
  }

  @Test("Events that arrive during an asynchronous transition wait and keep their order")
  func suspends() async {
    let owner = Owner()
    var outcomes: [StepOutcome<Job>] = []
    #expect(owner.engine.take(.slow, cause: "a") { outcomes.append($0) } == .pending)
    #expect(owner.engine.isInTransition)
    #expect(!owner.engine.canTakeInput)
    #expect(owner.engine.take(.work(1), cause: "b") { outcomes.append($0) } == .pending)
    #expect(owner.engine.take(.again, cause: "c") { outcomes.append($0) } == .pending)
    #expect(outcomes.isEmpty)
    await owner.process { outcomes.count == 3 }
    #expect(
      outcomes == [
        .accepted(.paused, version: 1), .accepted(.working(1), version: 2),
        .accepted(.working(1), version: 3),
      ])
    #expect(owner.entries[1] == "1 paused by a")
  }

  @Test("The initial state runs its output, its middleware and its pipe rules")
  func initial() {
    let seen = Mutex<[Job]>([])
    let pipe = EventPipe<Elsewhere>()
    let receiver = pipe.attach {}
    let runtime = Runtime<Job, Order, Task_>()
      .register(middleware: { (state: Job) in seen.withLock { $0.append(state) } })
      .connectAsSender(to: pipe, when: Job.idle, send: Elsewhere.stopped)
    let owner = Owner(runtime)
    #expect(seen.withLock { $0 } == [.idle])
    #expect(receiver.next() == .stopped)
    owner.engine.stop()
  }

  @Test("Each entry into a state sends into its pipes in declared order, with the state's values")
  func sends() {
    let pipe = EventPipe<Elsewhere>()
    let receiver = pipe.attach {}
    let runtime = Runtime<Job, Order, Task_>()
      .connectAsSender(to: pipe, when: Job.working, send: Elsewhere.started)
      .connectAsSender(
        to: pipe, forEachState: { state in state == .idle ? nil : Elsewhere.started(0) }
      )
      .connectAsSender(
        to: pipe,
        when: OneOf {
          Job.working; Job.done
        }, send: Elsewhere.stopped)
    let owner = Owner(runtime)
    for event in [Order.work(7), .again, .finish] { owner.engine.take(event, cause: "test") }
    var sent: [Elsewhere] = []
    while let event = receiver.next() { sent.append(event) }
    let working: [Elsewhere] = [.started(7), .started(0), .stopped]
    #expect(sent == working + working + [.started(0), .stopped])
  }

  /// The outlet of a host's pipe.
  private final class Outlet: PipeOutlet {
    let full = Mutex(false)
    let asked = Mutex(0)

    func enqueue(_ event: Elsewhere) {}
    var isFull: Bool {
      asked.withLock { $0 += 1 }
      return full.withLock { $0 }
    }
  }

  @Test("An engine checks the capacity only of the hosted pipes that it has sent into")
  func roomOfHostedPipes() {
    let outlets = (0..<20).map { _ in Outlet() }
    var runtime = Runtime<Job, Order, Task_>()
    for (number, outlet) in outlets.enumerated() {
      let pipe = EventPipe<Elsewhere>()
      pipe.bind(to: outlet)
      runtime =
        number == 19
        ? runtime.connectAsSender(to: pipe, when: Job.paused, send: .stopped)
        : runtime.connectAsSender(to: pipe, when: Job.working, send: Elsewhere.started)
    }
    let owner = Owner(runtime)
    for _ in 0..<10 {
      #expect(owner.engine.canTakeInput)
      owner.engine.take(.pause, cause: "test")
    }
    #expect(outlets.map { $0.asked.withLock { $0 } } == Array(repeating: 1, count: 19) + [10])
    outlets[19].full.withLock { $0 = true }
    #expect(!owner.engine.canTakeInput)
    outlets[19].full.withLock { $0 = false }
    owner.engine.take(.work(1), cause: "test")
    #expect(owner.engine.canTakeInput)
    owner.engine.take(.work(2), cause: "test")
    for outlet in outlets { outlet.full.withLock { $0 = true } }
    #expect(!owner.engine.canTakeInput)
    for outlet in outlets.dropFirst() { outlet.full.withLock { $0 = false } }
    #expect(!owner.engine.canTakeInput)
    outlets[0].full.withLock { $0 = false }
    #expect(owner.engine.canTakeInput)
  }

  @Test("The engine accepts no input while a pipe is full")
  func backPressure() async {
    let pipe = EventPipe<Elsewhere>(capacity: 2)
    let receiver = pipe.attach {}
    let owner = Owner(
      Runtime().connectAsSender(to: pipe, when: Job.working, send: Elsewhere.started))
    owner.engine.take(.work(1), cause: "test")
    #expect(owner.engine.canTakeInput)
    owner.engine.take(.again, cause: "test")
    #expect(!owner.engine.canTakeInput)
    #expect(receiver.next() == .started(1))
    #expect(owner.engine.canTakeInput)
    // The owner has been notified.
    await owner.process { true }
    guard case .wake? = await owner.nextPost() else {
      Issue.record("no wake")
      return
    }
  }

  @Test("The engine processes each event of an effect's sequence after the previous event's step")
  func sequence() async {
    let produced = Mutex(0)
    let runtime = Runtime<Job, Order, Task_>()
      .map(
        output: Task_.rest,
        to: {
          AsyncStream<Order> {
            let count = produced.withLock {
              $0 += 1; return $0
            }
            return count <= 3 ? .work(count) : nil
          }
        })
    let owner = Owner(runtime)
    owner.engine.take(.pause, cause: "test")
    #expect(owner.engine.runningEffectCount == 1)
    let first = await owner.nextPost()
    #expect(produced.withLock { $0 } == 1)
    if let first { owner.engine.process(first) }
    await owner.process { owner.engine.runningEffectCount == 0 }
    #expect(
      owner.entries.suffix(3).map { $0 } == [
        "2 working(1) by effect", "3 working(2) by effect", "4 working(3) by effect",
      ])
  }

  @Test("A stopped engine ignores its effects' events, and releases the effects")
  func stops() async {
    let released = AsyncStream.makeStream(of: Bool.self)
    let runtime = Runtime<Job, Order, Task_>()
      .map(
        output: Task_.rest,
        to: { () async -> Order? in
          await withTaskCancellationHandler {
            await Task.yield()
            return .finish
          } onCancel: {
            released.continuation.yield(true)
          }
        })
    let owner = Owner(runtime)
    owner.engine.take(.pause, cause: "test")
    let post = await owner.nextPost()
    owner.engine.stop()
    if let post { owner.engine.process(post) }
    #expect(owner.engine.state == .paused)
    #expect(owner.engine.runningEffectCount == 0)
    #expect(!owner.engine.canTakeInput)
  }

  @Test("A second effect for an output is reported, and the first effect remains")
  func duplicates() {
    let runtime = Runtime<Job, Order, Task_>()
      .map(output: Task_.rest, to: { .finish })
      .map(output: Task_.run, to: { _ in nil })
      .map(output: Task_.rest, to: { nil })
    #expect(runtime.problems.count == 1)
    #expect(runtime.problems.first?.contains("'rest'") == true)
  }

  @Test("Named pipes are listed as ports with their events")
  func ports() {
    let ports = Ports()
    let runtime = Runtime<Job, Order, Task_>()
      .connectAsSender(to: ports.pipe("started"), when: Job.working, send: Elsewhere.started)
      .connectAsSender(to: ports.pipe("started"), when: Job.done, send: Elsewhere.stopped)
      .connectAsSender(to: EventPipe(), when: Job.done, send: Elsewhere.stopped)
      .connectAsReceiver(to: ports.pipe("orders"))
    #expect(runtime.outPorts.map(\.name) == ["started"])
    #expect(runtime.outPorts.first?.eventType == "Elsewhere")
    #expect(runtime.outPorts.first?.events.map(\.name) == ["started", "stopped"])
    #expect(runtime.inPorts.map(\.name) == ["orders"])
    #expect(runtime.inPorts.first?.eventType == "Order")
    #expect(runtime.unnamedPipeCount == 1)
  }

  @Test("A port lists the events that it can send, unless a function creates one of the events")
  func sentEvents() {
    let ports = Ports()
    let known = Runtime<Job, Order, Task_>()
      .connectAsSender(to: ports.pipe("ends"), when: Job.done, send: Elsewhere.stopped)
      .connectAsSender(to: ports.pipe("ends"), when: Job.idle, send: Elsewhere.started(1))
      .connectAsSender(to: ports.pipe("ends"), when: Job.paused, send: Elsewhere.stopped)
    #expect(known.outPorts.map(\.sentEvents) == [["stopped", "started"]])
    let unknown = known.connectAsSender(
      to: ports.pipe("ends"), when: Job.working, send: Elsewhere.started)
    #expect(unknown.outPorts.map(\.sentEvents) == [nil])
    #expect(unknown.outPorts.map(\.name) == ["ends"])
  }
}

@Suite("Execution strategies of effects")
struct StrategyTests {
  /// Starts an effect that never ends by itself, lets the engine process an event, and returns the
  /// number of effects that still run.
  private func running(
    after event: Order, _ strategy: ExecutionStrategy<Job>
  ) async -> Int {
    let cancelled = AsyncStream.makeStream(of: Void.self)
    let runtime = Runtime<Job, Order, Task_>()
      .map(
        output: Task_.run,
        to: { (_: Int) async -> Order? in
          for await _ in AsyncStream<Void>.makeStream().stream {}
          cancelled.continuation.yield()
          return .finish
        }, strategy: strategy)
    let owner = Owner(runtime)
    owner.engine.take(.work(1), cause: "test")
    owner.engine.take(event, cause: "test")
    let count = owner.engine.runningEffectCount
    owner.engine.stop()
    // All running effects were cancelled, by their strategy or by the stop.
    for await _ in cancelled.stream { break }
    return count
  }

  @Test("'continueWhenAnyState' lets an effect run through any state")
  func goOn() async {
    #expect(await running(after: .pause, .continueWhenAnyState) == 1)
    #expect(await running(after: .again, .continueWhenAnyState) == 2)
  }

  @Test("'cancelWhenAnyState' ends an effect at the next entry, before the next effect starts")
  func cancelAny() async {
    #expect(await running(after: .pause, .cancelWhenAnyState) == 0)
    #expect(await running(after: .again, .cancelWhenAnyState) == 1)
    #expect(await running(after: .never, .cancelWhenAnyState) == 1)
  }

  @Test("'cancel(when:)' ends an effect at a state, a case, a set of cases, or a predicate")
  func cancelWhen() async {
    #expect(await running(after: .pause, .cancel(when: Job.paused)) == 0)
    #expect(await running(after: .finish, .cancel(when: Job.paused)) == 1)
    #expect(await running(after: .work(2), .cancel(when: Job.working)) == 1)
    #expect(
      await running(
        after: .pause,
        .cancel(
          when: OneOf {
            Job.paused; Job.done
          })) == 0)
    #expect(await running(after: .pause, .cancel(when: { $0 == .paused })) == 0)
    #expect(await running(after: .pause, .cancel(when: { $0 == .done })) == 1)
  }
}
