import PipeMachines
import Testing

@Suite("The key field of an instance")
struct InstanceKeyTests {
  private func key(_ event: String, field: String = "order") throws(InstanceKeyError) -> String {
    var reader = InstanceKeyReader(field: field)
    return try reader.key(ofEvent: Array(event.utf8)).text
  }

  @Test(
    "An instance's key is the text of the event's key field",
    arguments: [
      (#"{"pay":{"order":"4711","amount":3}}"#, "4711"),
      (#"{"pay":{"amount":3,"order":"4711"}}"#, "4711"),
      (#"{"pay":{"order":4711}}"#, "4711"), (#"{"pay":{"order":-1}}"#, "-1"),
      (#"{"pay":{"order":9223372036854775807}}"#, "9223372036854775807"),
      (#"{"pay":{"_0":{"amount":3,"order":"4711"}}}"#, "4711"),
      (#"{"pay":{"order":"a\"b\u00e9"}}"#, "a\"b\u{E9}"),
      (#" { "pay" : { "order" : "4711" } } "#, "4711"),
      (#"{"pay":{"note":{"order":"x"},"order":"y"}}"#, "y"),
    ])
  func found(event: String, expected: String) throws {
    #expect(try key(event) == expected)
  }

  @Test(
    "An event without the key field has no key",
    arguments: [
      #""pay""#, #"{"pay":{}}"#, #"{"pay":{"amount":3}}"#, #"{"pay":{"order":null}}"#,
      #"{"pay":{"note":{"order":"x"}}}"#, #"{"pay":{"_0":"x"}}"#,
      #"{"pay":{"_0":{"order":"x"},"_1":2}}"#, "", "[]", "{",
    ])
  func missing(event: String) {
    #expect(throws: InstanceKeyError.missing(field: "order")) { try key(event) }
  }

  @Test(
    "Only a string or an integer can be a key",
    arguments: ["1.5", "1e3", "true", "[]", #"{"a":1}"#, "123456789012345678901"])
  func unsupported(value: String) {
    #expect(throws: InstanceKeyError.unsupported(field: "order", value: value)) {
      try key(#"{"pay":{"order":\#(value)}}"#)
    }
  }

  @Test("A key has at least one byte and at most 1,024")
  func length() throws {
    #expect(throws: InstanceKeyError.empty) { try key(#"{"pay":{"order":""}}"#) }
    let longest = String(repeating: "x", count: 1_024)
    #expect(try key(#"{"pay":{"order":"\#(longest)"}}"#) == longest)
    #expect(throws: InstanceKeyError.tooLong(byteCount: 1_025)) {
      try key(#"{"pay":{"order":"\#(longest)x"}}"#)
    }
  }

  @Test("Two keys are equal only if their bytes are equal")
  func equality() throws {
    let composed = try InstanceKey("\u{E9}")
    let decomposed = try InstanceKey("e\u{301}")
    #expect(composed.text == decomposed.text)
    #expect(composed != decomposed)
    #expect(Set([composed, decomposed, try InstanceKey("\u{E9}")]).count == 2)
  }

  @Test("A machine refuses every event in its final states")
  func ending() throws {
    enum State: MachineState, Equatable { case open, closed }
    enum Event: MachineEvent { case close, open }
    let machine = StateMachine<State, Event, Never>(
      initial: State.open, reduce: { _, event in event == .close ? .closed : .open })
    let closed = try #require(EnumCases<State>.names.firstIndex(of: "closed"))
    let ending = machine.ending(in: [closed])
    #expect(ending.evaluate(.close, in: .open) == .accepted)
    #expect(ending.evaluate(.open, in: .closed) == .refused(.ended))
    #expect(machine.evaluate(.open, in: .closed) == .accepted)
  }

  @Test(
    "The slot of a key is the same in every version of PipeRuntime",
    arguments: [("4711", 5), ("a", 288), ("\u{E9}", 604)])
  func slot(text: String, slot: Int) throws {
    #expect(try InstanceKey(text).slot == slot)
  }

  @Test("Consecutive keys are spread evenly over the slots")
  func slots() throws {
    var counts = [Int](repeating: 0, count: InstanceKey.slotCount)
    for number in 0..<102_400 { counts[try InstanceKey("order-\(number)").slot] += 1 }
    #expect(counts.allSatisfy { (50...200).contains($0) })
  }
}
