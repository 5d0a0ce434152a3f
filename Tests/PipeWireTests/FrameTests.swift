import PipeMachines
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Frames of the wire protocol")
struct FrameTests {
  @Test("The header's bytes match the protocol document")
  func golden() {
    let header = FrameHeader(
      .events, flags: 0, count: 2, sequence: 0x0102_0304_0506_0708, incarnationOrSession: 9)
    #expect(
      header.frame() == [
        0x70, 3, 2, 0, 2, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0,
      ])
  }

  @Test("For each event, a batch has the event's length and then its bytes")
  func goldenBatch() {
    var batch = EventBatch(first: 5)
    batch.append { $0 += Array("\"go\"".utf8) }
    batch.append { $0 += Array("{\"a\":{}}".utf8) }
    #expect(batch.lastSequence == 6)
    #expect(
      batch.bytes == [4, 0, 0, 0] + Array("\"go\"".utf8) + [8, 0, 0, 0] + Array("{\"a\":{}}".utf8))
    var events: [String] = []
    batch.bytes.withUnsafeBytes { body in
      try? EventBatch.forEach(in: body, count: 2) {
        events.append(String(decoding: $0, as: UTF8.self))
      }
    }
    #expect(events == ["\"go\"", "{\"a\":{}}"])
  }

  @Test("The bytes of the greeting and the hello frame match the protocol document")
  func goldenGreeting() throws {
    let greeting =
      #"{"error":"/run/d.err","isDetached":true,"orchestrator":4711,"output":"/run/d.out"}"#
    let head: [UInt8] = [0x70, 3, 60, 0, 0, 0, 0, 0] + zeros(16)
    #expect(FrameHeader(.greet).frame(body: Array(greeting.utf8)) == head + Array(greeting.utf8))
    let read = try JSONValue(parsing: greeting.utf8).decode(NodeGreeting.self)
    #expect(
      read
        == NodeGreeting(
          orchestrator: 4711, isDetached: true, output: "/run/d.out", error: "/run/d.err"))
    #expect(try JSONValue(encoding: read).text == greeting)
    let description =
      #"{"alphabet":[],"events":[],"inPorts":[],"initial":"on","machine":"M","outPorts":[],"#
      + #""outputs":[],"states":[]}"#
    let hello =
      #"{"description":\#(description),"failure":"its journal is damaged","incarnation":3,"#
      + #""node":"d","phase":"running","pid":7}"#
    let answer = try JSONValue(parsing: hello.utf8).decode(NodeHello.self)
    #expect(answer.phase == .running && answer.failure == "its journal is damaged")
    #expect(try JSONValue(encoding: answer).text == hello)
    // A hello of a node without phase and failure.
    let plain = #"{"description":\#(description),"incarnation":3,"node":"d","pid":7}"#
    let fresh = try JSONValue(parsing: plain.utf8).decode(NodeHello.self)
    #expect(fresh.phase == nil && fresh.failure == nil)
  }

  @Test("The protocol document lists each frame kind with its number, and no others")
  func documented() throws {
    let text = try #require(FileSystem.text(of: packageRoot + "/docs/PROTOCOL.md"))
    var documented: [UInt8: String] = [:]
    for row in text.matches(of: /(?m)^\| ([0-9]+) `([a-zA-Z]+)` \|/) {
      documented[try #require(UInt8(row.1))] = String(row.2)
    }
    let kinds = FrameKind.allCases.map { ($0.rawValue, "\($0)") }
    #expect(documented == Dictionary(uniqueKeysWithValues: kinds))
  }

  @Test("Every kind of frame is preserved by encoding and decoding", arguments: FrameKind.allCases)
  func roundTrip(kind: FrameKind) throws {
    let header = FrameHeader(
      kind, flags: 3, count: .max, sequence: .max - 1, incarnationOrSession: 1 << 40)
    let frame = header.frame(body: [1, 2, 3])
    let read = try frame.withUnsafeBytes { try FrameHeader($0) }
    #expect(read == header)
    #expect(Array(frame.dropFirst(FrameHeader.byteCount)) == [1, 2, 3])
  }

  @Test(
    "Bytes that are not a frame are refused with the reason",
    arguments: [
      ([], FrameError.short(byteCount: 0)),
      ([0x70, 3, 2], .short(byteCount: 3)),
      ([0x71, 1, 2] + zeros(21), .magic(0x71)),
      ([0x70, 9, 2] + zeros(21), .version(9)),
      ([0x70, 3, 200] + zeros(21), .kind(200)),
    ] as [([UInt8], FrameError)])
  func garbage(bytes: [UInt8], error: FrameError) {
    #expect(throws: error) { try bytes.withUnsafeBytes { try FrameHeader($0) } }
  }

  @Test(
    "A body whose lengths do not match its size is refused as a whole",
    arguments: [
      ([], 1), ([1, 0, 0, 0], 1), ([1, 0, 0, 0, 65], 2), ([1, 0, 0, 0, 65, 66], 1),
      ([255, 255, 255, 255, 65], 1), ([1, 0, 0, 0, 65, 9, 0, 0, 0, 65], 2),
    ] as [([UInt8], UInt32)])
  func badBatch(bytes: [UInt8], count: UInt32) {
    var seen = 0
    #expect(throws: FrameError.body(.events)) {
      try bytes.withUnsafeBytes { body in
        try EventBatch.forEach(in: body, count: count) { _ in seen += 1 }
      }
    }
    #expect(seen == 0)
  }
}

private func zeros(_ count: Int) -> [UInt8] { Array(repeating: 0, count: count) }
