import Glibc
import PipeRuntime
import Synchronization
import Testing

@Suite("The poll loop")
struct PollLoopTests {
  @Test("runs what other threads post, in the order of each, and stops when told")
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

  @Test("takes messages of several sockets, and timers between")
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

  @Test("timers fire when they are due, not before, also beside ones that are given up")
  func timers() {
    let loop = PollLoop()
    let clock = ContinuousClock()
    /// Between these each is due: this process may stand still while it schedules one.
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

  @Test("a file is always readable, and does not keep timers from firing")
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

  @Test("a source that is removed is not called any more")
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

  @Test("a timer that one due at the same time has cancelled does not fire")
  func cancellation() {
    let loop = PollLoop()
    var fired: [Int] = []
    var timers: [TimerQueue.ID] = []
    // All are due by the first turn.
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

  @Test("what has an owner that is gone is not called, also where both were due in one turn")
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

  @Test("a socket that is closed by what it brought has no more messages, and takes none")
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

  @Test("a socket that is closed is not read any more, also where both were readable in one turn")
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
