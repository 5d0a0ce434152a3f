import PipeMachines
import Testing

@Suite("The JSON of events")
struct EventCodecTests {
  enum Event: MachineEvent, Equatable {
    case bare
    case other
    case one(Int)
    case labelled(name: String, count: Int?)
  }

  @Test(
    "is a bare label, or what Codable writes",
    arguments: [
      (Event.bare, #""bare""#),
      (.one(4), #"{"one":{"_0":4}}"#),
    ])
  func encodes(event: Event, text: String) throws {
    #expect(String(decoding: try EventCodec<Event>().encode(event), as: UTF8.self) == text)
  }

  @Test(
    "is read in both forms",
    arguments: [
      (#""other""#, Event.other),
      (#"{"other":{}}"#, .other),
      (#"{ "one": { "_0": 4 } }"#, .one(4)),
      (#"{"labelled":{"name":"a","count":2}}"#, .labelled(name: "a", count: 2)),
      (#"{"labelled":{"name":"a"}}"#, .labelled(name: "a", count: nil)),
    ])
  func decodes(text: String, event: Event) throws {
    #expect(try EventCodec<Event>().decode(Array(text.utf8)) == event)
  }

  @Test("what is no event is answered with what the type takes")
  func undecodable() throws {
    let error = #expect(throws: UndecodableValue.self) {
      try EventCodec<Event>().decode(Array(#"{"on":{}}"#.utf8))
    }
    #expect(
      "\(try #require(error))"
        == #"'{"on":{}}' is not a value of EventCodecTests.Event; it takes one(Int), "#
        + "labelled(name: String, count: Optional<Int>), bare, other")
    #expect(throws: UndecodableValue.self) { try EventCodec<Event>().decode([]) }
    #expect(throws: UndecodableValue.self) {
      try EventCodec<Event>().decode(Array("\"unknown\"".utf8))
    }
  }
}
