import PipeInspector
import Testing

@Suite("The connections that a web server keeps")
struct ConnectionTableTests {
  private static let start = ContinuousClock.now

  /// A server with at most three connections, identified by their sockets. Each event happens one
  /// second after the event before.
  private struct Server {
    private var table = ConnectionTable<Int32>(limit: 3, requestTime: .seconds(100))
    private(set) var now = ConnectionTableTests.start

    mutating func open(_ sockets: Int32...) -> [Int32] {
      sockets.compactMap { socket in
        now += .seconds(1)
        return table.opened(socket, socket: socket, at: now)
      }
    }

    mutating func ask(_ socket: Int32) {
      now += .seconds(1)
      table.requestReceived(socket, at: now)
    }

    mutating func answer(_ socket: Int32) {
      ask(socket)
      table.answered(socket, at: now)
    }

    mutating func end(_ socket: Int32) {
      answer(socket)
      table.ended(socket, at: now)
    }

    mutating func close(_ socket: Int32) { table.closed(socket) }

    mutating func overdue(after span: Duration) -> [Int32] {
      now += span
      return table.overdue(at: now).sorted()
    }
  }

  @Test("All connections are kept while there is capacity")
  func room() {
    var server = Server()
    #expect(server.open(1, 2, 3) == [])
    server.close(2)
    #expect(server.open(4) == [])
  }

  @Test("The connection that has been slow to send its request for longest is closed first")
  func slowToAsk() {
    var server = Server()
    #expect(server.open(1, 2, 3) == [])
    server.answer(2)
    #expect(server.open(4) == [1])
    #expect(server.open(5) == [3])
    // After one request, the connection has just begun to send the next one.
    server.end(4)
    #expect(server.open(6) == [5])
    #expect(server.open(7) == [4])
  }

  @Test("A slow reader is closed only if no connection is slow to send its request")
  func slowToRead() {
    var server = Server()
    #expect(server.open(1, 2, 3) == [])
    for socket: Int32 in [2, 1, 3] { server.answer(socket) }
    #expect(server.open(4) == [2])
    #expect(server.open(5) == [4])
  }

  @Test(
    "A connection that waits for a response is never closed, even if one too many are open")
  func waiting() {
    var server = Server()
    #expect(server.open(1, 2, 3) == [])
    for socket: Int32 in [1, 2, 3] { server.ask(socket) }
    #expect(server.open(4) == [])
    #expect(server.open(5) == [4])
    server.ask(5)
    #expect(server.open(6) == [])
    server.answer(2)
    #expect(server.open(7, 8) == [6, 7])
    server.ask(8)
    #expect(server.open(9) == [2])
  }

  @Test("A closing connection no longer counts toward the limit and is not closed again")
  func parting() {
    var server = Server()
    #expect(server.open(1, 2, 3, 4) == [1])
    // Its pending response may still be completed.
    server.answer(1)
    #expect(server.open(5) == [2])
    server.close(1)
    server.close(2)
    #expect(server.open(6) == [3])
    #expect(server.overdue(after: .seconds(200)) == [4, 5, 6])
    #expect(server.overdue(after: .seconds(200)) == [])
  }

  @Test("A request must arrive completely in time, and a response may take any time")
  func overdue() {
    var server = Server()
    #expect(server.open(1, 2, 3) == [])
    server.ask(1)
    server.answer(2)
    #expect(server.overdue(after: .seconds(97)) == [])
    #expect(server.overdue(after: .seconds(1)) == [3])
    #expect(server.overdue(after: .seconds(1_000)) == [])
    server.end(1)
    #expect(server.overdue(after: .seconds(99)) == [])
    #expect(server.overdue(after: .seconds(1)) == [1])
  }
}
