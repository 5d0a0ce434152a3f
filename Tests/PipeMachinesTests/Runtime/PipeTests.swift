import PipeMachines
import PipeSupport
import Synchronization
import Testing

private enum Count: MachineEvent, Equatable { case number(Int) }
private enum Other: MachineEvent { case bare }

private final class Outlet: PipeOutlet {
  typealias Event = Count
  let events = Mutex<[Count]>([])
  let full = Mutex(false)

  func enqueue(_ event: Count) { events.withLock { $0.append(event) } }
  var isFull: Bool { full.withLock { $0 } }
}

private func drain(_ receiver: PipeReceiver<Count>) -> [Int] {
  var numbers: [Int] = []
  while case .number(let number)? = receiver.next() { numbers.append(number) }
  return numbers
}

@Suite("Pipes in memory")
struct PipeTests {
  @Test("Every receiver gets the events in the order in which they were sent")
  func order() {
    let pipe = EventPipe<Count>()
    let receivers = (0..<3).map { _ in pipe.attach {} }
    for number in 0..<100 { pipe.send(.number(number)) }
    for receiver in receivers { #expect(drain(receiver) == Array(0..<100)) }
  }

  @Test("A receiver that attaches late is notified of the waiting events, and then of new events")
  func late() {
    let pipe = EventPipe<Count>()
    for number in 0..<10 { pipe.send(.number(number)) }
    let notified = Mutex(0)
    let receiver = pipe.attach { notified.withLock { $0 += 1 } }
    pipe.send(.number(10))
    #expect(drain(receiver) == Array(0...10))
    #expect(notified.withLock { $0 } == 2)
  }

  @Test("Events that a receiver has not read wait for the next receiver")
  func leave() {
    let pipe = EventPipe<Count>()
    let first = pipe.attach {}
    for number in 0..<4 { pipe.send(.number(number)) }
    #expect(first.next() == .number(0))
    pipe.detach(first)
    pipe.send(.number(4))
    #expect(drain(pipe.attach {}) == [1, 2, 3, 4])
  }

  @Test("A pipe is full when a receiver's queue reaches the capacity, and drops no event")
  func bounds() {
    let pipe = EventPipe<Count>(capacity: 2)
    pipe.send(.number(0))
    pipe.send(.number(1))
    let receiver = pipe.attach {}
    #expect(pipe.isFull)
    pipe.send(.number(2))
    #expect(receiver.next() == .number(0))
    #expect(pipe.isFull)
    #expect(receiver.next() == .number(1))
    #expect(!pipe.isFull)
    #expect(receiver.next() == .number(2))
    #expect(pipe.discarded == 0)
  }

  @Test(
    "A pipe without a receiver keeps the latest events, counts dropped events, and warns once")
  func nobody() {
    let warnings = Locked<[String]>([])
    Warnings.$tell.withValue({ text in warnings.withLock { $0.append(text) } }) {
      let pipe = EventPipe<Count>(capacity: 2)
      for number in 0..<2 { pipe.send(.number(number)) }
      #expect(!pipe.isFull)
      #expect(warnings.withLock { $0 } == [])
      for number in 2..<5 { pipe.send(.number(number)) }
      #expect(!pipe.isFull)
      #expect(pipe.discarded == 3)
      let receiver = pipe.attach {}
      #expect(pipe.isFull)
      #expect(drain(receiver) == [3, 4])
      // A receiver that detaches no longer makes the pipe full.
      for number in 5..<7 { pipe.send(.number(number)) }
      #expect(pipe.isFull)
      pipe.detach(receiver)
      #expect(!pipe.isFull)
      pipe.send(.number(7))
      #expect(pipe.discarded == 4)
      #expect(drain(pipe.attach {}) == [6, 7])
    }
    #expect(
      warnings.withLock { $0 } == [
        "a pipe of Count events has no receiver and is full with 2 events; the oldest events are "
          + "discarded"
      ])
  }

  @Test(
    "A pipe bound to an outlet forwards earlier events too, and is full when the outlet is full")
  func binding() {
    let pipe = EventPipe<Count>()
    let outlet = Outlet()
    pipe.send(.number(0))
    pipe.bind(to: outlet)
    pipe.send(.number(1))
    #expect(outlet.events.withLock { $0 } == [.number(0), .number(1)])
    #expect(!pipe.isFull)
    outlet.full.withLock { $0 = true }
    #expect(pipe.isFull)
  }
}

@Suite("Ports of a machine")
struct PortsTests {
  @Test("A port name identifies one pipe")
  func same() {
    let ports = Ports()
    let first: EventPipe<Count> = ports.pipe("numbers")
    let second: EventPipe<Count> = ports.pipe("numbers")
    #expect(first === second)
    #expect(first.name == "numbers")
    #expect(ports.problems.isEmpty)
  }

  @Test("A port name with two event types is reported")
  func clash() {
    let ports = Ports()
    let _: EventPipe<Count> = ports.pipe("numbers")
    let _: EventPipe<Other> = ports.pipe("numbers")
    #expect(ports.problems.count == 1)
    #expect(ports.problems[0].contains("'numbers'"))
  }

  @Test("A port binder receives each port once, in the order in which ports were first used")
  func binder() {
    final class Box: PortBinder {
      var names: [String] = []
      func bind<Event: MachineEvent>(_ pipe: EventPipe<Event>) {
        names.append("\(pipe.name ?? "") \(Event.self)")
      }
    }
    let ports = Ports()
    let _: EventPipe<Count> = ports.pipe("b")
    let _: EventPipe<Other> = ports.pipe("a")
    let _: EventPipe<Count> = ports.pipe("b")
    let box = Box()
    ports.bind(with: box)
    #expect(box.names == ["b Count", "a Other"])
  }
}

@Suite("Pipes that send an event for each accepted event")
struct EventPipeTests {
  private enum Lamp: DSLCompatible { case off, on }
  private enum Switch: DSLCompatible, Equatable { case press, release }
  private enum Heard: DSLCompatible, Equatable { case start, click(isOn: Bool) }

  @Test("A pipe sends the mapped event once for each accepted event, and for no other event")
  func events() async {
    let pipe = EventPipe<Heard>()
    let lamp = StateMachine<Lamp, Switch, Never>(initial: Lamp.off) {
      When(state: Lamp.off) {
        Execute.noOutput
      } transitions: {
        On(event: Switch.press) { Transition(to: Lamp.on) }
      }
      When(state: Lamp.on) {
        Execute.noOutput
      } transitions: {
        On(event: Switch.release) { Transition(to: Lamp.off) }
      }
    }
    let listener = StateMachine<Heard, Heard, Never>(initial: .start) { _, event in .next(event) }
    let run = AsyncStateMachineSequence(
      stateMachine: lamp,
      runtime: Runtime().connectAsSender(
        to: pipe,
        forEachEvent: { event in
          Heard.click(isOn: event == .press)
        }))
    let heard = AsyncStateMachineSequence(
      stateMachine: listener, runtime: Runtime().connectAsReceiver(to: pipe))
    for event in [Switch.release, .press, .press, .release] { await run.send(event) }
    var states: [Heard] = []
    for await state in heard {
      states.append(state)
      if states.count == 3 { break }
    }
    #expect(states == [.start, .click(isOn: true), .click(isOn: false)])
  }
}
