import PipeNode
import Testing

@Suite("The inbox of a machine")
struct MachineInboxTests {
  private typealias Inbox = MachineInbox<String, String>

  private func event(_ text: String, postponement: Int64? = nil) -> PipeEvent<String> {
    PipeEvent(.event(text), sequence: 1, stream: 1, postponement: postponement)
  }

  /// Returns an inbox with these events of each pipe.
  private func inbox(_ pipes: [String]..., requests: [String] = []) -> Inbox {
    var inbox = Inbox(pipes: pipes.count)
    for (pipe, events) in pipes.enumerated() {
      for text in events { inbox.append(event(text), of: pipe) }
    }
    for request in requests { inbox.append(request) }
    return inbox
  }

  private func text(_ input: Inbox.Input?) -> String? {
    switch input {
    case .request(let text): text
    case .event(let event, _):
      if case .event(let text) = event.content { text } else { nil }
    case nil: nil
    }
  }

  private func taken(_ inbox: inout Inbox, _ limit: Int = .max) -> [String] {
    var all: [String] = []
    while all.count < limit, let text = text(inbox.next()) { all.append(text) }
    return all
  }

  @Test("An empty inbox has no next input, with pipes or without")
  func empty() {
    for count in 0...3 {
      var inbox = Inbox(pipes: count)
      #expect(inbox.isEmpty)
      #expect(taken(&inbox) == [])
    }
  }

  @Test("Requests come before events of pipes, in the order in which the requests arrived")
  func requestsFirst() {
    var inbox = inbox(["a1", "a2"], requests: ["r1", "r2"])
    #expect(inbox.requestCount == 2)
    #expect(taken(&inbox, 3) == ["r1", "r2", "a1"])
    inbox.append("r3")
    #expect(taken(&inbox) == ["r3", "a2"])
    #expect(inbox.isEmpty)
  }

  @Test("Pipes take turns, and the events of each pipe keep their order")
  func turns() {
    var inbox = inbox(["a1", "a2", "a3"], ["b1"], ["c1", "c2"])
    #expect(taken(&inbox) == ["a1", "b1", "c1", "a2", "c2", "a3"])
  }

  @Test("An event that arrives late is returned at its pipe's next turn")
  func late() {
    var inbox = inbox(["a1", "a2"], [], ["c1", "c2"])
    #expect(taken(&inbox, 1) == ["a1"])
    inbox.append(event("b1"), of: 1)
    #expect(taken(&inbox) == ["b1", "c1", "a2", "c2"])
  }

  @Test("A turn skips empty pipes, even if almost a hundred pipes are empty")
  func manyPipes() {
    var inbox = Inbox(pipes: 100)
    for pipe in [99, 64, 3, 63] {
      for number in 1...2 { inbox.append(event("\(pipe).\(number)"), of: pipe) }
    }
    #expect(taken(&inbox) == ["3.1", "63.1", "64.1", "99.1", "3.2", "63.2", "64.2", "99.2"])
    #expect(inbox.isEmpty)
  }

  @Test("An input contains the index of the pipe that it came through")
  func places() {
    var inbox = inbox(["a1"], ["b1"])
    var pipes: [Int] = []
    while case .event(_, let pipe) = inbox.next() { pipes.append(pipe) }
    #expect(pipes == [0, 1])
  }

  @Test("The inbox counts a postponed event, but does not return the event before a retry")
  func postponed() {
    var inbox = inbox(["a1", "a2"])
    #expect(taken(&inbox, 1) == ["a1"])
    inbox.postpone(event("a1", postponement: 1), of: 0)
    #expect(inbox.waitingCount(of: 0) == 2)
    #expect(taken(&inbox) == ["a2"])
    #expect(inbox.isEmpty)
    #expect(inbox.waitingCount(of: 0) == 1)
    inbox.retryPostponed()
    #expect(!inbox.isEmpty)
    #expect(taken(&inbox) == ["a1"])
  }

  @Test("Postponed events come before other events of their pipe, in the order of postponement")
  func retried() {
    var inbox = inbox(["a3"])
    inbox.postpone(event("a1", postponement: 1), of: 0)
    inbox.postpone(event("a2", postponement: 2), of: 0)
    inbox.retryPostponed()
    #expect(taken(&inbox) == ["a1", "a2", "a3"])
  }

  @Test("After a retry, the pipe with the oldest postponed event has the first turn")
  func oldest() {
    var inbox = inbox(["a2"], ["b2"], ["c1"])
    inbox.postpone(event("a1", postponement: 5), of: 0)
    inbox.postpone(event("b1", postponement: 4), of: 1)
    inbox.retryPostponed()
    #expect(taken(&inbox) == ["b1", "c1", "a1", "b2", "a2"])
  }

  @Test("A retry without postponed events does not change the order of turns")
  func nothingToRetry() {
    var inbox = inbox(["a1", "a2"], ["b1"])
    #expect(taken(&inbox, 1) == ["a1"])
    inbox.retryPostponed()
    #expect(taken(&inbox) == ["b1", "a2"])
  }

  @Test("The inbox keeps the events when all requests are removed")
  func removal() {
    var inbox = inbox(["a1"], requests: ["r1", "r2"])
    #expect(inbox.removeRequests() == ["r1", "r2"])
    #expect(inbox.requestCount == 0)
    #expect(taken(&inbox) == ["a1"])
  }
}
