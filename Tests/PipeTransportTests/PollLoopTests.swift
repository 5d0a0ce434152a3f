import Glibc
import PipeSystem
import PipeTransport
import PipeWire
import Synchronization
import TestSupport
import Testing

@Suite("The poll loop")
struct PollLoopTests {
  @Test("The loop runs each thread's posted closures in order, and stops on request")
  func posts() {
    let seen = Mutex<[Int]>([])
    let thread = LoopThread { _ in }
    let count = 1_000
    let done = Semaphore()
    for number in 0..<count {
      thread.handle.post {
        seen.withLock { $0.append(number) }
        if number == count - 1 { done.signal() }
      }
    }
    done.wait()
    #expect(seen.withLock { $0 } == Array(0..<count))
  }

  @Test("The loop reads messages of several sockets, and runs timers in between")
  func sockets() throws {
    let endpoint = "inproc://poll-loop-test"
    let context = Context()
    let loop = PollLoop()
    let router = try Socket(.router, in: context)
    try router.bind(endpoint)
    let dealers = try (0..<3).map { _ in
      let dealer = try Socket(.dealer, in: context)
      try dealer.connect(endpoint)
      return dealer
    }
    var echoes = 0
    var ticks = 0
    loop.add(router) {
      while router.receive({ peer, bytes in
        if let header = try? FrameHeader(bytes) { router.send(header, to: peer) }
      }) {}
    }
    for dealer in dealers {
      loop.add(dealer) { [unowned loop] in
        while dealer.receive({ _, _ in echoes += 1 }) {}
        if echoes == 300 { loop.stop() }
      }
    }
    func tick() {
      ticks += 1
      for dealer in dealers { dealer.send(FrameHeader(.ping, sequence: UInt64(ticks))) }
      if ticks < 100 { loop.schedule(after: .microseconds(100), tick) }
    }
    loop.schedule(after: .zero, tick)
    loop.schedule(after: .seconds(20)) { [unowned loop] in loop.stop() }
    loop.run()
    #expect(echoes == 300)
    #expect(ticks == 100)
    for socket in dealers + [router] { socket.close() }
  }

  /// A source with work for a number of turns.
  private final class Worker {
    var left: Int
    var turns = 0
    init(_ left: Int) { self.left = left }
  }

  @Test("Sources take turns before each wait, and the loop does not wait while a source has work")
  func turns() {
    let loop = PollLoop()
    let workers = [Worker(3), Worker(7)]
    for worker in workers {
      loop.addTurnHandler(for: worker, hasWork: { $0.left > 0 }) { [unowned loop] worker in
        worker.turns += 1
        worker.left -= 1
        if workers.allSatisfy({ $0.left <= 0 }) { loop.stop() }
      }
    }
    // No event would wake the loop.
    loop.run()
    #expect(workers.map(\.left) == [-4, 0])
    #expect(workers.map(\.turns) == [7, 7])
  }

  @Test("A released or removed source takes no more turns")
  func turnsEnd() {
    let loop = PollLoop()
    let first = Worker(0)
    let second = Worker(0)
    let registration = loop.addTurnHandler(for: first, hasWork: { _ in false }) { $0.turns += 1 }
    loop.addTurnHandler(for: Worker(1), hasWork: { $0.left > 0 }) { _ in
      Issue.record("it has gone")
    }
    loop.addTurnHandler(for: second, hasWork: { _ in false }) { [unowned loop] worker in
      worker.turns += 1
      if worker.turns == 1 { loop.remove(registration) }
      if worker.turns == 3 { loop.stop() }
    }
    func tick() { loop.schedule(after: .microseconds(10), tick) }
    tick()
    loop.run()
    #expect(first.turns == 1 && second.turns == 3)
  }

  @Test("A source that is removed during a turn gets no further turn")
  func removedInTurn() {
    let loop = PollLoop()
    let (first, second, third) = (Worker(1), Worker(1), Worker(3))
    var registrations: [PollLoop.Registration] = []
    registrations.append(
      loop.addTurnHandler(for: first, hasWork: { $0.left > 0 }) { [unowned loop] worker in
        worker.turns += 1
        for registration in registrations { loop.remove(registration) }
      })
    registrations.append(
      loop.addTurnHandler(for: second, hasWork: { $0.left > 0 }) { _ in
        Issue.record("it was removed")
      })
    loop.addTurnHandler(for: third, hasWork: { $0.left > 0 }) { [unowned loop] worker in
      worker.turns += 1
      worker.left -= 1
      if worker.left == 0 { loop.stop() }
    }
    loop.run()
    #expect(first.turns == 1 && third.turns == 3)
  }

