import PipeMachines
import PipeNode
import PipeWire
import Testing

/// Compares frames of pipes and requests with the bytes in docs/PROTOCOL.md.
@Suite("Frames of pipes and requests")
struct ConversationFrameTests {
  private func stream(_ number: UInt64) -> [UInt8] {
    withUnsafeBytes(of: number.littleEndian, Array.init)
  }

  @Test("A durable receiver's welcome frame has the durable flag, the event count and the stream")
  func welcome() {
    var receiver = InPipeStateMachine(
      capacity: 8, session: 3, stream: 0x0102_0304_0506_0708, lastApplied: 5, postponedCount: 2,
      senderClosed: false)
    guard case .welcome(let header, let number)? = receiver.connected().first else {
      Issue.record("no welcome")
      return
    }
    #expect(
      header.frame(body: stream(number)) == [
        0x70, 3, 4, 1, 6, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
        8, 7, 6, 5, 4, 3, 2, 1,
      ])
    var volatile = InPipeStateMachine(capacity: 8, session: 3)
    guard case .welcome(let plain, 0)? = volatile.connected().first else {
      Issue.record("no welcome, or one with a stream")
      return
    }
    #expect(plain.flags == 0)
  }

  @Test("The body of a sender's open frame is the number of the sender's stream")
  func open() {
    var sender = OutPipeStateMachine(
      capacity: 8, stream: 0x0102_0304_0506_0708, lastAcknowledged: 5, events: [[UInt8]]())
    let actions = sender.welcomed(
      session: 3, stream: 0x0102_0304_0506_0708, received: 5, window: 8, isDurable: true)
    guard case .open(let header, let number)? = actions.first else {
      Issue.record("\(actions)")
      return
    }
    #expect(
      header.frame(body: stream(number)) == [
        0x70, 3, 1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
        8, 7, 6, 5, 4, 3, 2, 1,
      ])
  }

  @Test("A request frame has the client's number and the distance to its oldest pending request")
  func request() {
    let header = FrameHeader(.request, count: 2, sequence: 7, incarnationOrSession: 0x0A0B)
    #expect(
      header.frame(body: Array("\"go\"".utf8)) == [
        0x70, 3, 16, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0x0B, 0x0A, 0, 0, 0, 0, 0, 0,
        0x22, 0x67, 0x6F, 0x22,
      ])
  }

  @Test("The explain frame and its replies match the documented bytes")
  func explain() throws {
    #expect(
      FrameHeader(.explain, sequence: 7).frame(body: Array("\"go\"".utf8)) == [
        0x70, 3, 20, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0x22, 0x67, 0x6F, 0x22,
      ])
    #expect(
      FrameHeader(.reply, count: RequestReply.Code.explained.rawValue, sequence: 7).frame() == [
        0x70, 3, 17, 0, 7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      ])
    let prepared = InDoubtTransaction(
      participant: "door", composite: "lift", event: "stop",
      transaction: TransactionID(epoch: 3, sequence: 17), since: 1_700_000_000_000_000_000)
    let node = NodeExplanation(
      state: "shut", version: 4, events: ["go": .refused(.guard), "open": .accepted],
      hold: .doubt(prepared))
    let doubt =
      #"{"composite":"lift","event":"stop","participant":"door","since":1700000000000000000,"#
      + #""transaction":"3.17"}"#
    #expect(
      try JSONValue(encoding: node).text
        == #"{"events":{"go":"guard","open":"accepted"},"hold":{"doubt":{"_0":\#(doubt)}},"#
        + #""state":"shut","version":4}"#)
    #expect(try JSONValue(encoding: node).decode(NodeExplanation.self) == node)
    let coordinator = CoordinatorExplanation(
      connected: ["door"],
      transactions: [.init(transaction: prepared.transaction, participants: ["door"])])
    #expect(
      try JSONValue(encoding: coordinator).text
        == #"{"connected":["door"],"#
        + #""transactions":[{"participants":["door"],"transaction":"3.17"}]}"#)
  }

  @Test(
    "The reasons that block a node are encoded as documented",
    arguments: [
      (.transition, #"{"transition":{}}"#), (.pipes(["a", "b"]), #"{"pipes":{"_0":["a","b"]}}"#),
    ] as [(NodeExplanation.Hold, String)])
  func holds(hold: NodeExplanation.Hold, json: String) throws {
    #expect(try JSONValue(encoding: hold).text == json)
    #expect(try JSONValue(parsing: json.utf8).decode(NodeExplanation.Hold.self) == hold)
  }

  @Test("The frame that drops a dead letter and its reply match the documented bytes")
  func deadLetter() {
    #expect(
      FrameHeader(.deadLetter, count: 1, sequence: 7, incarnationOrSession: 9).frame() == [
        0x70, 3, 18, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
      ])
    #expect(
      FrameHeader(.reply, count: RequestReply.Code.done.rawValue, sequence: 7).frame() == [
        0x70, 3, 17, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      ])
  }
}
