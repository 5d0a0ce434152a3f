import PipeRuntime
import Testing

@Suite("What may wait for a subscriber")
struct SubscriberRoomTests {
  /// Unit: bytes. Few of them fill what the system keeps on the way.
  private static let messageByteCount = 1 << 16

  /// How many of many messages reach a subscriber that begins to read when all have been sent.
  private func arrived(
    of count: Int, room: Int32, changedTo later: Int32, _ name: String
  ) throws -> Int {
    let directory = try TemporaryDirectory()
    let context = Context()
    let publisher = try Socket(.publisher, in: context)
    let subscriber = try Socket(.subscriber, in: context)
    defer {
      publisher.close()
      subscriber.close()
    }
    try publisher.setHighWaterMark(room)
    let endpoint = "ipc://" + directory.path + "/" + name
    try publisher.bind(endpoint)
    try subscriber.setHighWaterMark(1)
    try subscriber.subscribe(to: [])
    try subscriber.connect(endpoint)
    try wait(for: publisher)
    try publisher.setSendHighWaterMark(later)
    let message = [UInt8](repeating: 1, count: Self.messageByteCount)
    for _ in 0..<count { publisher.sendPart(message, more: false) }
    // The last one, which comes once there is room again, ends the reading.
    var arrived = 0
    var isLast = false
    while !isLast {
      while subscriber.receive({ _, bytes in
        if bytes.count == 1 { isLast = true } else { arrived += 1 }
      }) {}
      publisher.sendPart([0], more: false)
    }
    return arrived
  }

  /// Waits until a subscription has come.
  private func wait(for publisher: Socket) throws {
    let loop = PollLoop()
    let registration = loop.add(publisher) {
      while publisher.receive({ _, _ in loop.stop() }) {}
    }
    loop.run()
    loop.remove(registration)
  }

  @Test("it can be made less for those who are connected, who then miss what does not fit")
  func less() throws {
    let few = try arrived(of: 200, room: 10_000, changedTo: 16, "less")
    #expect((1..<100).contains(few), "\(few)")
  }

  @Test("it can be made more for those who are connected, who then miss nothing")
  func more() throws {
    #expect(try arrived(of: 200, room: 16, changedTo: 10_000, "more") == 200)
  }
}
