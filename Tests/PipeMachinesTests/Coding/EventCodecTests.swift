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
    "An event is encoded as a bare label or in the form of Codable",
    arguments: [
      (Event.bare, #""bare""#),
      (.one(4), #"{"one":{"_0":4}}"#),
    ])
  func encodes(event: Event, text: String) throws {
    #expect(String(decoding: try EventCodec<Event>().encode(event), as: UTF8.self) == text)
  }

  @Test(
    "An event is decoded from a bare label and from the form of Codable",
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

  @Test("If a text is not an event, the error lists the type's cases")
  func undecodable() throws {
    let error = #expect(throws: UndecodableValue.self) {
      try EventCodec<Event>().decode(Array(#"{"on":{}}"#.utf8))
    }
    #expect(
      "\(try #require(error))"
        == #"'{"on":{}}' is not a value of EventCodecTests.Event; its cases are one(Int), "#
        + "labelled(name: String, count: Optional<Int>), bare, other")
    #expect(throws: UndecodableValue.self) { try EventCodec<Event>().decode([]) }
    #expect(throws: UndecodableValue.self) {
      try EventCodec<Event>().decode(Array("\"unknown\"".utf8))
    }
  }
}