  @Test("A callback runs for the node that registered it, and a posted closure for the first node")
  func residents() throws {
    let loop = PollLoop()
    // Posts may come from other threads, but not here.
    nonisolated(unsafe) var now = 0
    nonisolated(unsafe) var seen: [String: Int] = [:]
    loop.onCurrentNodeChange = { now = $0 }
    let worker = Worker(1)
    loop.run(asNode: 2) {
      #expect(now == 2)
      loop.addTurnHandler(for: worker, hasWork: { _ in false }) { _ in seen["turn"] = now }
      loop.schedule(after: .milliseconds(1)) { [unowned loop] in
        seen["timer"] = now
        loop.schedule(after: .milliseconds(1)) {
          seen["timer of timer"] = now
          loop.stop()
        }
      }
    }
    #expect(now == 0)
    loop.schedule(after: .milliseconds(1)) { seen["other"] = now }
    loop.handle.post { seen["post"] = now }
    loop.run()
    #expect(
      seen == ["turn": 2, "timer": 2, "timer of timer": 2, "other": 0, "post": 0])
  }

  @Test("A new socket can bind a kept socket file again at once, any number of times")
  func keptFile() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/in"
    let context = Context()
    let dealer = try Socket(.dealer, in: context)
    try dealer.connect("ipc://" + path)
    for round in 1...20 {
      let router = try Socket(.router, in: context)
      try router.bindKeepingFile("ipc://" + path)
      let loop = PollLoop()
      loop.add(router) { [unowned loop] in
        while router.receive({ _, bytes in
          if (try? FrameHeader(bytes))?.sequence == UInt64(round) { loop.stop() }
        }) {}
      }
      func send() {
        dealer.send(FrameHeader(.ping, sequence: UInt64(round)))
        loop.schedule(after: .milliseconds(5), send)
      }
      loop.schedule(after: .zero, send)
      loop.schedule(after: .seconds(20)) { [unowned loop] in
        Issue.record("nothing has arrived in round \(round)")
        loop.stop()
      }
      loop.run()
      router.close()
      #expect(FileSystem.exists(path))
    }
    dealer.close()
  }

  @Test("An endpoint that cannot be bound causes an error")
  func badPlace() throws {
    let socket = try Socket(.router, in: Context())
    let long = "ipc:///" + String(repeating: "x", count: 200)
    for endpoint in ["ipc:///nowhere/in", long, "tcp://*"] {
      #expect(throws: TransportError.self) { try socket.bindKeepingFile(endpoint) }
    }
    socket.close()
  }

  @Test("Timers fire when they are due and not before, even beside cancelled timers")
  func timers() {
    let loop = PollLoop()
    let clock = ContinuousClock()
    /// The bounds of each timer's due time: the process may be suspended while it schedules a
    /// timer.
    var due: [ClosedRange<ContinuousClock.Instant>] = []
    var fired: [Int] = []
    let delays = [30, 5, 12, 5, 1].map(Duration.milliseconds)
    for (place, delay) in delays.enumerated() {
      let before = clock.now
      loop.schedule(after: delay) { [unowned loop] in
        #expect(due[place].lowerBound <= clock.now)
        fired.append(place)
        if fired.count == delays.count { loop.stop() }
      }
      due.append(before + delay...clock.now + delay)
    }
    for delay in [2, 3, 20] {
      loop.cancel(loop.schedule(after: .milliseconds(delay)) { Issue.record("was given up") })
    }
    loop.run()
    #expect(fired.sorted() == [0, 1, 2, 3, 4])
    for (first, second) in zip(fired, fired.dropFirst()) {
      #expect(due[first].lowerBound <= due[second].upperBound, "\(fired)")
    }
  }

  @Test("A regular file is always readable, and does not delay timers")
  func files() throws {
    let loop = PollLoop()
    let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
    defer { close(file) }
    var reads = 0
    var ticks = 0
    var registration: PollLoop.Registration?
    registration = loop.add(descriptor: file) { [unowned loop] in
      reads += 1
      if reads == 3, let registration { loop.remove(registration) }
    }
    func tick() {
      ticks += 1
      if ticks >= 3 && reads >= 3 {
        loop.stop()
      } else {
        loop.schedule(after: .milliseconds(1), tick)
      }
    }
    loop.schedule(after: .milliseconds(1), tick)
    loop.run()
    #expect(reads == 3)
  }

  @Test("A removed source is not called any more")
  func removal() throws {
    let loop = PollLoop()
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    var calls = 0
    var registration: PollLoop.Registration?
    registration = loop.add(descriptor: ends[0]) { [unowned loop] in
      calls += 1
      if let registration { loop.remove(registration) }
      loop.schedule(after: .milliseconds(5)) { loop.stop() }
    }
    _ = write(ends[1], "x", 1)
    loop.run()
    #expect(calls == 1)
  }

  @Test("A timer that is cancelled by another timer of the same time does not fire")
  func cancellation() {
    let loop = PollLoop()
    var fired: [Int] = []
    var timers: [TimerQueue.ID] = []
    // All timers are due by the first turn.
    for number in 0..<3 {
      timers.append(
        loop.schedule(after: .zero) { [unowned loop] in
          fired.append(number)
          loop.cancel(timers[1])
          if number == 2 { loop.stop() }
        })
    }
    loop.run()
    #expect(fired == [0, 2])
  }

  private final class Owner {}

  @Test("A callback is not called if its owner was released earlier in the same turn")
  func owners() throws {
    let context = Context()
    let loop = PollLoop()
    var owner: Owner? = Owner()
    var calls: [String] = []
    func callBack(_ name: String) -> (Owner) -> Void {
      { _ in
        calls.append(name)
        owner = nil
      }
    }
    let receivers = try (0..<2).map { number in
      let receiver = try Socket(.dealer, in: context)
      try receiver.bind("inproc://poll-loop-owners-\(number)")
      return receiver
    }
    let senders = try (0..<2).map { number in
      let sender = try Socket(.dealer, in: context)
      try sender.connect("inproc://poll-loop-owners-\(number)")
      sender.send(FrameHeader(.ping, sequence: 1))
      return sender
    }
    for receiver in receivers {
      loop.add(receiver, for: try #require(owner), onReadable: callBack("socket"))
    }
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    _ = write(ends[1], "x", 1)
    loop.add(descriptor: ends[0], for: try #require(owner), onReadable: callBack("descriptor"))
    loop.schedule(after: .zero, for: try #require(owner), callBack("timer"))
    loop.schedule(after: .milliseconds(5)) { [unowned loop] in loop.stop() }
    loop.run()
    #expect(calls.count == 1)
    for socket in receivers + senders { socket.close() }
  }

  @Test("A socket that is closed while it reads a message reads and sends nothing more")
  func closingWhileReading() throws {
    let context = Context()
    let receiver = try Socket(.dealer, in: context)
    try receiver.bind("inproc://poll-loop-closing-while-reading")
    let sender = try Socket(.dealer, in: context)
    try sender.connect("inproc://poll-loop-closing-while-reading")
    for number in 1...3 { sender.send(FrameHeader(.ping, sequence: UInt64(number))) }
    var count = 0
    while receiver.receive({ _, _ in
      count += 1
      receiver.close()
    }) {}
    #expect(count == 1)
    #expect(receiver.send(FrameHeader(.ping, sequence: 4)) == .wouldBlock)
    sender.close()
  }

  @Test("A socket that was closed earlier in the same turn is not read any more")
  func closing() throws {
    let context = Context()
    let loop = PollLoop()
    let pairs = try (0..<2).map { number in
      let receiver = try Socket(.dealer, in: context)
      try receiver.bind("inproc://poll-loop-closing-\(number)")
      let sender = try Socket(.dealer, in: context)
      try sender.connect("inproc://poll-loop-closing-\(number)")
      sender.send(FrameHeader(.ping, sequence: 1))
      return (receiver: receiver, sender: sender)
    }
    var calls = 0
    for (receiver, _) in pairs {
      loop.add(receiver) { [unowned loop] in
        calls += 1
        for pair in pairs { pair.receiver.close() }
        loop.schedule(after: .milliseconds(5)) { loop.stop() }
      }
    }
    loop.run()
    #expect(calls == 1)
    for pair in pairs { pair.sender.close() }
  }
}
